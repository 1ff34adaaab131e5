"""Signed reports: pages, signatures, and the commands that write and check them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from headrace.__main__ import app
from headrace.dr.report_page import page_of
from mirror.audit.certificate import check_page, read_certificate, sign, sign_page
from mirror.errors import CorruptData
from mirror.jobs.dr.operation import (
    MovedGroup,
    PairState,
    Step,
    begin,
    completed,
    entered,
    failed,
    operation_of,
)
from mirror.jobs.dr.report import KIND, report_of
from mirror.jobs.dr.settings import PairSettings

KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC: Final = KEY.public_key()
PRIVATE: Final = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
HOSTILE: Final = "</td><script>alert(1)</script>\"' onload=\u202e\x1b[2J-->\ud800&amp;"
PAIR: Final = PairSettings(primary="east", standby="west", datastreams=["orders"], principals=[HOSTILE])


def report(name: str = "payments") -> dict[str, Any]:
    """Return a report in which each text is the name."""
    state = begin(PairState(name=name, active=name, datastreams={}), "west", name, 0, name)
    operation = entered(operation_of(state), Step.LAG_OK, 1).with_(
        groups=(MovedGroup(name=name, positions=1),), notes=(name,), gaps=(name,), ends={name: {0: 1}}
    )
    state = completed(failed(state.with_(operation=operation), name), 2)
    return report_of(state, "", PAIR, 3, name)


class Elements(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def test_hostile_names_are_escaped() -> None:
    hostile, plain = page_of(report(HOSTILE)), page_of(report())
    assert Elements(hostile).found == Elements(plain).found
    assert hostile.replace("\n", "").isprintable()
    assert "-->" not in hostile
    check_page(sign_page(hostile, KEY), PUBLIC)


def test_any_altered_byte_of_a_page_is_refused() -> None:
    data, random = sign_page(page_of(report()), KEY), Random(1)
    check_page(data, PUBLIC)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << random.randrange(8)
        with pytest.raises(CorruptData):
            check_page(bytes(changed), PUBLIC)


@pytest.mark.parametrize("data", [b"", b"<", b"<!-- signature -->\n", sign_page("<p>", KEY) + b"\n"])
def test_other_pages_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptData):
        check_page(data, PUBLIC)


def test_documents_of_other_kinds_are_refused() -> None:
    written = sign(report(HOSTILE), KEY)
    assert read_certificate(written, PUBLIC, KIND)["pair"] == HOSTILE
    with pytest.raises(CorruptData):
        read_certificate(written, PUBLIC)
    with pytest.raises(CorruptData):
        read_certificate(sign({"format": 1}, KEY), PUBLIC, KIND)


def test_the_command_checks_both_files(tmp_path: Path) -> None:
    key, document, page = (tmp_path / name for name in ("key.pem", "report.json", "report.html"))
    key.write_bytes(PRIVATE)
    document.write_bytes(sign(report(), KEY))
    page.write_bytes(sign_page(page_of(report()), KEY))
    for file in (document, page):
        words = ["dr", "report", "check", str(file), "--key", str(key), "--json"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["valid"]
        file.write_bytes(file.read_bytes().replace(b"payments", b"payment5"))
        assert CliRunner().invoke(app, words).exit_code != 0
