"""The planner port used by the leader: names, task counts, stability."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from assigner.planner import LoadPlanner
from assigner.search import exact
from mirror.errors import PlanRejected
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import LoadLevel, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.ports import Planner

GROUP = GroupName("orders")


def request(
    rates: list[float],
    capacity: int = 100,
    current: dict[int, str] | None = None,
    limits: TaskLimits | None = None,
    *,
    full: bool = False,
    rebalance: bool = False,
) -> PlanningRequest:
    partitions = tuple(TopicPartition("t", number) for number in range(len(rates)))
    return PlanningRequest(
        group=GROUP,
        partitions=partitions,
        loads={p: PartitionLoad(rate) for p, rate in zip(partitions, rates, strict=True)},
        capacity=TaskCapacity(capacity, utilisation_percent=100),
        limits=limits or TaskLimits(),
        current={partitions[number]: TaskName(task) for number, task in (current or {}).items()},
        full=full,
        rebalance=rebalance,
    )


def test_the_planner_satisfies_the_port() -> None:
    planner: Planner = LoadPlanner()
    assert planner.plan(request([1.0])).required_tasks == 1


def test_tasks_follow_capacity_and_carry_every_partition_once() -> None:
    plan = LoadPlanner().plan(request([60, 50, 50, 20, 20]))
    assert sorted(plan.tasks) == ["orders-0", "orders-1"]
    assert sorted(len(held) for held in plan.tasks.values()) == [2, 3]
    assert plan.loads_bytes_per_second == {"orders-0": 100.0, "orders-1": 100.0}


def test_max_tasks_binds_and_the_requirement_is_still_reported() -> None:
    plan = LoadPlanner().plan(request([90, 90, 90], limits=TaskLimits(max_tasks=2)))
    assert len(plan.tasks) == 2
    assert plan.required_tasks == 3


def test_existing_tasks_keep_their_names_and_new_ones_take_the_lowest_free_number() -> None:
    current = {0: "orders-2", 1: "orders-5"}
    plan = LoadPlanner().plan(request([90, 90, 90, 90], current=current))
    assert sorted(plan.tasks) == ["orders-0", "orders-1", "orders-2", "orders-5"]
    assert plan.tasks[TaskName("orders-2")] == {TopicPartition("t", 0)}
    assert plan.tasks[TaskName("orders-5")] == {TopicPartition("t", 1)}
    assert not plan.move_reasons


def test_a_new_partition_goes_to_the_lightest_task() -> None:
    plan = LoadPlanner().plan(request([80, 50, 10], current={0: "orders-0", 1: "orders-1"}))
    assert plan.tasks[TaskName("orders-1")] == {TopicPartition("t", 1), TopicPartition("t", 2)}


def test_an_overloaded_task_gives_up_what_fits_elsewhere() -> None:
    plan = LoadPlanner().plan(
        request([60, 50, 30], current={0: "orders-0", 1: "orders-0", 2: "orders-1"}, rebalance=True)
    )
    assert max(plan.loads_bytes_per_second.values()) <= 100
    assert len(plan.move_reasons or {}) == 1


class LookupOnlyLoads(dict[TopicPartition, PartitionLoad]):
    """Loads that forbid iteration, which would take minutes for each datastream of 200,000 partitions."""

    def __iter__(self) -> Iterator[TopicPartition]:
        raise AssertionError("iteration over the loads of a whole cluster")

    keys = values = items = __iter__  # type: ignore[assignment]


def test_only_the_partitions_of_the_request_are_looked_up() -> None:
    asked = request([60, 50, 50, 20, 20], current={0: "orders-0"})
    other = {TopicPartition("other", number): PartitionLoad(1e9) for number in range(9)}
    many = LookupOnlyLoads({**asked.loads, **other})
    found = LoadPlanner().plan(replace(asked, loads=many, recent=(many, many)))
    assert found == LoadPlanner().plan(replace(asked, recent=(asked.loads, asked.loads)))


def test_the_order_of_the_input_does_not_matter() -> None:
    rates = [random.Random(7).uniform(0, 60) for _ in range(40)]
    asked = request(rates)
    shuffled = list(asked.partitions)
    random.Random(3).shuffle(shuffled)
    again = PlanningRequest(
        group=GROUP,
        partitions=tuple(shuffled),
        loads=asked.loads,
        capacity=asked.capacity,
        limits=asked.limits,
        current={},
    )
    assert LoadPlanner().plan(asked) == LoadPlanner().plan(again)


def test_without_any_load_what_is_placed_stays_whatever_is_asked() -> None:
    """The load provider is down: new partitions are placed by count, and no move is based on a guess."""
    current = {0: "orders-0", 1: "orders-0", 2: "orders-0", 3: "orders-1"}
    asked = request([1.0] * 6, 100_000, current, full=True, rebalance=True)
    plan = LoadPlanner().plan(replace(asked, loads={}))
    assert {name: len(held) for name, held in plan.tasks.items()} == {"orders-0": 3, "orders-1": 3}
    assert not plan.move_reasons
    assert len(plan.defaulted) == 6
    assert any(reason.startswith("6 loads unknown") for reason in plan.reasons)


def test_what_is_assumed_of_unknown_loads_moves_nothing_however_much_it_is() -> None:
    current = {0: "orders-0", 1: "orders-0", 2: "orders-0", 3: "orders-1"}
    asked = request([1.0] * 4, 100, current, full=True, rebalance=True)
    plan = LoadPlanner().plan(replace(asked, loads={}))
    assert {name: len(held) for name, held in plan.tasks.items()} == {"orders-0": 3, "orders-1": 1}
    assert not plan.move_reasons


def test_no_task_is_given_up_for_a_single_observation_unless_somebody_asks() -> None:
    current = {number: f"orders-{number}" for number in range(4)}
    asked = request([10.0] * 4, 100, current)
    assert len(LoadPlanner().plan(asked).tasks) == 4
    assert len(LoadPlanner().plan(replace(asked, rebalance=True)).tasks) == 1
    assert len(LoadPlanner().plan(replace(asked, recent=(asked.loads,))).tasks) == 1
    day = {partition: PartitionLoad(90.0) for partition in asked.partitions}
    assert len(LoadPlanner().plan(replace(asked, recent=(day, asked.loads))).tasks) == 4


def test_a_full_plan_gives_up_no_task_while_most_loads_are_unknown() -> None:
    current = {number: f"orders-{number}" for number in range(4)}
    asked = request([60.0] * 4, 100_000, current, full=True)
    few = {partition: asked.loads[partition] for partition in asked.partitions[:1]}
    assert len(LoadPlanner().plan(replace(asked, loads=few)).tasks) == 4
    assert len(LoadPlanner().plan(asked).tasks) == 1


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -1.0])
def test_an_impossible_load_is_refused_by_name(rate: float) -> None:
    with pytest.raises(PlanRejected, match="t-1"):
        LoadPlanner().plan(request([1.0, rate]))


@pytest.mark.parametrize("full", [False, True])
def test_nothing_to_place_is_one_empty_task(full: bool) -> None:
    plan = LoadPlanner().plan(request([], full=full))
    assert plan.tasks == {"orders-0": frozenset()}


def test_a_load_that_a_provider_does_not_know_is_assumed_and_the_plan_says_so() -> None:
    asked = request([40.0, 0.0, 0.0])
    unknown = PartitionLoad(0.0, None, LoadLevel.DEFAULT)
    loads = {key: load if load.bytes_per_second else unknown for key, load in asked.loads.items()}
    asked = replace(asked, loads=loads, recent=(loads,))
    plan = LoadPlanner(unknown=PartitionLoad(70.0, 1.0, LoadLevel.DEFAULT)).plan(asked)
    assert len(plan.defaulted) == 2
    assert sum(plan.loads_bytes_per_second.values()) == 180.0
    assert any("2 of 3 partitions" in one and "70 B/s" in one for one in plan.reasons), plan.reasons


FOUR = {number: f"orders-{number}" for number in range(4)}


def observed(rate: float) -> dict[TopicPartition, PartitionLoad]:
    return {TopicPartition("t", number): PartitionLoad(rate) for number in range(4)}


def test_tasks_that_the_load_does_not_need_stay_for_a_reason_that_is_said() -> None:
    quiet = replace(request([10] * 4, current=FOUR), recent=(observed(75.0), observed(10.0), observed(10.0)))
    said = "; ".join(LoadPlanner().plan(quiet).reasons)
    assert "3 earlier observations" in said
    assert re.search(r"\bneeds 4 .*\b20 %", said)
    steady = replace(request([20] * 4, current={0: "orders-0", 1: "orders-0", 2: "orders-1", 3: "orders-1"}))
    steady = replace(steady, recent=(observed(22.0),) * 3, loads=observed(22.0))
    said = "; ".join(LoadPlanner().plan(steady).reasons)
    assert re.search(r"\bneeds 2 .*\b20 %", said)


def test_a_single_observation_is_the_reason_and_not_a_limit_that_nobody_set() -> None:
    said = "; ".join(LoadPlanner().plan(request([10] * 4, current=FOUR)).reasons)
    assert "observed" in said
    assert "min_tasks" not in said
    limited = LoadPlanner().plan(request([10] * 4, current=FOUR, limits=TaskLimits(min_tasks=4)))
    (limit,) = [one for one in limited.reasons if "min_tasks" in one]
    assert "4 tasks" in limit


def test_too_few_are_allowed_is_said_only_where_somebody_limits() -> None:
    full = {0: "orders-0", 1: "orders-0", 2: "orders-1", 3: "orders-1"}
    spike = replace(request([80] * 4, current=full), recent=(observed(30.0),) * 3)
    plan = LoadPlanner().plan(spike)
    said = "; ".join(plan.reasons)
    assert (len(plan.tasks), len(plan.overloaded)) == (2, 2)
    assert "max_tasks" not in said
    assert "2 overloaded tasks" in said
    assert "observation" in said
    bound = LoadPlanner().plan(replace(spike, limits=TaskLimits(max_tasks=2), full=True))
    assert any("2 overloaded tasks" in one and "max_tasks" in one for one in bound.reasons), bound.reasons


def test_a_search_that_the_clock_ended_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(1)
    rates = [dice.uniform(1, 60) for _ in range(12)]
    homes = {number: f"orders-{number % 3}" for number in range(12)}
    hard = request(rates, int(sum(rates) / 3 / 0.9), homes, rebalance=True)
    assert LoadPlanner().plan(hard).cut_short == 0
    monkeypatch.setattr(exact, "_WALL_SECONDS", 0.0)
    plan = LoadPlanner().plan(hard)
    assert plan.cut_short > 0
    assert any("search" in one and "limit of 0 s" in one for one in plan.reasons), plan.reasons
    monkeypatch.undo()
    assert LoadPlanner().plan(hard).cut_short == 0
