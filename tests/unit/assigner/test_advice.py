"""Advice for autoscalers and operators, derived from the need of groups."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assigner.advice.decide import AdviceTerms, FleetSize, advise
from assigner.advice.past import past_need
from mirror.model.capacity.advice import HOUR_MS, Advice, GroupNeed, HourNeed, PastNeed
from mirror.model.identifiers import GroupName

MONDAY = 1_767_571_200_000  # 2026-01-05 00:00 UTC
TERMS = AdviceTerms(imminent_hours=2, shrink_after_hours=6)
FLEET = FleetSize(2, 5)


def need(
    now: int | None, coming: tuple[HourNeed, ...] = (), name: str = "orders", tasks: int = 9
) -> GroupNeed:
    return GroupNeed(GroupName(name), tasks, now, coming, "" if coming else "nothing is forecast")


def hours(*most: int, first: int = MONDAY) -> tuple[HourNeed, ...]:
    return tuple(HourNeed(first + n * HOUR_MS, one - 1, one) for n, one in enumerate(most))


def test_a_rise_is_said_a_day_ahead_with_its_interval() -> None:
    found = advise([need(9, hours(*[9] * 8, 14, 12))], FLEET, TERMS, None, MONDAY)
    needed, present = found.sentence.split("; ")
    for fact in ("14 tasks", "3 instances", "Monday 08:00 UTC", "(13 "):
        assert fact in needed
    for fact in ("9 tasks", "2 instances"):
        assert fact in present
    assert found.rises == HourNeed(MONDAY + 8 * HOUR_MS, 13, 14)
    assert (found.required_tasks, found.required_instances) == (9, 2)
    assert (found.peak_instances, found.why) == (3, "")


@pytest.mark.parametrize("groups", [[], [need(None, tasks=0)], [need(0, tasks=0)]])
def test_no_number_is_advised_before_the_first_plan(groups: list[GroupNeed]) -> None:
    found = advise(groups, FleetSize(1, 5), TERMS, None, MONDAY)
    assert (found.required_tasks, found.required_instances, found.instances_at_least) == (None, None, None)
    assert not any(one.isdigit() for one in found.sentence + found.why)


def test_what_is_imminent_is_needed_now() -> None:
    found = advise([need(9, hours(9, 14, 20))], FLEET, TERMS, None, MONDAY)
    assert (found.required_tasks, found.required_instances) == (14, 3)


def test_hours_that_are_over_do_not_count() -> None:
    found = advise([need(3, hours(30, 4, 4))], FLEET, TERMS, None, MONDAY + HOUR_MS)
    assert found.required_tasks == 4
    assert found.peak is not None
    assert found.peak.most_tasks == 4


def test_what_is_not_known_is_no_number() -> None:
    found = advise([need(9), need(None, name="logs")], FLEET, TERMS, None, MONDAY)
    assert (found.required_tasks, found.required_instances, found.sums) == (None, None, None)
    assert "logs" in found.why
    assert "unknown" in found.sentence


def test_what_is_known_is_summed_where_another_need_is_not() -> None:
    groups = [need(9, hours(9, 11, 17)), need(None, name="logs"), need(None, hours(4, 6), name="histds")]
    found = advise(groups, FLEET, TERMS, None, MONDAY)
    assert found.required_tasks is None
    assert (found.tasks_at_least, found.instances_at_least) == (11, 3)
    for fact in ("11 tasks", "3 instances", "logs", "6 tasks"):
        assert fact in found.sentence
    assert found.peak is not None
    assert (found.peak.most_tasks, found.peak_instances) == (17, 4)


def test_nothing_is_at_least_needed_where_nothing_is_known() -> None:
    found = advise([need(None)], FLEET, TERMS, None, MONDAY)
    assert found.tasks_at_least == 0
    assert "at least" not in found.sentence


def test_what_is_needed_is_at_least_needed() -> None:
    before = advise([need(20)], FLEET, TERMS, None, MONDAY)
    found = advise([need(9)], FLEET, TERMS, before, MONDAY)
    assert found.tasks_at_least == found.required_tasks == 20
    assert found.instances_at_least == found.required_instances == 4


def test_without_a_history_only_the_present_is_known_and_that_is_said() -> None:
    found = advise([need(9)], FLEET, TERMS, None, MONDAY)
    assert (found.required_tasks, found.rises, found.peak, found.sums) == (9, None, None, None)
    assert "orders" in found.why
    assert found.why.endswith(": nothing is forecast")
    assert "hours ahead" not in found.sentence


def test_nobody_says_what_an_instance_bears() -> None:
    found = advise([need(9, hours(9))], FleetSize(2, None), TERMS, None, MONDAY)
    assert (found.required_tasks, found.required_instances, found.peak_instances) == (9, None, None)
    assert "assigner.advice.tasks_per_instance" in found.why
    assert found.sums is not None
    assert found.sums.needed_instance_hours is None


def test_a_group_without_a_forecast_needs_in_each_hour_what_it_needs_now() -> None:
    found = advise([need(9, hours(10, 11)), need(4, name="logs", tasks=4)], FLEET, TERMS, None, MONDAY)
    assert found.required_tasks == 15
    assert "logs" in found.why
    assert "orders" not in found.why


def test_what_could_be_saved_is_a_sum_of_hours() -> None:
    found = advise([need(9, hours(4, 6, 4))], FLEET, TERMS, None, MONDAY)
    assert found.sums is not None
    assert (found.sums.task_hours, found.sums.needed_task_hours) == (27, 14)
    assert (found.sums.instance_hours, found.sums.needed_instance_hours) == (6, 4)


def test_the_number_falls_late_and_to_the_most_of_that_time() -> None:
    said: Advice | None = None
    numbers = []
    for hour, now in enumerate([10, 4, 5, 4, 4, 4, 4, 4, 4]):
        said = advise([need(now)], FLEET, TERMS, said, MONDAY + hour * HOUR_MS)
        numbers.append(said.required_tasks)
    assert numbers == [10, 10, 10, 10, 10, 10, 10, 5, 5]


def test_a_leader_whose_clock_was_ahead_does_not_hold_the_number_up() -> None:
    year = 365 * 24 * HOUR_MS
    before = advise([need(9)], FLEET, TERMS, None, MONDAY + year)
    before = advise([need(4)], FLEET, TERMS, before, MONDAY + year)
    for hour in range(8):
        before = advise([need(4)], FLEET, TERMS, before, MONDAY + hour * HOUR_MS)
        assert before.required_tasks == (9 if hour < 6 else 4)


def test_a_dip_is_forgotten_when_the_need_is_back() -> None:
    said: Advice | None = None
    for hour, now in enumerate([10, 4, 4, 4, 4, 10, 4, 4, 4]):
        said = advise([need(now)], FLEET, TERMS, said, MONDAY + hour * HOUR_MS)
    assert said is not None
    assert said.required_tasks == 10
    assert said.lower_since_ms == MONDAY + 6 * HOUR_MS


def test_an_unknown_need_does_not_shrink_what_comes_after() -> None:
    first = advise([need(10)], FLEET, TERMS, None, MONDAY)
    blind = advise([need(None)], FLEET, TERMS, first, MONDAY + HOUR_MS)
    again = advise([need(4)], FLEET, TERMS, blind, MONDAY + 2 * HOUR_MS)
    assert blind.required_tasks is None
    assert again.required_tasks == 10


def test_an_hour_that_one_group_does_not_know_counts_for_none() -> None:
    found = past_need([{1: 4, 2: 2, 3: 3}, {2: 1, 3: 5, 4: 9}], 10, 0)
    assert found == PastNeed(hours=2, task_hours=20, peak_task_hours=16, needed_task_hours=11)


@pytest.mark.parametrize("needs", [[], [{}], [{1: 4}, {}], [{1: 4}, {2: 4}], [{-1: 4}]])
def test_a_time_of_which_no_hour_is_known_is_no_number(needs: list[dict[int, int]]) -> None:
    assert past_need(needs, 3, 0) is None


@given(st.lists(st.dictionaries(st.integers(0, 5), st.integers(0, 9)), max_size=4), st.integers(0, 30))
def test_the_busiest_hour_needs_no_less_than_each(needs: list[dict[int, int]], held: int) -> None:
    found = past_need(needs, held, 2)
    if found is not None:
        assert found.hours == len([hour for hour in range(2, 6) if all(hour in one for one in needs)]) > 0
        assert found.needed_task_hours <= found.peak_task_hours
        assert found.task_hours == held * found.hours


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_the_number_covers_the_need_and_is_not_reversed_within_the_time(
    needs: list[int],
) -> None:
    said: Advice | None = None
    numbers = []
    for hour, now in enumerate(needs):
        said = advise([need(now)], FLEET, TERMS, said, MONDAY + hour * HOUR_MS)
        assert said.required_tasks is not None
        assert said.required_tasks >= now
        numbers.append(said.required_tasks)
    falls = [n for n, (one, other) in enumerate(pairwise(numbers)) if other < one]
    assert all(later - earlier >= 6 for earlier, later in pairwise(falls))


@pytest.mark.parametrize(("tasks", "instances"), [(0, 1), (1, 1), (5, 1), (6, 2), (14, 3)])
def test_instances_for_tasks(tasks: int, instances: int) -> None:
    assert FLEET.needed(tasks) == instances
