"""Test the use of loads that are expected for the coming hours in a planning."""

from __future__ import annotations

import re

import pytest

from assigner.planner import LoadPlanner
from assigner.problem.policy import Policy
from mirror.instance.loads.expectation import HOUR_MS, Expectation, ExpectedLoads, Loads, with_expected
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.load import LoadLevel, LoadReport, LoadSource, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition

PLACES = tuple(TopicPartition("t", number) for number in range(8))
NOON = 1_767_614_400_000
CAPACITY = TaskCapacity(100, None, 100)
GROUP = GroupName("g")


def loads(rate: float, messages: float | None = None) -> dict[TopicPartition, PartitionLoad]:
    return {place: PartitionLoad(rate, messages) for place in PLACES}


def report(rate: float) -> LoadReport:
    return LoadReport(loads(rate), "pinot", NOON)


def planned(now: float, before: tuple[float, ...], expectation: Expectation | None, tasks: int) -> GroupPlan:
    """Plan as the leader does when a group is due, with eight equal partitions on this number of tasks."""
    found = report(now)
    recent: tuple[Loads, ...] = tuple(loads(one) for one in before)
    if expectation is not None:
        found, recent = with_expected(found, recent, expectation, NOON)
        recent = (*expectation.to_stay_for(GROUP, NOON), *recent)
    current = {place: TaskName(f"g-{number % tasks}") for number, place in enumerate(PLACES)}
    request = PlanningRequest(GROUP, PLACES, found.loads, CAPACITY, TaskLimits(), current, recent=recent)
    return LoadPlanner(Policy()).plan(request)


def expecting(*rates: float, imminent: int = 2, consent: int = 6) -> Expectation:
    hours = {NOON + number * HOUR_MS: loads(rate) for number, rate in enumerate(rates)}
    totals = {hour: len(PLACES) * rate for hour, rate in zip(hours, rates, strict=True)}
    return Expectation(hours, imminent, consent, totals={GROUP: totals})


def test_only_what_is_planned_is_looked_at_and_it_comes_out_the_same() -> None:
    recent: tuple[Loads, ...] = (loads(9.0), loads(11.0), loads(12.0))
    ahead = expecting(13.0, 15.0, 14.0, 40.0)
    whole, every = with_expected(report(10.0), recent, ahead, NOON)
    part, some = with_expected(report(10.0), recent, ahead, NOON, PLACES[:2])
    assert len(some) == len(every)
    for place in PLACES[:2]:
        assert part.loads[place] == whole.loads[place]
        assert [one[place] for one in some] == [one[place] for one in every]
    assert part.loads[PLACES[2]] == PartitionLoad(10.0)
    assert part.notes == whole.notes


def test_no_task_is_given_up_that_the_hours_ahead_need() -> None:
    before = (10.0, 10.0)
    assert len(planned(10, before, None, 4).tasks) == 1
    assert len(planned(10, before, expecting(10, 10, 10, 45), 4).tasks) == 4
    assert len(planned(10, before, expecting(10, 10, 10, 10, 10, 10, 10, 45), 4).tasks) == 1


def test_each_group_stays_for_its_own_peak() -> None:
    """The smaller of two groups peaks an hour before the other one."""
    other, place = GroupName("h"), TopicPartition("u", 0)
    hours = {
        NOON + number * HOUR_MS: {PLACES[0]: PartitionLoad(small), place: PartitionLoad(large)}
        for number, (small, large) in enumerate([(1, 50), (9, 60), (1, 90), (1, 70)])
    }
    totals = {
        group: {hour: found[one].bytes_per_second for hour, found in hours.items()}
        for group, one in ((GROUP, PLACES[0]), (other, place))
    }
    ahead = Expectation(hours, totals=totals)
    (of_small,), (of_large,) = ahead.to_stay_for(GROUP, NOON), ahead.to_stay_for(other, NOON)
    assert of_small[PLACES[0]].bytes_per_second == 9
    assert of_large[place].bytes_per_second == 90
    assert ahead.to_stay_for(GroupName("new"), NOON) == ()
    assert ahead.to_stay_for(GROUP, NOON + 9 * HOUR_MS) == ()


def test_tasks_are_there_before_the_load() -> None:
    assert len(planned(20, (20, 20), None, 2).tasks) == 2
    assert len(planned(20, (20, 20), expecting(20, 45), 2).tasks) == 4
    assert len(planned(20, (20, 20), expecting(20, 20, 20, 45), 2).tasks) == 2


def test_a_spike_adds_no_task_that_is_not_forecast() -> None:
    assert len(planned(45, (20, 20), expecting(20, 20), 2).tasks) == 2


def test_a_forecast_that_is_too_low_takes_nothing_away() -> None:
    """The forecast is too low by a factor of ten, so the present load counts."""
    assert len(planned(45, (45, 45), expecting(4.5, 4.5, 4.5), 4).tasks) == 4


def test_a_plan_says_that_it_counts_a_forecast_or_why_there_is_none() -> None:
    found, _ = with_expected(report(10), (), expecting(20), NOON)
    (note,) = found.notes
    assert re.search(r"\bforecast\b.*\b2\.00\b", note)
    found, recent = with_expected(report(10), (loads(5),), Expectation({}, why="Pinot is away"), NOON)
    (note,) = found.notes
    assert note.endswith(": Pinot is away")
    assert (found.loads, recent) == (loads(10), (loads(5),))


def test_a_forecast_of_hours_that_are_over_is_none() -> None:
    found, _ = with_expected(report(10), (), expecting(45), NOON + HOUR_MS)
    assert found.loads == loads(10)
    (note,) = found.notes
    assert note.startswith("planned without a forecast: ")


def test_where_nothing_is_known_a_forecast_is_no_measurement() -> None:
    blind = LoadReport({place: PartitionLoad(5, 5, LoadLevel.DEFAULT) for place in PLACES}, "pinot")
    assert with_expected(blind, (), expecting(45), NOON) == (blind, ())


def test_a_new_topic_stays_as_it_is_known() -> None:
    new = TopicPartition("new", 0)
    held = LoadReport({**loads(10), new: PartitionLoad(7)}, "pinot", NOON)
    found, _ = with_expected(held, (), expecting(20), NOON)
    assert found.loads[new] == PartitionLoad(7)


@pytest.mark.parametrize("messages", [None, 3.0])
def test_each_dimension_counts_by_itself(messages: float | None) -> None:
    held = LoadReport({PLACES[0]: PartitionLoad(10, messages)}, "pinot", NOON)
    hour = {PLACES[0]: PartitionLoad(5, 8.0)}
    found, _ = with_expected(held, (), Expectation({NOON: hour}), NOON)
    assert found.loads[PLACES[0]].bytes_per_second == 10
    assert found.loads[PLACES[0]].messages_per_second == 8


def test_what_is_expected_is_kept_by_source_until_it_is_forgotten() -> None:
    board, source = ExpectedLoads(), LoadSource(ClusterRef("source"))
    assert board.of(source) is None
    board.put(source, expecting(1))
    assert board.of(source) == expecting(1)
    board.forget()
    assert board.of(source) is None
