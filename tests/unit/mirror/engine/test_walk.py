"""Test that docs/data-plane/batch-path.md shows the walk of a batch, and that walks do not grow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.tracing import Length, described, length_of
from tests.walk import walk_of_batch

PAGE: Final = Path(__file__).parents[4] / "docs/data-plane/batch-path.md"
LIMITS: Final = Length(38, 6_848, 197)
"""Targets: 20 files, 4,500 lines, 8 returns. Lower a number if the walk gets shorter; never raise one."""


def test_the_page_shows_the_walk_of_a_batch() -> None:
    (shown,) = re.findall(r"```text\n(mirror/.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found = described(walk_of_batch())
    assert files_of(shown) == files_of(found), "run python -m tests.walk"


def files_of(text: str) -> list[str]:
    """Return the files, without lines and functions, which change with every edit."""
    return re.findall(r"^\S+\.py", text, re.MULTILINE)


def test_the_walk_of_a_batch_does_not_grow() -> None:
    found = length_of(walk_of_batch())
    assert all(length <= most for length, most in zip(found, LIMITS, strict=True)), found
