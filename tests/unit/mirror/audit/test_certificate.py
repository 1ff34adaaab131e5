"""Certificates: what is signed, and that nothing else passes."""

from __future__ import annotations

import json
from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from mirror.audit.certificate import read_certificate, sign, signing_key, verification_key
from mirror.errors import ConfigError, CorruptData

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
DOCUMENT = {"format": 1, "datastream": "Größe", "partitions": [{"source": {"records": 3, "hash": "00ff"}}]}
PRIVATE = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_signed_certificate_is_read_with_either_half_of_the_key() -> None:
    data = sign(DOCUMENT, signing_key(PRIVATE))
    assert read_certificate(data, verification_key(PUBLIC)) == DOCUMENT
    assert read_certificate(data, verification_key(PRIVATE)) == DOCUMENT


def test_any_altered_byte_is_refused() -> None:
    data, random = sign(DOCUMENT, KEY), Random(1)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << random.randrange(8)
        with pytest.raises(CorruptData):
            read_certificate(bytes(changed), KEY.public_key())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[1]",
        b"{}",
        b"[" * 100_000,
        b'{"signature": 1}',
        b'{"signature": "\xff"}',
        sign(DOCUMENT, KEY)[:-1],
        sign(DOCUMENT, KEY) + b" ",
        json.dumps(json.loads(sign(DOCUMENT, KEY))).encode(),
        sign(DOCUMENT, Ed25519PrivateKey.generate()),
        sign(DOCUMENT | {"format": 2}, KEY),
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptData):
        read_certificate(data, KEY.public_key())


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN PRIVATE KEY-----", b"\xff", PUBLIC])
def test_a_file_without_a_private_key_cannot_sign(pem: bytes) -> None:
    with pytest.raises(ConfigError):
        signing_key(pem)


def test_keys_of_other_kinds_are_refused() -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(ConfigError):
        signing_key(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ConfigError):
        verification_key(other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(ConfigError):
        verification_key(b"no key")
