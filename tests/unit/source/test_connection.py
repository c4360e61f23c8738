"""How a connection that can't be made is told: what may pass by itself, and what will not."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from pymysql import _auth
from pymysql.err import OperationalError

from spark_repl.config import Source
from spark_repl.errors import SourceError, SourceLostError
from spark_repl.gtid import GtidSet
from spark_repl.source.account import addresses, tls_of
from spark_repl.source.connection import Server as Found
from spark_repl.source.connection import _Answer, connect
from spark_repl.source.connection import _connect_error as connect_error
from spark_repl.source.source_check import check_source

# PROTOCOL_41, SSL, SECURE_CONNECTION, PLUGIN_AUTH
_CAPABILITIES = 0x0200 | 0x0800 | 0x8000 | 1 << 19
_GREETING = (
    b"\x0a9.7.0\0" + struct.pack("<I", 1) + b"12345678\0"
    + struct.pack("<H", _CAPABILITIES & 0xFFFF)
    + b"\xff\x02\0" + struct.pack("<HB", _CAPABILITIES >> 16, 21) + bytes(10) + b"123456789012\0"
    + b"caching_sha2_password\0"
)  # fmt: skip


@pytest.mark.parametrize("answer", [b"", b"no TLS at all, but some other protocol's words"])
def test_cut_in_the_tls_handshake_may_pass(answer: bytes) -> None:
    """A wire that breaks is not a certificate that is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(len(_GREETING).to_bytes(3, "little") + b"\0" + _GREETING)
                client.recv(36)  # the request for TLS; the handshake follows
                client.recv(1)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        source = Source(port=listener.getsockname()[1], tls="required")
        with pytest.raises(SourceError) as caught:
            connect(source)
        thread.join()
    assert isinstance(caught.value, SourceLostError) == (not answer)


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({}, "preferred"),
        ({"host": "localhost"}, "preferred"),
        ({"host": "127.8.0.1"}, "preferred"),
        ({"host": "::1"}, "preferred"),
        ({"host": "db.example.com", "socket": "/run/mysqld.sock"}, "preferred"),
        ({"host": "db.example.com"}, "required"),
        ({"host": "localhost.example.com"}, "required"),
        ({"host": "10.0.0.1"}, "required"),
        ({"host": "127.0.0.1.example.com"}, "required"),
        ({"tls_ca": "ca.pem"}, "verify_ca"),
        ({"host": "db.example.com", "tls_ca": "ca.pem"}, "verify_ca"),
        ({"host": "db.example.com", "tls": "preferred"}, "preferred"),
        ({"host": "db.example.com", "tls": "disabled"}, "disabled"),
        ({"host": "db.example.com", "tls_ca": "ca.pem", "tls": "verify_identity"},
         "verify_identity"),
    ],
)  # fmt: skip
def test_tls_is_required_of_a_server_elsewhere(values: dict[str, str], mode: str) -> None:
    assert tls_of(Source(**values)) == mode  # type: ignore[arg-type]


def test_tls_is_decided_for_each_host_that_may_be_failed_over_to() -> None:
    source = Source(socket="/run/mysqld.sock", hosts=("db2:3306", "127.0.0.1:3307"))
    assert list(map(tls_of, addresses(source))) == ["preferred", "required", "preferred"]


def test_no_password_goes_to_a_server_without_tls_where_it_is_required() -> None:
    plain = _GREETING.replace(
        struct.pack("<H", _CAPABILITIES & 0xFFFF), struct.pack("<H", _CAPABILITIES & 0xF7FF), 1
    )
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(len(plain).to_bytes(3, "little") + b"\0" + plain)
                while data := client.recv(4096):
                    heard.extend(data)

        thread = threading.Thread(target=serve)
        thread.start()
        source = Source(port=listener.getsockname()[1], password="secret", tls="required")
        with pytest.raises(SourceError, match="no TLS connection") as caught:
            connect(source)
        thread.join()
    assert not heard and not isinstance(caught.value, SourceLostError)


