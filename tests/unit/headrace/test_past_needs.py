"""Test the number of tasks that past hours needed: each hour is computed once."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from assigner.advice.past import LeastTerms, least_tasks, sums_of
from assigner.problem.loads import UNKNOWN_LOAD
from assigner.problem.policy import Policy
from assigner.what_if.document import Fallback
from headrace.foresight.history import DAY, HOUR_MS
from headrace.foresight.needs import WEEK, PastNeeds, Sizing
from headrace.foresight.sums import HourlySums
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSums, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

GROUP: Final = GroupName("orders")
NOW: Final = 1_000 * HOUR_MS + 5
SIZING: Final = Sizing(
    frozenset({TopicPartition("t", 0), TopicPartition("t", 1)}),
    TaskLimits(),
    Fallback(TaskCapacity(100, None, 100), UNKNOWN_LOAD, Policy()),
)
LOADS: Final = [PartitionLoad(90.0, 1.0), PartitionLoad(90.0, 1.0)]
BUSY: Final = sums_of(LOADS, SIZING.how.capacity)
TWICE: Final = replace(SIZING, how=replace(SIZING.how, capacity=TaskCapacity(200, None, 100)))


def past(hours: int, end_ms: int = 1_000 * HOUR_MS, without: int = 0, sums: LoadSums = BUSY) -> HourlySums:
    """The last hours before the end, but one."""
    found = HourlySums(end_ms - hours * HOUR_MS, hours)
    for hour in range(end_ms - hours * HOUR_MS, end_ms, HOUR_MS):
        if hour != without:
            found.put(hour, sums)
    return found


@pytest.fixture
def computed() -> list[LoadSums]:
    """An entry for every hour that is computed."""
    return []


@pytest.fixture
def needs(computed: list[LoadSums]) -> PastNeeds:
    def least(sums: LoadSums, terms: LeastTerms) -> int:
        computed.append(sums)
        return least_tasks(sums, terms)

    return PastNeeds(least)


def test_an_hour_is_computed_once(needs: PastNeeds, computed: list[LoadSums]) -> None:
    assert len(needs.of(GROUP, SIZING, past(300), NOW)) == len(computed) == WEEK
    computed.clear()
    again = needs.of(GROUP, SIZING, past(300, 1_001 * HOUR_MS), NOW + HOUR_MS)
    assert (len(again), len(computed)) == (WEEK, 1)
    assert max(again) == 1_000 * HOUR_MS


def test_another_capacity_computes_the_last_day_again(needs: PastNeeds, computed: list[LoadSums]) -> None:
    first = needs.of(GROUP, SIZING, past(300), NOW)
    computed.clear()
    then = needs.of(GROUP, TWICE, past(300, sums=sums_of(LOADS, TWICE.how.capacity)), NOW)
    assert len(computed) == DAY
    assert [first[hour] for hour in sorted(first)] == [2] * WEEK
    assert [then[hour] for hour in sorted(then)] == [2] * (WEEK - DAY) + [1] * DAY


def test_an_hour_without_a_load_is_not_known_until_it_has_one() -> None:
    needs = PastNeeds()
    silent = 995 * HOUR_MS
    assert silent not in needs.of(GROUP, SIZING, past(10, without=silent), NOW)
    assert needs.of(GROUP, SIZING, past(10), NOW)[silent] == 2


def test_what_left_the_history_is_kept_for_a_week() -> None:
    needs = PastNeeds()
    needs.of(GROUP, SIZING, past(50), NOW)
    assert len(needs.of(GROUP, SIZING, past(2), NOW)) == 50
    assert needs.of(GROUP, SIZING, past(0), NOW + WEEK * HOUR_MS) == {}


def test_a_clock_that_was_ahead_leaves_no_hour_that_is_to_come() -> None:
    needs = PastNeeds()
    needs.of(GROUP, SIZING, past(50), NOW)
    assert max(needs.of(GROUP, SIZING, past(50), NOW - 3 * HOUR_MS)) == 996 * HOUR_MS


def test_a_group_that_is_gone_is_forgotten(needs: PastNeeds, computed: list[LoadSums]) -> None:
    needs.of(GROUP, SIZING, past(5), NOW)
    needs.keep([GroupName("logs")])
    computed.clear()
    needs.of(GROUP, SIZING, past(5), NOW)
    assert len(computed) == 5
