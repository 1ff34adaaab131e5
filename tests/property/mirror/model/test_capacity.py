"""A learned capacity is stable while its measurements fluctuate, and a planner can always use it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from mirror.model.capacity.capacity import (
    LEAST_CAPACITY,
    CapacityInUse,
    CapacityTerms,
    capacity_in_use,
)
from mirror.model.capacity.costs import CostSums, MeasuredCapacity, learned
from mirror.model.load import LARGEST_CAPACITY

TERMS = CapacityTerms(None, 10 * 2**20)
HUGE = st.floats(min_value=1e-9, max_value=1e25)
RATES = st.floats(min_value=1e5, max_value=1e10)


def _hour(rate: float, busy: float) -> CostSums:
    one = CostSums.of(5.0, busy * 5, rate * busy * 5, 1.0, 1.0, 1.0)
    found = one
    for _ in range(60):
        found = found.plus(one)
    return found


@example(rate=1045825933.0, noise=[0.099609375, -0.09375])
@example(rate=1691428572.0, noise=[0.09375, -0.09375])
@given(RATES, st.lists(st.floats(min_value=-0.1, max_value=0.1), min_size=1, max_size=30))
def test_ten_percent_of_noise_never_change_it(rate: float, noise: list[float]) -> None:
    used: CapacityInUse | None = None
    seen = set()
    for part in noise:
        value = rate * (1 + part)
        found = MeasuredCapacity(value, 1.0, value, value, 1e12, 60, 300.0, 1, 1.0, 1.0, 1.0)
        used = capacity_in_use(TERMS, found, used)
        seen.add(used.bytes_per_second)
    assert len(seen) == 1


@given(
    st.floats(min_value=1e7, max_value=1e9),
    st.floats(min_value=0.05, max_value=1.0),
    st.floats(min_value=0.2, max_value=1.0),
)
def test_batches_that_change_by_the_hour_of_the_day_change_it_at_most_once(
    rate: float, share: float, busy: float
) -> None:
    """Twelve hours of large batches and twelve of small ones, for four days."""
    used: CapacityInUse | None = None
    hours: dict[int, CostSums] = {}
    seen, large, small = [], _hour(rate, busy), _hour(rate * share, busy)
    for hour in range(4 * 24):
        hours[hour] = small if hour % 24 >= 12 else large
        used = capacity_in_use(TERMS, learned(hours, hour), used)
        seen.append(used.bytes_per_second)
    changes = [hour for hour in range(1, len(seen)) if seen[hour] != seen[hour - 1]]
    assert len(changes) <= 1
    assert all(hour <= 12 for hour in changes)


@given(
    st.lists(st.tuples(HUGE, HUGE, HUGE, HUGE, HUGE, st.floats(0, 1)), min_size=1, max_size=40),
    st.integers(min_value=1, max_value=100),
)
def test_hostile_numbers_give_a_capacity_that_a_planner_can_use(
    rows: list[tuple[float, float, float, float, float, float]], percent: int
) -> None:
    sums: CostSums | None = None
    for seconds, cpu, copied, records, batches, spare in rows:
        one = CostSums.of(seconds, cpu, copied, records, batches, batches, spare * cpu)
        sums = sums.plus(one) if sums else one
    assert sums is not None
    used = capacity_in_use(replace(TERMS, utilisation_percent=percent), learned({0: sums}, 0), None)
    assert LEAST_CAPACITY <= used.bytes_per_second <= LARGEST_CAPACITY
    assert used.capacity.usable_bytes_per_second > 0
    if used.low is not None and used.high is not None and used.learned_bytes_per_second is not None:
        assert 0 <= used.low <= used.learned_bytes_per_second <= used.high
