"""The source's certificate is checked by the authority that is given, and its name where asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from spark_repl.errors import SourceError
from spark_repl.source.connection import connect
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Server

_DAY = timedelta(days=1)


class Authority:
    """One that signs; ``folder/NAME.pem`` is its certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.file = str(folder / f"{name}.pem")
        self._key = ec.generate_private_key(ec.SECP256R1())
        basic = x509.BasicConstraints(ca=True, path_length=None)
        made = _builder(name, name, self._key).add_extension(basic, critical=True)
        _write(folder / f"{name}.pem", made.sign(self._key, hashes.SHA256()))

    def sign(self, name: str) -> tuple[str, str]:
        """The files of a certificate for a host, or a client, of that name, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        made = _builder(name, self.name, key).add_extension(names, critical=False)
        certificate, private = (self.folder / f"{name}-{part}.pem" for part in ("cert", "key"))
        _write(certificate, made.sign(self._key, hashes.SHA256()))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )  # fmt: skip
        private.chmod(0o600)
        return str(certificate), str(private)


def _builder(name: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    subject, by = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer)
    )
    return x509.CertificateBuilder(
        by, subject, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY
    )


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def test_a_certificate_is_checked(make_server: Callable[..., Server], tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    certificate, key = ours.sign("localhost")
    server = make_server(f"--ssl-ca={ours.file}", f"--ssl-cert={certificate}", f"--ssl-key={key}")
    server.query("CREATE USER 'known'@'%' IDENTIFIED BY 'k' REQUIRE X509")

    def cipher(**values: str) -> str:
        connection = connect(config_for(server, tmp_path, **values).source)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
                return str(cursor.fetchone()[1])
        finally:
            connection.close()

    # An authority that is given checks by itself; the name is asked for.
    assert cipher(tls_ca=ours.file)
    assert cipher(tls_ca=ours.file, tls="verify_identity", host="localhost")
    for refused in (
        {"tls_ca": other.file}, {"tls": "verify_ca"},
        {"tls_ca": ours.file, "tls": "verify_identity"},  # 127.0.0.1 is no name in it
    ):  # fmt: skip
        with pytest.raises(SourceError, match="no TLS connection") as caught:
            cipher(**refused)
        assert "source.tls_ca" in str(caught.value.hint)

    # A client's own certificate.
    known = {"user": "known", "password": "k", "tls_ca": ours.file}
    with pytest.raises(SourceError, match="Access denied"):
        cipher(**known)
    mine, secret = ours.sign("client")
    assert cipher(**known, tls_cert=mine, tls_key=secret)

    # The log comes by a connection of that kind.
    checked = config_for(
        server, tmp_path, tls_ca=ours.file, tls="verify_identity", host="localhost"
    )
    server.query("CREATE DATABASE t")
    with Running(checked) as running:
        running.wait_for(server.executed)
