"""Estimates of the clock skew of brokers, for any sequence of writes and timestamps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.movement.clock_skew import BrokerClocks, ClockSkew, skew_of

NOW_MS = 1_000_000_000
MINUTE_MS = 60_000
skews = st.floats(-100_000, 100_000)
moments = st.floats(0, 5_000)
writes = st.lists(
    st.tuples(st.integers(0, 20_000), moments, moments, st.integers(1, 3)), min_size=1, max_size=12
)


@given(skews, moments, moments)
def test_the_truth_lies_within_the_bound(ahead_ms: float, there_ms: float, back_ms: float) -> None:
    sent, stamped, answered = NOW_MS + 0.5, NOW_MS + 0.5 + there_ms, NOW_MS + 0.5 + there_ms + back_ms
    found = skew_of(int(sent), int(stamped + ahead_ms), int(answered))
    assert abs(found.ahead_ms - ahead_ms) <= found.bound_ms + 1e-3
    assert found.least_ms <= abs(ahead_ms) + 1e-3
    assert found.bound_ms <= (there_ms + back_ms) / 2 + 2


@given(st.dictionaries(st.integers(1, 3), skews, min_size=3), writes)
def test_of_several_brokers_the_one_that_is_off_by_most_counts(
    ahead_ms: dict[int, float], history: list[tuple[int, float, float, int]]
) -> None:
    clocks, now_ms = BrokerClocks(), NOW_MS
    assert clocks.worst(now_ms) is None
    for passed_ms, there_ms, back_ms, broker in history:
        now_ms += passed_ms
        stamped_ms = int(now_ms + there_ms + ahead_ms[broker])
        clocks.acknowledged(broker, now_ms, stamped_ms, int(now_ms + there_ms + back_ms))
        now_ms += int(there_ms + back_ms)
    found = clocks.worst(now_ms)
    assert found is not None
    assert any(abs(found.ahead_ms - ahead_ms[one[3]]) <= found.bound_ms + 1e-3 for one in history)
    assert clocks.worst(now_ms + 6 * MINUTE_MS) is None, "an expired measurement counts"


def test_no_stamp_says_nothing() -> None:
    clocks = BrokerClocks()
    clocks.acknowledged(1, NOW_MS, -1, NOW_MS + 4)
    assert clocks.worst(NOW_MS) is None


def test_a_close_bound_counts_until_the_clock_is_set() -> None:
    clocks = BrokerClocks()
    clocks.acknowledged(1, NOW_MS, NOW_MS + 32, NOW_MS + 4)
    clocks.acknowledged(1, NOW_MS + 1_000, NOW_MS + 1_200, NOW_MS + 1_400)
    assert clocks.worst(NOW_MS + 1_400) == ClockSkew(30.0, 3.0), "the second bound is wider"
    clocks.acknowledged(1, NOW_MS + 2_000, NOW_MS - 6_000, NOW_MS + 2_400)
    assert clocks.worst(NOW_MS + 2_400) == ClockSkew(-8_200.0, 201.0)
