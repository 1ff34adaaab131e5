"""Test transforms by name, built-in and installed ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.errors import ConfigError
from mirror.protocol.batches.records import Record
from mirror.replication.transforms import load_transforms

RECORD = Record(0, 5, b"key", b'{"a": {"b": 1, "c": 2}}', ((b"one", b"1"), (b"two", None)))


def applied(*names: str, record: Record = RECORD) -> Record | None:
    found: Record | None = record
    for transform in load_transforms(names):
        found = transform(found) if found is not None else None
    return found


def test_headers_are_dropped_and_renamed() -> None:
    changed = applied("drop-header:one", "rename-header:two=three")
    assert changed == RECORD._replace(headers=((b"three", None),))


def test_a_field_is_masked_wherever_there_is_one() -> None:
    changed = applied("mask-field:a.b")
    assert changed is not None
    assert changed.value == b'{"a":{"b":"***","c":2}}'
    for value in (None, b"", b"no json", b"[1]", b'{"a":3}', b'{"b":1}'):
        same = RECORD._replace(value=value)
        assert applied("mask-field:a.b", record=same) == same


def test_records_are_kept_by_their_key() -> None:
    assert applied("keep-keys:ke") == RECORD
    assert applied("keep-keys:other") is None
    assert applied("keep-keys:k", record=RECORD._replace(key=None)) is None


@pytest.mark.parametrize(
    "name",
    [
        "no-such-transform",
        "rename-header:only-one",
        "rename-header:=x",
        "drop-header",
        "drop-header:",
        "mask-field",
        "mask-field:a..b",
        "keep-keys:",
        "",
    ],
)
def test_what_cannot_be_meant_is_refused_with_advice(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_transforms((name,))
    assert refused.value.advice


def test_a_document_that_cannot_be_read_whole_does_not_pass_unmasked() -> None:
    for value in (b'{"a":{"b":1},"n":' + b"9" * 5000 + b"}", b'{"a":' + b"[" * 100_000):
        with pytest.raises((ValueError, RecursionError)):
            applied("mask-field:a.b", record=RECORD._replace(value=value))


@pytest.mark.usefixtures("installed")
def test_a_plug_in_that_fails_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'broken'.*\bshouting:broken\b.*\bZeroDivisionError\b"):
        load_transforms(("broken:x",))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with entry points."""
    (tmp_path / "shouting.py").write_text(
        "def upper(text):\n"
        "    return lambda record: record._replace(key=(record.key or b'').upper() + text.encode())\n"
        "def broken(text):\n"
        "    return 1 / 0\n"
    )
    info = tmp_path / "shouting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[headrace.transforms]\nshout = shouting:upper\nbroken = shouting:broken\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    load_transforms.cache_clear()


@pytest.mark.usefixtures("installed")
def test_an_installed_plug_in_is_found_by_its_entry_point() -> None:
    changed = applied("shout:!", "drop-header:one")
    assert changed == RECORD._replace(key=b"KEY!", headers=((b"two", None),))
