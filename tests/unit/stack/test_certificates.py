"""The trust store: in Java's format, with the certificates that Python trusts."""

from __future__ import annotations

import hashlib
import ssl
import struct
import subprocess
from pathlib import Path

import pytest

from stack.jars import certificates
from stack.jars.java import bundled_java


def test_the_store_is_jks_with_a_right_seal() -> None:
    store = certificates.trust_store([b"two", b"one!"])
    body, seal = store[:-20], store[-20:]
    assert struct.unpack_from(">III", body) == (0xFEEDFEED, 2, 2)
    assert seal == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    assert body.endswith(struct.pack(">I", 3) + b"two")


def test_certificates_of_the_named_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "authority.pem"
    file.write_text(
        "about it\n" + ssl.DER_cert_to_PEM_cert(b"some bytes") + ssl.DER_cert_to_PEM_cert(b"more")
    )
    monkeypatch.setenv("PIP_CERT", str(file))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(tmp_path / "missing.pem"))
    assert {b"some bytes", b"more"} <= certificates.trusted_certificates()


def test_java_reads_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "made" / "trust.jks"
    count = certificates.write_trust_store(file)
    assert count > 50  # certifi or the system has more than a hundred
    keytool = bundled_java().home / "bin" / "keytool"
    listing = subprocess.run(
        [keytool, "-J-Duser.language=en", "-list", "-keystore", file, "-storepass", certificates.PASSWORD],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"Your keystore contains {count} entries" in listing
