"""Servers between a client and a store's server: one that speaks TLS, and a forward proxy.

Both pass bytes on. The TLS server's certificate is signed by an authority of its own.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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