def test_rsa_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password for caching_sha2_password crosses a plain connection under RSA."""
    monkeypatch.setattr(_auth, "_have_cryptography", False)
    plain = _GREETING.replace(
        struct.pack("<H", _CAPABILITIES & 0xFFFF), struct.pack("<H", _CAPABILITIES & 0xF7FF), 1
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(len(plain).to_bytes(3, "little") + b"\0" + plain)
                client.recv(4096)
                client.sendall(b"\x02\0\0\x02\x01\x04")  # not in the cache: the whole way
                client.recv(4096)
                key = b"\x01-----BEGIN PUBLIC KEY-----\n"
                client.sendall(len(key).to_bytes(3, "little") + b"\x04" + key)
                client.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        source = Source(port=listener.getsockname()[1], password="secret", tls="disabled")
        with pytest.raises(SourceError, match="without TLS") as caught:
            connect(source)
        thread.join()
    assert "pip install 'spark-repl[rsa]'" in str(caught.value.hint)


def test_each_setting_that_does_not_suffice_is_named() -> None:
    def check(source: Source, **variables: str) -> None:
        good = {"log_bin": "ON", "binlog_format": "ROW", "gtid_mode": "ON"}
        found = Found("h", "u", 1, "9.7.0", {**good, **variables}, GtidSet(), GtidSet())
        check_source(found, source)

    check(Source(), binlog_row_image="MINIMAL", binlog_row_metadata="MINIMAL",
          binlog_row_value_options="PARTIAL_JSON")  # fmt: skip
    with pytest.raises(SourceError, match="without a first copy") as caught:
        check(Source(auto_position=False), binlog_row_metadata="MINIMAL")
    assert "binlog_row_metadata = 'FULL'" in str(caught.value.hint)
    with pytest.raises(SourceError) as caught:
        check(Source(server_id=1), log_bin="OFF", binlog_format="MIXED", gtid_mode="OFF")
    for name in ("log_bin", "binlog_format", "gtid_mode", "server_id"):
        assert name in str(caught.value) and name in str(caught.value.hint)
    with pytest.raises(SourceError) as caught:
        check(Source(), gtid_mode="OFF_PERMISSIVE")
    assert str(caught.value.hint).startswith(
        "SET PERSIST enforce_gtid_consistency = ON; SET PERSIST gtid_mode = ON_PERMISSIVE;"
        " SET PERSIST gtid_mode = ON;"
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"password_env": "REPL"}, "export REPL"),
        ({"password_file": "/etc/word"}, "write it into /etc/word"),
        ({"password_command": "token"}, "runs source.password_command"),
        ({"password": "x"}, "write it into the configuration"),
    ],
)
def test_a_refused_password_names_where_a_new_one_goes(values: dict[str, str], said: str) -> None:
    refused = connect_error(Source(**values), OperationalError(1045, "Access denied"))
    assert str(refused.hint).startswith("check source.user") and said in str(refused.hint)
    other = connect_error(Source(**values), OperationalError(1130, "not allowed"))
    assert said not in str(other.hint)


def test_an_expired_certificate_is_to_be_renewed() -> None:
    expired = OperationalError(2026, "certificate verify failed: certificate has expired")
    assert "ALTER INSTANCE RELOAD TLS" in str(connect_error(Source(), expired).hint)
    unknown = OperationalError(2026, "certificate verify failed: self-signed certificate")
    assert "check source.tls_ca" in str(connect_error(Source(), unknown).hint)


@pytest.mark.parametrize("size", [8192, 131_072])  # of Python up to 3.13, and from 3.14 on
def test_an_answer_loses_nothing_of_the_drivers_buffer(size: int) -> None:
    server, client = socket.socketpair()
    sent = bytes(range(256)) * 2000
    with server, client:
        client.settimeout(5)
        threading.Thread(target=lambda: (server.sendall(sent), server.close())).start()
        stream = client.makefile("rb", size)
        assert stream.read(4) == sent[:4]
        answer, space, came = _Answer(stream), bytearray(1 << 18), sent[:4]
        while count := answer.readinto1(memoryview(space)):
            came += space[:count]
    assert came == sent


def test_an_answer_in_the_drivers_buffer_is_not_waited_for() -> None:
    """The server sends nothing after it: a read for more would wait for net_timeout_s."""
    server, client = socket.socketpair()
    with server, client:
        client.settimeout(5)
        server.sendall(b"head" + b"rows")
        stream = client.makefile("rb")
        assert stream.read(4) == b"head"
        answer, space = _Answer(stream), bytearray(1 << 20)
        assert bytes(space[: answer.readinto1(memoryview(space)[:3])]) == b"row"
        assert bytes(space[: answer.readinto1(memoryview(space))]) == b"s"
        server.sendall(b"more")
        assert bytes(space[: answer.readinto1(memoryview(space))]) == b"more"
        server.close()
        assert answer.readinto1(memoryview(space)) == 0


def test_answers_follow_each_other_on_one_connection() -> None:
    """The next answer does not begin with bytes of the one before."""
    server, client = socket.socketpair()
    with server, client:
        client.settimeout(5)
        stream, space = client.makefile("rb"), bytearray(1 << 10)
        for sent in (b"headone", b"headtwo"):
            server.sendall(sent)
            assert stream.read(4) == b"head"
            assert space[: _Answer(stream).readinto1(memoryview(space))] == sent[4:]
