"""Test the capacity of a task: learning it, and its use in a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.capacity.capacity import CapacityInUse, CapacityOrigin, CapacityTerms, capacity_in_use
from mirror.model.capacity.costs import KEPT_HOURS, CostSums, MeasuredCapacity, learned, merged_hours

TERMS = CapacityTerms(None, 10 * 2**20)
MB = 1e6


def an_hour(
    rate: float,
    busy: float = 0.5,
    intervals: int = 60,
    seconds: float = 5.0,
    noise: float = 0.0,
    spare: float = 0.0,
) -> CostSums:
    """Return the costs of a worker that copies `rate` bytes per CPU second in batches of one 1 kB record.

    A full load would not cost the share `spare` of its CPU time.
    """
    found: CostSums | None = None
    for number in range(intervals):
        copied = rate * busy * seconds * (1 + (noise if number % 2 else -noise))
        cpu, count = busy * seconds, copied / 1000
        one = CostSums.of(seconds, cpu, copied, count, count, count, spare * cpu)
        found = found.plus(one) if found else one
    assert found is not None
    return found


def known(rate: float, furthest: float = 1e12) -> MeasuredCapacity:
    return MeasuredCapacity(
        rate, rate / 1000, rate * 0.9, rate * 1.1, furthest, 60, 300.0, 1, 1000.0, 1.0, 1.0
    )


def test_what_a_core_copies_is_bytes_over_cpu_seconds() -> None:
    found = learned({7: an_hour(80 * MB)}, 7)
    assert found is not None
    assert found.bytes_per_second == pytest.approx(80 * MB)
    assert found.messages_per_second == pytest.approx(80_000)
    assert (found.bytes_per_batch, found.records_per_batch, found.passthrough) == pytest.approx((1000, 1, 1))
    assert (found.observations, found.seconds, found.hours) == (60, 300.0, 1)
    assert found.low == pytest.approx(found.high)


def test_the_interval_is_as_wide_as_observations_differ() -> None:
    narrow, wide = (learned({7: an_hour(80 * MB, noise=noise)}, 7) for noise in (0.02, 0.2))
    assert narrow is not None
    assert wide is not None
    assert narrow.low < 80 * MB < narrow.high
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)


def test_what_a_full_load_would_not_cost_is_left_out() -> None:
    """The worker spent half of its CPU time, a tenth of a core, on small responses."""
    hour = an_hour(40 * MB, busy=0.1, spare=0.5)
    found = learned({7: hour}, 7)
    assert found is not None
    assert found.bytes_per_second == pytest.approx(80 * MB)
    assert found.messages_per_second == pytest.approx(80_000)
    assert found.spare == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((72 * MB, 88 * MB)), "a fifth of the correction"
    used = capacity_in_use(TERMS, found, None)
    assert " 50% " in used.why


def test_no_worker_is_so_idle_that_nothing_would_cost_anything() -> None:
    found = learned({7: an_hour(4 * MB, busy=0.1, spare=1.0)}, 7)
    assert found is not None
    assert found.bytes_per_second == pytest.approx(40 * MB)


@pytest.mark.parametrize(
    "hours",
    [
        {},
        {7: an_hour(80 * MB, intervals=1)},
        {7: an_hour(80 * MB, intervals=1, seconds=3600.0)},
        {7: an_hour(80 * MB, intervals=50, seconds=0.5)},
        {7 - KEPT_HOURS: an_hour(80 * MB)},
        {8: an_hour(80 * MB)},
        {6: an_hour(80 * MB, intervals=5), 7: an_hour(80 * MB, intervals=6)},
    ],
)
def test_too_little_says_nothing(hours: dict[int, CostSums]) -> None:
    assert learned(hours, 7) is None


def test_the_dearest_of_the_busy_hours_counts() -> None:
    found = learned({5: an_hour(80 * MB), 6: an_hour(50 * MB, busy=0.4), 7: an_hour(10 * MB, busy=0.06)}, 7)
    assert found is not None
    assert found.bytes_per_second == pytest.approx(50 * MB)
    assert found.hours == 2


def test_a_start_counts_only_while_nothing_else_is_known() -> None:
    start = an_hour(20 * MB, intervals=14)
    alone, beside = learned({7: start}, 7), learned({6: an_hour(80 * MB), 7: start}, 7)
    assert alone is not None
    assert beside is not None
    assert alone.bytes_per_second == pytest.approx(20 * MB)
    assert beside.bytes_per_second == pytest.approx(80 * MB)


def test_a_full_hour_between_two_halves_of_a_minute_hides_nothing() -> None:
    found = learned({6: an_hour(40 * MB, intervals=8), 7: an_hour(80 * MB, intervals=8)}, 7)
    assert found is not None
    assert found.bytes_per_second == pytest.approx(60 * MB)
    assert (found.observations, found.seconds, found.hours) == (16, 80.0, 1)


def test_sums_of_instances_add_up() -> None:
    both = merged_hours([{7: an_hour(80 * MB)}, {7: an_hour(40 * MB), 6: an_hour(MB)}])
    assert both[7].bytes_per_core_second == pytest.approx(60 * MB)
    assert (both[7].observations, both[6].observations) == (120, 60)


def test_a_number_that_is_set_counts_and_what_is_learned_is_shown() -> None:
    settings = capacity_in_use(replace(TERMS, bytes_per_second=5), known(80 * MB), None)
    own = capacity_in_use(replace(TERMS, bytes_per_second=5, of_datastream=True), None, None)
    assert (settings.origin, settings.bytes_per_second) == (CapacityOrigin.SETTING, 5)
    assert settings.learned_bytes_per_second == 80 * MB
    assert (own.origin, own.learned_bytes_per_second) == (CapacityOrigin.DATASTREAM, None)


def test_until_something_is_learned_the_number_of_the_settings_counts() -> None:
    found = capacity_in_use(TERMS, None, None)
    assert (found.origin, found.bytes_per_second) == (CapacityOrigin.UNLEARNED, 10 * 2**20)
    assert found.capacity.usable_bytes_per_second == 10 * 2**20 * 70 // 100


def test_what_is_learned_counts_in_three_digits() -> None:
    found = capacity_in_use(TERMS, known(83.4 * MB), capacity_in_use(TERMS, None, None))
    assert (found.origin, found.bytes_per_second) == (CapacityOrigin.LEARNED, 83_400_000)
    assert (found.low, found.high, found.observations) == (75_060_000, 91_740_000, 60)


@pytest.mark.parametrize(("rate", "used"), [(75, 83), (100, 83), (110, 110), (60, 60)])
def test_it_has_to_differ_by_a_quarter_before_it_counts(rate: int, used: int) -> None:
    before = capacity_in_use(TERMS, known(83 * MB), None)
    found = capacity_in_use(TERMS, known(rate * MB), before)
    assert (found.bytes_per_second, found.learned_bytes_per_second) == (used * MB, rate * MB)


def test_what_was_learned_last_counts_on_after_a_quiet_day() -> None:
    before = capacity_in_use(TERMS, known(83 * MB), None)
    found = capacity_in_use(replace(TERMS, utilisation_percent=50), None, before)
    assert (found.origin, found.bytes_per_second, found.observations) == (CapacityOrigin.LEARNED, 83 * MB, 60)
    assert found.utilisation_percent == 50
    assert "earlier" in found.why


def test_a_constant_of_before_is_nothing_that_was_learned() -> None:
    before = capacity_in_use(replace(TERMS, bytes_per_second=5), known(80 * MB), None)
    assert capacity_in_use(TERMS, None, before).origin is CapacityOrigin.UNLEARNED
    assert capacity_in_use(TERMS, known(80 * MB), before).bytes_per_second == 80 * MB


def test_no_more_is_taken_than_four_times_what_was_seen() -> None:
    found = learned({7: an_hour(800 * MB, busy=0.1)}, 7)
    assert found is not None
    used: CapacityInUse = capacity_in_use(TERMS, found, None)
    assert used.bytes_per_second == 320 * MB
    assert "four times" in used.why
    slow = learned({7: an_hour(800 * MB, busy=0.001)}, 7)
    assert capacity_in_use(TERMS, slow, None).bytes_per_second == 10_500_000
