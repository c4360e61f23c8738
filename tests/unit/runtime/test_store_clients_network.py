"""How clients reach a store: private authorities, proxies, names of buckets, encryption by a key.

obstore and delta-rs are two clients: each test asks both. Servers between a client and the store
speak TLS, by a certificate that an authority of its own signed, or are a forward proxy.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from deltalake import DeltaTable, write_deltalake

from spark_repl.delta.store import storage
from spark_repl.delta.store.delta_rs_read import opened
from spark_repl.errors import TargetError
from tests.support.s3_server import BUCKET, s3_server

_HOST = "127.0.0.1"


@contextmanager
def tls_server(upstream: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a server that speaks TLS before ``upstream``, and the file of its authority's
    certificate."""
    authority, chain = _certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)

    def serve(client: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(client, server_side=True) as secure:
            _pass_on(secure, _connected(urlsplit(upstream).netloc))

    with _listening(serve) as port:
        yield f"https://{_HOST}:{port}", authority


@contextmanager
def forward_proxy(upstream: str = "") -> Iterator[tuple[str, list[str]]]:
    """The URL of a forward proxy, and the first lines of the requests that it was sent. With
    ``upstream`` each request goes there, whatever host it names."""
    lines = list[str]()

    def serve(client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (part := client.recv(1 << 16)):
                return
            head += part
        lines.append(head.partition(b"\r\n")[0].decode())
        method, asked, _ = lines[-1].split(" ")
        named = asked if method == "CONNECT" else urlsplit(asked).netloc
        server = _connected(urlsplit(upstream).netloc or named)
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            server.sendall(head)
        _pass_on(client, server)

    with _listening(serve) as port:
        yield f"http://{_HOST}:{port}", lines


def _connected(place: str) -> socket.socket:
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)))


@contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port where each connection is served in a thread."""
    with socket.create_server((_HOST, 0)) as server:

        def accept() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions until one side ends."""
    answers = threading.Thread(target=_copy, args=(server, client), daemon=True)
    answers.start()
    _copy(client, server)
    answers.join()
    client.close()
    server.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _certificates(folder: Path) -> tuple[Path, Path]:
    """The files of an authority's certificate, and of a server's with its key."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    signed = [
        _signed("authority", authority_key, authority_key, []),
        _signed(
            "server", key, authority_key,
            [x509.IPAddress(ipaddress.ip_address(_HOST)), x509.DNSName("localhost")],
        ),
    ]  # fmt: skip
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    authority, chain = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(signed[0].public_bytes(pem))
    chain.write_bytes(signed[1].public_bytes(pem) + secret)
    return authority, chain


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey,
    places: list[x509.GeneralName],
) -> x509.Certificate:  # fmt: skip
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not places, path_length=None), critical=True)
    )
    if places:
        builder = builder.add_extension(x509.SubjectAlternativeName(places), critical=False)
    return builder.sign(by, hashes.SHA256())


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture
def url(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return server["AWS_ENDPOINT_URL"]


@pytest.fixture
def folder() -> str:
    return f"s3a://{BUCKET}/{uuid.uuid4()}"


def check_both_clients(folder: str) -> None:
    storage.put_if_absent(f"{folder}/file", b"1")
    assert storage.read(f"{folder}/file") == b"1"
    options = storage.options(folder)
    write_deltalake(f"{folder}/table", pa.table({"id": [1]}), storage_options=options)
    assert DeltaTable(f"{folder}/table", storage_options=options).version() == 0


def test_private_authority_is_trusted_by_ssl_cert_file(
    url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(url, tmp_path) as (secure, authority):
        monkeypatch.setenv("AWS_ENDPOINT_URL", secure)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        check_both_clients(folder)


def test_unknown_authority_is_named(
    url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(url, tmp_path) as (secure, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL", secure)
        with pytest.raises(TargetError, match=r"not trusted \(UnknownIssuer") as caught:
            storage.read(f"{folder}/file")
        assert "SSL_CERT_FILE" in caught.value.hint
        refusal = pytest.raises(TargetError, match=r"not trusted \(UnknownIssuer")
        with refusal, storage.named(folder), opened(folder):
            pass


def test_proxy_of_the_environment_is_used(
    url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPS_PROXY for an endpoint with TLS; NO_PROXY names those that are asked directly."""
    with tls_server(url, tmp_path) as (secure, authority), forward_proxy() as (proxy, lines):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("AWS_ENDPOINT_URL", secure)
        check_both_clients(folder)
        place = secure.removeprefix("https://")
        assert len(lines) > 2 and {*lines} == {f"CONNECT {place} HTTP/1.1"}
        lines.clear()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        # Another name of the endpoint: a client keeps the proxy that it was made with.
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"{secure}/")
        storage.put(f"{folder}/direct", b"1")
        assert lines == []


def test_bucket_in_the_hosts_name(url: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_VIRTUAL_HOSTED_STYLE_REQUEST. The proxy knows the host, which no DNS has here."""
    with forward_proxy(url) as (proxy, lines):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{BUCKET}.s3.example.com")
        monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
        check_both_clients(folder)
    assert all(f"http://{BUCKET}.s3.example.com/{folder.rpartition('/')[2]}" in line
               or "list-type=2" in line for line in lines)  # fmt: skip


def test_objects_are_encrypted_by_the_named_key(
    url: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/0"
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", key)
    check_both_clients(folder)
    with storage.open_output(f"{folder}/parts") as out:
        out.write(bytes(11 << 20))
    store = boto3.client("s3", endpoint_url=url)
    for name in ("file", "parts", f"table/_delta_log/{0:020}.json"):
        path = f"{folder.removeprefix(f's3a://{BUCKET}/')}/{name}"
        answer = store.head_object(Bucket=BUCKET, Key=path)
        assert answer["ServerSideEncryption"] == "aws:kms" and answer["SSEKMSKeyId"] == key
