"""Test how many files a sample and a breach pass through."""

from __future__ import annotations

from typing import Final

import pytest

from tests.loop_walks import walk_of_breach, walk_of_sample
from tests.tracing import Length, length_of

pytestmark = pytest.mark.deep

SAMPLE: Final = Length(14, 2_300, 32)
"""Target: 22 files."""
BREACH: Final = Length(137, 27_400, 990)
"""Target: 18 files. Lower a number if a walk gets shorter; never raise one."""


def test_the_way_from_a_sample_to_its_row_does_not_grow() -> None:
    """`python -m tests.walk sample` prints the way."""
    found = length_of(walk_of_sample())
    assert all(length <= most for length, most in zip(found, SAMPLE, strict=True)), found


def test_the_way_from_late_records_to_the_move_does_not_grow() -> None:
    """`python -m tests.walk breach` prints the way."""
    found = length_of(walk_of_breach())
    assert all(length <= most for length, most in zip(found, BREACH, strict=True)), found
