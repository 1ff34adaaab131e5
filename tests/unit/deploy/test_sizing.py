"""docs/sizing.md: its figures match docs/benchmarks/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

DOCS: Final = Path(__file__).parents[3] / "docs"
SIZING: Final = (DOCS / "sizing.md").read_text(encoding="utf-8")
MEASURED: Final = "\n".join(
    page.read_text(encoding="utf-8") for page in sorted((DOCS / "benchmarks").glob("*.md"))
)
ROWS: Final = re.findall(r"^\| (batches of .*?) \| ([\d.]+) \| (\d+) \| ([\d.]+) \|$", SIZING, re.MULTILINE)


def case_of(what: str) -> str:
    """Return the block of the drain with these batches."""
    number, _, rest = what.removeprefix("batches of ").partition(" ")
    codec = "none" if "not compressed" in rest else "zstd" if "Zstandard" in rest else "lz4"
    named = {"10": "ten", "1": "one"}.get(number, codec)
    (block,) = re.findall(rf"^    {named}: .*?\n\n", MEASURED, re.MULTILINE | re.DOTALL)
    assert f" in batches of {number} records " in block
    return str(block)


@pytest.mark.parametrize(("what", "mirror", "carried", "broker"), ROWS, ids=[row[0] for row in ROWS])
def test_processor_time_is_as_measured(what: str, mirror: str, carried: str, broker: str) -> None:
    block = case_of(what)
    assert f"mirror CPU: {mirror} against " in block
    assert f"target broker CPU: {broker} against " in block
    assert int(carried) == round(1000 / float(mirror))


def test_every_case_of_the_drain_is_there() -> None:
    assert len(ROWS) == len(re.findall(r"^    \w+: [\d,]+ records, .* partitions$", MEASURED, re.MULTILINE))


@pytest.mark.parametrize(
    ("said", "measured"),
    [
        ("up to 1.9 times the processor time", "mirror CPU: 3.43 against 6.58 of interpreted, 1/1.9"),
        ("after 6.4 s (median of ten", "instance killed: longest gap of its partitions                 6.39"),
        ("3.20 s of processor time", "first plan, with all datastreams new            3.20"),
        ("A change takes 0.15 s", "a topic got one more partition                  0.15"),
        ("a tick without changes 0.04 s", "no change                                       0.04"),
        ("takes 0.30 % of a core", "an evaluation, 0 datastreams late                   30 ms    0.30 %"),
        ("20,000 mostly idle partitions | 129 |", "                 0         129     132          84"),
        ("busy partitions | 59 to 62 |", "    ten                200        61.6            120.8"),
    ],
)
def test_what_the_page_says_was_measured(said: str, measured: str) -> None:
    assert said in SIZING
    assert measured in MEASURED
