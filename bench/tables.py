"""Tables as text and in Markdown, and their places on pages, which are marked by comments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

_NUMBER_WIDTH: Final = 11


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], first_width: int = 40) -> None:
    """Print a table row by row: the first column left-aligned, the others right-aligned."""
    first = max(first_width, len(header[0]))
    widths = [max(_NUMBER_WIDTH, len(name)) for name in header[1:]]
    for name, *cells in chain([header], rows):
        columns = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        print("  ".join([f"{name:<{first}}", *columns]), flush=True)


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
