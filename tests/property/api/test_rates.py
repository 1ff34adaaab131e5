"""Properties of a token bucket for any sequence of calls."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from api.access.gate import Bucket, Rate, take

RATES: Final = st.builds(Rate, st.floats(0.01, 1_000_000), st.integers(1, 1_000).map(float))
PAUSES: Final = st.lists(st.one_of(st.just(0.0), st.floats(0, 100)), min_size=1, max_size=60)
CLOSE: Final = 1e-6


def let_through(rate: Rate, moments: list[float]) -> list[float]:
    found, bucket = [], None
    for now in moments:
        bucket, seconds = take(rate, bucket, now)
        assert 0.0 <= bucket.left <= rate.burst
        if not seconds:
            found.append(now)
    return found


@given(RATES, PAUSES)
def test_no_while_has_more_than_the_burst_and_the_rate(rate: Rate, pauses: list[float]) -> None:
    passed = let_through(rate, list(accumulate(pauses)))
    for first, begin in enumerate(passed):
        for last, end in enumerate(passed[first:], 1):
            assert last <= rate.burst + rate.per_second * (end - begin) * (1 + CLOSE) + CLOSE


@given(RATES, PAUSES)
def test_who_is_refused_loses_nothing(rate: Rate, pauses: list[float]) -> None:
    """Otherwise a caller that retries all the time would never be admitted."""
    moments = list(accumulate(pauses))
    passed = let_through(rate, moments)
    assert len(let_through(rate, passed)) == len(passed)
    assert passed[0] == moments[0]


@given(RATES, st.floats(0, 0.999), st.floats(0, 1_000_000))
def test_who_waits_as_told_is_let_through(rate: Rate, left: float, now: float) -> None:
    after, seconds = take(rate, Bucket(left, now), now)
    assert seconds > 0
    assert take(rate, after, now + seconds * (1 + CLOSE) + CLOSE)[1] == 0.0


@given(RATES, st.floats(0, 0.999), st.floats(0, 100), st.floats(0, 100))
def test_a_clock_that_goes_back_gives_nothing(rate: Rate, left: float, now: float, back: float) -> None:
    after, seconds = take(rate, Bucket(left, now), now - back)
    assert (after, seconds > 0) == (Bucket(left, now), True)
