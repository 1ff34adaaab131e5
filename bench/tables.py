"""Markdown tables, and the marked places on pages where they belong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text_between(page: Path, begin: str, end: str) -> str:
    """Return the text of a page between two markers."""
    return page.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0].strip()


def replace_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replace the text of a page between two markers."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
