"""docs/comparison.md: its figures for Headrace match docs/benchmarks/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

DOCS: Final = Path(__file__).parents[3] / "docs"
COMPARISON: Final = (DOCS / "comparison.md").read_text(encoding="utf-8")
BENCHMARKS: Final = "\n".join(
    page.read_text(encoding="utf-8") for page in sorted((DOCS / "benchmarks").glob("*.md"))
)


def row(name: str) -> list[str]:
    """Return the cells of the row with this name."""
    (line,) = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", COMPARISON, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("CPU s of the mirror for a GB, uncompressed", "none"),
        ("… LZ4, batches of 500", "lz4"),
        ("… LZ4, batches of 10", "ten"),
    ],
)
def test_processor_time_is_that_of_the_drains(name: str, case: str) -> None:
    drain = BENCHMARKS.partition(f"    {case}: ")[2].partition("\n\n")[0]
    ours, theirs, loop = row(name)
    assert f"mirror CPU: {ours} against {theirs} of MirrorMaker 2" in drain
    assert f"mirror CPU: {ours} against {loop} of confluent-kafka" in drain


@pytest.mark.parametrize(
    ("column", "engine"), [(0, "headrace"), (1, "MirrorMaker 2"), (2, "confluent-kafka")]
)
def test_latency_is_that_of_the_quiet_machine(column: int, engine: str) -> None:
    table = BENCHMARKS.partition("latency at 1,000 records/s")[2].partition("with 6 processes")[0]
    found = re.search(rf"^ +{engine} +[\d,]+ +([\d.]+) +[\d.]+ +([\d.]+) ", table, re.MULTILINE)
    assert found
    assert row("p50 and p99 at 1,000 records/s")[column] == f"{found[1]}, {found[2]} ms"
