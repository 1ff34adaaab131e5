"""Signs and verifies audit certificates and switch-over reports with Ed25519. Pure.

A certificate is a JSON document with a signature, or signed HTML. A JSON certificate is valid only if the
file is in canonical form, byte for byte.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mirror.errors import ConfigError, CorruptData

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT: Final = 1
_SIGNATURE: Final = "signature"
_PAGE_SIGNATURE: Final = b"<!-- signature %b -->\n"
_PAGE_SIGNATURE_BYTES: Final = len(_PAGE_SIGNATURE % bytes(88))


def signing_key(pem: bytes) -> Ed25519PrivateKey:
    """Read a private key from a PEM file. Raises ConfigError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise _no_key("private") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key("private")
    return key


def verification_key(pem: bytes) -> Ed25519PublicKey:
    """Read a public key from a PEM file with a public or private key. Raises ConfigError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if b"PRIVATE KEY" in pem:
        return signing_key(pem).public_key()
    try:
        key = load_pem_public_key(pem)
    except ValueError as error:
        raise _no_key("public") from error
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key("public")
    return key


def _no_key(kind: str) -> ConfigError:
    return ConfigError(
        f"the file has no Ed25519 {kind} key in PEM format without a password",
        advice="create a key with: openssl genpkey -algorithm ed25519 -out audit.pem",
    )


def sign(document: Mapping[str, Any], key: Ed25519PrivateKey) -> bytes:
    """Return the bytes of a certificate file for a document."""
    signature = base64.b64encode(key.sign(_canonical(document))).decode()
    return _canonical({**document, _SIGNATURE: signature})


def read_certificate(data: bytes, key: Ed25519PublicKey, kind: str = "") -> dict[str, Any]:
    """Verify a certificate file, and return its document. Raises CorruptData if the signature does not match.

    `kind`: expected value of the field `kind`; empty for audit certificates, which lack this field.
    """
    from cryptography.exceptions import InvalidSignature

    try:
        document = json.loads(data)
        signature = base64.b64decode(document.pop(_SIGNATURE), validate=True)
        is_exact = _canonical({**document, _SIGNATURE: base64.b64encode(signature).decode()}) == data
        key.verify(signature, _canonical(document))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, InvalidSignature) as error:
        raise _altered() from error
    if not is_exact:
        raise _altered()
    if document.get("format") != FORMAT:
        raise CorruptData(f"unknown certificate format {document.get('format')!r:.40}")
    if document.get("kind", "") != kind:
        raise CorruptData(
            f"wrong kind of file: a {document.get('kind', 'certificate of an audit')!s:.40}",
            advice="check audits with headrace audit check, and reports with headrace dr report check",
        )
    return dict(document)


def sign_page(page: str, key: Ed25519PrivateKey) -> bytes:
    """Append a comment with the signature of all preceding bytes to an HTML file."""
    content = page.encode()
    return content + _PAGE_SIGNATURE % base64.b64encode(key.sign(content))


def check_page(data: bytes, key: Ed25519PublicKey) -> None:
    """Verify the signature of an HTML file. Raises CorruptData if it does not match."""
    from cryptography.exceptions import InvalidSignature

    content = data[:-_PAGE_SIGNATURE_BYTES]
    try:
        signature = base64.b64decode(data[-_PAGE_SIGNATURE_BYTES:].split()[2], validate=True)
        key.verify(signature, content)
    except (ValueError, LookupError, InvalidSignature) as error:
        raise _altered() from error
    if data != content + _PAGE_SIGNATURE % base64.b64encode(signature):
        raise _altered()


def _altered() -> CorruptData:
    return CorruptData(
        "the certificate was altered, or signed with another key",
        advice="get the original file, and the public key of its signer",
    )


def _canonical(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()
