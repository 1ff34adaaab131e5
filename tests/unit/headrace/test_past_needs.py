"""Test the number of tasks that past hours needed: each hour is planned once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

import assigner.what_if.ahead
from assigner.problem.loads import UNKNOWN_LOAD
from assigner.problem.problem import Policy
from assigner.what_if.document import Fallback
from headrace.foresight.history import DAY, HOUR_MS
from headrace.foresight.needs import WEEK, PastNeeds, Sizing
from mirror.model.identifiers import GroupName
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

T0: Final = TopicPartition("t", 0)
GROUP: Final = GroupName("orders")
NOW: Final = 1_000 * HOUR_MS + 5
SIZING: Final = Sizing(
    frozenset({T0, TopicPartition("t", 1)}),
    TaskLimits(),
    Fallback(TaskCapacity(100, None, 100), UNKNOWN_LOAD, Policy()),
)
BUSY: Final = {T0: PartitionLoad(90.0, 1.0), TopicPartition("t", 1): PartitionLoad(90.0, 1.0)}
TWICE: Final = replace(SIZING, how=replace(SIZING.how, capacity=TaskCapacity(200, None, 100)))


def past(hours: int, end_ms: int = 1_000 * HOUR_MS) -> dict[int, Mapping[TopicPartition, PartitionLoad]]:
    return {end_ms - back * HOUR_MS: BUSY for back in range(1, hours + 1)}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record a call for every hour that is planned."""
    calls: list[object] = []
    real = assigner.what_if.ahead.needed_tasks

    def counted(
        partitions: frozenset[TopicPartition],
        loads: Mapping[TopicPartition, PartitionLoad],
        limits: TaskLimits,
        how: Fallback,
    ) -> int:
        calls.append(loads)
        return real(partitions, loads, limits, how)

    monkeypatch.setattr(assigner.what_if.ahead, "needed_tasks", counted)
    return calls


def test_an_hour_is_planned_once(planned: list[object]) -> None:
    needs = PastNeeds()
    assert len(needs.of(GROUP, SIZING, past(300), NOW)) == len(planned) == WEEK
    planned.clear()
    again = needs.of(GROUP, SIZING, past(300, 1_001 * HOUR_MS), NOW + HOUR_MS)
    assert (len(again), len(planned)) == (WEEK, 1)
    assert max(again) == 1_000 * HOUR_MS


def test_another_capacity_plans_the_last_day_again(planned: list[object]) -> None:
    needs = PastNeeds()
    first = needs.of(GROUP, SIZING, past(300), NOW)
    planned.clear()
    then = needs.of(GROUP, TWICE, past(300), NOW)
    assert len(planned) == DAY
    assert [first[hour] for hour in sorted(first)] == [2] * WEEK
    assert [then[hour] for hour in sorted(then)] == [2] * (WEEK - DAY) + [1] * DAY


def test_an_hour_without_a_load_is_not_known_until_it_has_one() -> None:
    needs = PastNeeds()
    hours = past(10)
    silent = 995 * HOUR_MS
    assert silent not in needs.of(GROUP, SIZING, {**hours, silent: {}}, NOW)
    assert needs.of(GROUP, SIZING, hours, NOW)[silent] == 2


def test_what_left_the_history_is_kept_for_a_week() -> None:
    needs = PastNeeds()
    needs.of(GROUP, SIZING, past(50), NOW)
    assert len(needs.of(GROUP, SIZING, past(2), NOW)) == 50
    assert needs.of(GROUP, SIZING, {}, NOW + WEEK * HOUR_MS) == {}


def test_a_clock_that_was_ahead_leaves_no_hour_that_is_to_come() -> None:
    needs = PastNeeds()
    needs.of(GROUP, SIZING, past(50), NOW)
    assert max(needs.of(GROUP, SIZING, past(50), NOW - 3 * HOUR_MS)) == 996 * HOUR_MS


def test_a_group_that_is_gone_is_forgotten(planned: list[object]) -> None:
    needs = PastNeeds()
    needs.of(GROUP, SIZING, past(5), NOW)
    needs.keep([GroupName("logs")])
    planned.clear()
    needs.of(GROUP, SIZING, past(5), NOW)
    assert len(planned) == 5
