"""A time range includes its end."""

from __future__ import annotations

import pytest

from mirror.errors import InvalidRequest
from pinot.time_range import TimeRange


def test_a_sample_at_the_end_is_in_the_range_and_one_at_its_start_is_not() -> None:
    when = TimeRange.up_to(120_000, 60_000)
    assert (when.since_ms, when.until_ms, when.length_ms) == (60_001, 120_001, 60_000)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        TimeRange(5, 5)
