"""ClearPasswordServer: a login that cloud services use, in front of a real server.

It asks each client for its password by ``mysql_clear_password``, as the plugins of RDS, Cloud SQL
and Azure for tokens do, compares it with the valid tokens, and logs in to the real server itself.
Then it forwards bytes. Both connections have TLS, with the client's capabilities.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

from pymysql._auth import scramble_caching_sha2

from .server import PLANTED

_SSL = 0x800
_CLEAR = b"mysql_clear_password"
_ACCESS_DENIED = 1045


class ClearPasswordServer:
    """``accepts`` decides about each token; ``tokens`` are those that clients sent."""

    def __init__(
        self, target: int, certificate: str, key: str, accepts: Callable[[str], bool]
    ) -> None:
        self.target, self.accepts, self.tokens = target, accepts, list[str]()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._upstream = ssl.create_default_context()
        self._upstream.check_hostname = False
        self._upstream.verify_mode = ssl.CERT_NONE
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ClearPasswordServer:
        return self

    def __exit__(self, *args: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            suppress(OSError, EOFError),
            socket.create_connection(("127.0.0.1", self.target)) as server,
        ):
            greeting = _read(server)
            _write(client, 0, greeting)
            request = _read(client)
            number = 2
            if int.from_bytes(request[:4], "little") & _SSL and len(request) == 32:
                client = self._context.wrap_socket(client, server_side=True)
                request, number = _read(client), 3
            _write(client, number, b"\xfe" + _CLEAR + b"\0")
            token = _read(client).rstrip(b"\0").decode()
            self.tokens.append(token)
            if not self.accepts(token):
                text = b"Access denied for user (using token)"
                _write(client, number + 2, b"\xff" + _ACCESS_DENIED.to_bytes(2, "little")
                       + b"#28000" + text)  # fmt: skip
                client.close()
                return
            upstream, ok = _log_in(self._upstream, server, greeting, request)
            _write(client, number + 2, ok)
            _forward(client, upstream)


def _log_in(
    context: ssl.SSLContext, server: socket.socket, greeting: bytes, request: bytes
) -> tuple[socket.socket, bytes]:
    """Log in as ``planted`` with a client's capabilities; return the connection and its OK."""
    end = greeting.index(b"\0", 1)
    salt = greeting[end + 5 : end + 13] + greeting[end + 32 : end + 44]
    flags = int.from_bytes(request[:4], "little") | _SSL
    fixed = flags.to_bytes(4, "little") + request[4:32]
    _write(server, 1, fixed)
    upstream = context.wrap_socket(server)
    proof = scramble_caching_sha2(PLANTED.encode(), salt)
    assert len(proof) == hashlib.sha256().digest_size
    rest = request[request.index(b"\0", 32) + 1 :]
    after = rest[1 + rest[0] :]  # the client's plugin and attributes
    _write(upstream, 2, fixed + b"planted\0" + bytes([len(proof)]) + proof
           + b"caching_sha2_password\0" + after[after.index(b"\0") + 1 :])  # fmt: skip
    number, answer = 3, _read(upstream)
    while answer[:1] == b"\x01":
        number += 1
        if answer[1:] == b"\x04":  # the server has no hash of it in memory
            _write(upstream, number, PLANTED.encode() + b"\0")
            number += 1
        answer = _read(upstream)
    return upstream, answer


def _read(connection: socket.socket) -> bytes:
    """Return the payload of a packet. Raise EOFError at the end of the stream."""
    head = _exactly(connection, 4)
    return _exactly(connection, int.from_bytes(head[:3], "little"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _write(connection: socket.socket, number: int, payload: bytes) -> None:
    connection.sendall(len(payload).to_bytes(3, "little") + bytes([number]) + payload)


def _forward(client: socket.socket, server: socket.socket) -> None:
    """Copy bytes both ways until one side closes."""

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=copy, args=(server, client), daemon=True).start()
    copy(client, server)
