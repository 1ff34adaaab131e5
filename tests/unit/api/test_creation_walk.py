"""Test how many files the creation of a datastream passes through."""

from __future__ import annotations

from typing import Final

import pytest

from tests.tracing import length_of
from tests.walk import walk_of_creation

MOST_FILES: Final = 72
MOST_LINES: Final = 14_670


@pytest.mark.deep
def test_the_way_from_the_call_to_the_lane_does_not_grow() -> None:
    """`python -m tests.walk create` prints the way."""
    length = length_of(walk_of_creation())
    assert length.files <= MOST_FILES
    assert length.lines <= MOST_LINES
