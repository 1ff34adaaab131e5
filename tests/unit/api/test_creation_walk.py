"""Test how many files the creation of a datastream passes through."""

from __future__ import annotations

from typing import Final

import pytest

from tests.creation_walk import creation_walk, lengths_of

MOST_FILES: Final = 110
MOST_LINES: Final = 20_000


@pytest.mark.deep
def test_the_way_from_the_call_to_the_lane_does_not_grow() -> None:
    """`python -m tests.creation_walk` prints the way."""
    lengths = lengths_of(creation_walk())
    assert len(lengths) <= MOST_FILES
    assert sum(lengths.values()) <= MOST_LINES
