"""Authority: signs certificates of servers and clients for tests of TLS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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

    def sign(self, name: str, valid: timedelta = _DAY) -> tuple[str, str]:
        """The files of a certificate for a host, or a client, of that name, and of its key.
        ``valid``: for how long."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        made = _builder(name, self.name, key, valid).add_extension(names, critical=False)
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


def _builder(
    name: str, issuer: str, key: ec.EllipticCurvePrivateKey, valid: timedelta = _DAY
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    subject, by = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer)
    )
    return x509.CertificateBuilder(
        by,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        now - _DAY,
        now + valid,
    )


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
