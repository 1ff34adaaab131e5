"""Certificates made for a test, with any validity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """An authority that signs certificates for 127.0.0.1 into files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.file = self._write("authority", self._sign(self._name, self._key, 3650.0, is_authority=True))

    def certificate(self, name: str, days: float) -> Path:
        """Write a certificate and its key into one file; `days` until it expires, negative if it has."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._write(name, self._sign(subject, key, days), key)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: float, *, is_authority: bool = False
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1000))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
            )
        )
        return builder.sign(self._key, hashes.SHA256())

    def _write(
        self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey | None = None
    ) -> Path:
        text = certificate.public_bytes(serialization.Encoding.PEM)
        if key is not None:
            text += key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        file = self._folder / f"{name}.pem"
        file.write_bytes(text)
        return file
