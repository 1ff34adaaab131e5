"""Test the leader's planning decisions on a snapshot of the service."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from assigner.planner import LoadPlanner
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_decision import FleetState, decide, groups_of, groups_to_plan, planning_request
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.coordination.task_placement import TaskPlacementRules
from mirror.errors import PlanRejected
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import LoadReport, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, Plan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.ports import Planner
from tests.builders import SOURCE, a_datastream, a_plan, a_task, an_instance, partitions

CAPACITY = TaskCapacity(100, utilisation_percent=100)
ONE, TWO = an_instance("one", 0), an_instance("two", 1)
NO_PLAN = a_plan(epoch=0)
GROUP = GroupName("orders")


def a_fleet(**more: Any) -> FleetState:
    values: dict[str, Any] = {
        "datastreams": (a_datastream(topics="t"),),
        "live": (ONE,),
        "plan": NO_PLAN,
        "topics": {SOURCE: {"t": 2, "other": 5}},
        **more,
    }
    return FleetState(**values)


class Rejecting:
    """A planner that rejects some groups."""

    def __init__(self, *groups: str) -> None:
        self._groups = groups

    def plan(self, request: PlanningRequest) -> GroupPlan:
        if request.group in self._groups:
            raise PlanRejected(f"{request.group} cannot be planned")
        return SimplePlanner().plan(request)


def a_request(group: str = "orders", full: bool = False) -> RebalanceRequest:
    return RebalanceRequest(GroupName(group), full, "somebody", "it was time", 5, "r-0000000001")


def test_the_first_plan_has_every_wanted_partition_once() -> None:
    decision = decide(a_fleet(), SimplePlanner(), CAPACITY, 77)
    assert decision.plan is not None
    assert decision.plan.epoch == 1
    assert decision.plan.created_ms == 77
    assert set(decision.plan.owners) == {(GROUP, TopicPartition("t", 0)), (GROUP, TopicPartition("t", 1))}
    assert {move.to_instance for move in decision.moves} == {"one"}
    assert "2 partitions added" in decision.sentence


def test_a_plan_that_is_right_stays() -> None:
    first = decide(a_fleet(), SimplePlanner(), CAPACITY, 1).plan
    assert first is not None
    again = decide(a_fleet(plan=first), SimplePlanner(), CAPACITY, 2)
    assert again.plan is None
    assert again.moves == ()
    assert "no change" in again.sentence


def test_the_same_fleet_gives_the_same_plan() -> None:
    topics = {SOURCE: {f"t{number}": 3 for number in range(20)}}
    fleet = a_fleet(datastreams=(a_datastream(),), topics=topics, live=(ONE, TWO))
    assert decide(fleet, SimplePlanner(), CAPACITY, 1) == decide(fleet, SimplePlanner(), CAPACITY, 1)


def test_a_new_partition_joins_and_the_others_stay() -> None:
    plan = a_plan(a_task("orders-0", ["t-0", "t-1"], "one"))
    decision = decide(a_fleet(plan=plan, topics={SOURCE: {"t": 3}}), SimplePlanner(), CAPACITY, 1)
    assert [str(move.partition) for move in decision.moves] == ["t-2"]


def test_a_topic_that_is_gone_leaves_the_plan() -> None:
    plan = a_plan(a_task("orders-0", ["t-0", "t-1"], "one"))
    decision = decide(a_fleet(plan=plan, topics={SOURCE: {}}), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert decision.plan.owners == {}
    assert "2 removed" in decision.sentence


def test_a_source_that_does_not_answer_keeps_its_tasks_and_delays_nobody() -> None:
    plan = a_plan(a_task("orders-0", ["t-0"], "one"))
    datastreams = (a_datastream(topics="t"), a_datastream("users", "u", source="elsewhere"))
    fleet = a_fleet(plan=plan, datastreams=datastreams, topics={"elsewhere": {"u": 1}})
    decision = decide(fleet, SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert decision.plan.of_group(GROUP) == plan.tasks
    assert decision.plan.of_group(GroupName("users"))


@pytest.mark.parametrize("status", [one for one in DatastreamStatus if not one.has_tasks], ids=str)
def test_only_what_is_ready_or_paused_has_tasks(status: DatastreamStatus) -> None:
    plan = a_plan(a_task("orders-0", ["t-0", "t-1"], "one"))
    fleet = a_fleet(plan=plan, datastreams=(a_datastream(topics="t", status=status),))
    decision = decide(fleet, SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert decision.plan.tasks == ()


def test_a_paused_datastream_keeps_its_tasks_and_a_resume_changes_nothing() -> None:
    """The present loads would fit into one task."""
    plan = a_plan(a_task("orders-0", ["t-0"], "one"), a_task("orders-1", ["t-1"], "two"))
    paused = a_datastream(topics="t", status=DatastreamStatus.PAUSED)
    fleet = a_fleet(plan=plan, datastreams=(paused,), live=(ONE, TWO))
    assert decide(fleet, SimplePlanner(), CAPACITY, 1).plan is None
    more = replace(fleet, topics={SOURCE: {"t": 3}})
    assert decide(more, SimplePlanner(), CAPACITY, 1).plan is None
    resumed = replace(fleet, datastreams=(a_datastream(topics="t"),))
    assert groups_to_plan(resumed) == ()
    assert decide(resumed, SimplePlanner(), CAPACITY, 1).plan is None


def test_the_tasks_of_a_paused_datastream_leave_with_their_instance() -> None:
    plan = a_plan(a_task("orders-0", ["t-0", "t-1"], "gone"))
    paused = a_datastream(topics="t", status=DatastreamStatus.PAUSED)
    decision = decide(a_fleet(plan=plan, datastreams=(paused,)), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert decision.plan.tasks == (a_task("orders-0", ["t-0", "t-1"], "one"),)


def test_partitions_of_one_that_is_paused_stay_in_the_tasks_that_it_shares() -> None:
    shared = {"system.taskPrefix": "orders"}
    plan = a_plan(a_task("orders-0", ["t-0", "other-0"], "one"), a_task("orders-1", ["t-1"], "one"))
    paused = a_datastream("a", "t", status=DatastreamStatus.PAUSED, metadata=shared)
    others = a_datastream("b", "other", metadata=shared)
    topics = {SOURCE: {"t": 3, "other": 2}}
    fleet = a_fleet(plan=plan, datastreams=(paused, others), topics=topics)
    decision = decide(fleet, SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    added = {TopicPartition("other", 1)}
    assert decision.plan.planned[GROUP] == plan.planned[GROUP] | added, "the paused group is unchanged"
    assert [move.partition for move in decision.moves] == sorted(added)


def test_an_instance_that_left_is_named_and_its_tasks_run_elsewhere() -> None:
    plan = a_plan(a_task("orders-0", ["t-0"], "gone"), a_task("orders-1", ["t-1"], "one"))
    decision = decide(a_fleet(plan=plan, live=(ONE, TWO)), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert [(str(move.partition), move.to_instance) for move in decision.moves] == [("t-0", "two")]
    assert "gone left" in decision.sentence
    assert groups_to_plan(a_fleet(plan=plan)) == ()


def test_with_nobody_here_the_tasks_wait_for_somebody() -> None:
    decision = decide(a_fleet(live=()), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert {task.instance for task in decision.plan.tasks} == {None}


def test_a_request_plans_a_group_that_is_right_by_its_partitions() -> None:
    plan = a_plan(a_task("orders-0", ["t-0", "t-1"], "one"))
    loads = {GROUP: LoadReport({key: PartitionLoad(90.0) for key in partitions("t-0", "t-1")}, "test")}
    request = a_request(full=True)
    fleet = a_fleet(plan=plan, requests=(request,), loads=loads)
    decision = decide(fleet, SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert len(decision.plan.tasks) == 2
    assert f"{request.requested_by}: {request.reason}" in decision.sentence


def test_a_request_about_a_source_that_does_not_answer_plans_what_is_planned() -> None:
    plan = a_plan(a_task("orders-0", ["t-0", "t-1"], "one"))
    loads = {GROUP: LoadReport({key: PartitionLoad(90.0) for key in partitions("t-0", "t-1")}, "test")}
    fleet = a_fleet(plan=plan, topics={}, requests=(a_request(full=True),), loads=loads)
    decision = decide(fleet, SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert set(decision.plan.owners) == set(plan.owners)


def test_a_request_about_a_group_that_is_not_mirrored_changes_nothing() -> None:
    decision = decide(a_fleet(requests=(a_request("nobody"),)), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert {task.group for task in decision.plan.tasks} == {"orders"}


def test_a_group_that_cannot_be_planned_keeps_its_tasks_and_the_others_are_planned() -> None:
    plan = a_plan(a_task("orders-0", ["t-0"], "one"))
    datastreams = (a_datastream(topics="t"), a_datastream("users", "other"))
    fleet = a_fleet(plan=plan, datastreams=datastreams)
    decision = decide(fleet, Rejecting("orders"), CAPACITY, 1)
    assert decision.plan is not None
    assert decision.plan.of_group(GROUP) == plan.tasks
    assert decision.plan.of_group(GroupName("users"))
    ((group, error),) = decision.problems.items()
    assert (group, type(error)) == (GROUP, PlanRejected)
    assert GROUP in str(error)


class ExtraPartitionPlanner:
    """A planner that places a partition that was not requested."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        more = (*request.partitions, TopicPartition("made-up", 7))
        return SimplePlanner().plan(replace(request, partitions=more))


def test_a_partition_that_nobody_asked_for_is_refused() -> None:
    decision = decide(a_fleet(), ExtraPartitionPlanner(), CAPACITY, 1)
    (problem,) = decision.problems.values()
    assert isinstance(problem, PlanRejected)
    assert re.match(r"made-up-7\b.*\borders\b", str(problem))


class SameNamePlanner:
    """A planner that gives the tasks of all groups the same name."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        return GroupPlan({TaskName("orders-0"): frozenset(request.partitions)}, {}, 1)


def test_no_group_takes_a_task_of_another_by_its_name() -> None:
    datastreams = (a_datastream(topics="t"), a_datastream("users", "other"))
    decision = decide(a_fleet(datastreams=datastreams), SameNamePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert {group: len(held) for group, held in decision.plan.planned.items()} == {"orders": 2}
    problem = decision.problems[GroupName("users")]
    assert "'orders-0'" in str(problem)
    assert "group users" in str(problem)


def test_a_group_that_cannot_be_planned_still_moves_off_an_instance_that_left() -> None:
    plan = a_plan(a_task("orders-0", ["t-0"], "gone"))
    decision = decide(a_fleet(plan=plan), Rejecting("orders"), CAPACITY, 1)
    assert decision.plan is not None
    assert decision.plan.tasks == (a_task("orders-0", ["t-0"], "one"),)


def test_datastreams_of_one_group_share_tasks() -> None:
    shared = {"system.taskPrefix": "both"}
    members = (a_datastream("a", "t", metadata=shared), a_datastream("b", "other", metadata=shared))
    decision = decide(a_fleet(datastreams=members), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert {task.group for task in decision.plan.tasks} == {"both"}
    assert len(decision.plan.owners) == 7


def test_groups_hold_the_mirrored_ones_by_name() -> None:
    shared = {"system.taskPrefix": "g"}
    paused = a_datastream("b", status=DatastreamStatus.PAUSED, metadata=shared)
    found = groups_of([a_datastream("c", metadata=shared), paused, a_datastream("a", metadata=shared)])
    assert {name: [one.name for one in members] for name, members in found.items()} == {"g": ["a", "c"]}


def test_limits_reach_the_planner() -> None:
    datastream: Datastream = a_datastream(topics="other", limits=TaskLimits(min_tasks=3))
    decision = decide(a_fleet(datastreams=(datastream,)), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert len(decision.plan.tasks) == 3


def test_known_loads_of_untouched_tasks_count_when_tasks_are_spread() -> None:
    plan = a_plan(
        *(a_task(f"orders-{n}", [f"t-{n}"], "one" if n < 2 else "gone") for n in range(4)),
    )
    loads = {"orders-0": 50.0, "orders-1": 50.0, "orders-2": 90.0, "orders-3": 1.0}
    fleet = a_fleet(plan=plan, topics={SOURCE: {"t": 4}}, live=(ONE, TWO), task_loads=loads)
    decision = decide(replace(fleet), SimplePlanner(), CAPACITY, 1)
    assert decision.plan is not None
    assert {task.task: task.instance for task in decision.plan.tasks} == {
        "orders-0": "one",
        "orders-1": "one",
        "orders-2": "two",
        "orders-3": "two",
    }


def with_limits(limits: TaskLimits, *tasks: list[str], **more: Any) -> FleetState:
    """Return a fleet in which these tasks hold the four partitions of `t`, with all loads known."""
    held = [a_task(f"orders-{number}", names) for number, names in enumerate(tasks)]
    loads = {TopicPartition("t", number): PartitionLoad(1.0) for number in range(4)}
    values: dict[str, Any] = {
        "datastreams": (a_datastream(topics="t", limits=limits),),
        "plan": a_plan(*held),
        "topics": {SOURCE: {"t": 4}},
        "loads": {GROUP: LoadReport(loads, "self")},
        **more,
    }
    return a_fleet(**values)


ALL_FOUR = ["t-0", "t-1", "t-2", "t-3"]


@pytest.mark.parametrize(
    ("limits", "tasks", "sizes"),
    [
        (TaskLimits(min_tasks=2), [ALL_FOUR], [2, 2]),
        (TaskLimits(min_tasks=9), [ALL_FOUR], [1, 1, 1, 1]),
        (TaskLimits(max_tasks=1), [ALL_FOUR[:2], ALL_FOUR[2:]], [4]),
        (TaskLimits(max_partitions_per_task=3), [ALL_FOUR], [1, 3]),
    ],
    ids=str,
)
@pytest.mark.parametrize("planner", [SimplePlanner(), LoadPlanner()], ids=["simple", "load"])
def test_tasks_that_their_limits_do_not_allow_any_more_are_planned_again(
    planner: Planner, limits: TaskLimits, tasks: list[list[str]], sizes: list[int]
) -> None:
    fleet = with_limits(limits, *tasks)
    assert groups_to_plan(fleet) == (GROUP,)
    decision = decide(fleet, planner, CAPACITY, 0)
    assert decision.plan is not None
    found = sorted(len(one.partitions) for one in decision.plan.of_group(GROUP) if one.partitions)
    assert (found == sizes) or (limits.max_partitions_per_task == 3 and max(found) <= 3)
    assert groups_to_plan(replace(fleet, plan=decision.plan, last=decision.last)) == ()


def test_limits_that_cannot_be_met_now_are_tried_once_for_each_change() -> None:
    fleet = with_limits(TaskLimits(1, 1, 3), ALL_FOUR)
    decision = decide(fleet, SimplePlanner(), CAPACITY, 0)
    assert [len(one.partitions) for one in (decision.plan or fleet.plan).of_group(GROUP)] == [4]
    after = replace(fleet, plan=decision.plan or fleet.plan, last=decision.last)
    assert groups_to_plan(after) == ()
    more = replace(after, datastreams=(a_datastream(topics="t", limits=TaskLimits(1, 1, 2)),))
    assert groups_to_plan(more) == (GROUP,)


@pytest.mark.parametrize("planner", [SimplePlanner(), LoadPlanner()], ids=["simple", "load"])
def test_more_tasks_that_are_asked_for_are_made_by_count_where_no_load_is_known(planner: Planner) -> None:
    """The group is not planned while its loads are awaited; if they are unknown, it is split by count."""
    nothing, capacity = LoadReport({}, "none"), TaskCapacity(50_000_000)
    fleet = with_limits(TaskLimits(min_tasks=2), ALL_FOUR, loads={GROUP: nothing}, awaited=frozenset({GROUP}))
    waiting = decide(fleet, planner, capacity, 0)
    assert sizes_of(waiting.plan or fleet.plan) == [4]
    later = replace(fleet, plan=waiting.plan or fleet.plan, last=waiting.last, awaited=frozenset())
    assert groups_to_plan(later) == (GROUP,)
    by_count = decide(later, planner, capacity, 0)
    assert by_count.plan is not None
    assert (sizes_of(by_count.plan), len(by_count.moves)) == ([2, 2], 2)
    assert by_count.group_plans[GROUP].reasons[-1].endswith("filled by count")
    assert groups_to_plan(replace(later, plan=by_count.plan, last=by_count.last)) == ()


@pytest.mark.parametrize("planner", [SimplePlanner(), LoadPlanner()], ids=["simple", "load"])
def test_the_least_number_of_tasks_counts_only_what_is_wanted(planner: Planner) -> None:
    """A task that holds only a deleted topic does not count."""
    fleet = with_limits(TaskLimits(min_tasks=2), ALL_FOUR, ["gone-0"])
    decision = decide(fleet, planner, TaskCapacity(50_000_000), 0)
    assert decision.plan is not None
    assert sizes_of(decision.plan) == [2, 2]


def test_a_request_moves_nothing_where_no_load_is_known_and_enough_tasks_are_there() -> None:
    nothing = {GROUP: LoadReport({}, "none")}
    fleet = with_limits(TaskLimits(min_tasks=2), ALL_FOUR[:1], ALL_FOUR[1:], loads=nothing)
    decision = decide(replace(fleet, requests=(a_request(full=True),)), SimplePlanner(), CAPACITY, 0)
    assert decision.moves == ()


def sizes_of(plan: Plan) -> list[int]:
    return sorted(len(one.partitions) for one in plan.of_group(GROUP) if one.partitions)


def test_datastreams_that_share_tasks_have_the_strictest_of_their_limits() -> None:
    shared = {"system.taskPrefix": "orders"}
    members = (
        a_datastream("a", "t", metadata=shared, limits=TaskLimits(2)),
        a_datastream("b", "none", metadata=shared, limits=TaskLimits(1, 3)),
    )
    fleet = with_limits(TaskLimits(), ALL_FOUR[:1], ALL_FOUR[1:2], ALL_FOUR[2:3], ALL_FOUR[3:])
    fleet = replace(fleet, datastreams=members)
    assert groups_to_plan(fleet) == (GROUP,)
    assert planning_request(fleet, GROUP, members, CAPACITY).limits == TaskLimits(2, 3)


def test_a_planner_is_asked_with_the_strategy_that_datastreams_choose() -> None:
    fleet = with_limits(TaskLimits(), ALL_FOUR)
    shared = {"system.taskPrefix": "orders"}
    members = (
        a_datastream("a", "t", metadata=shared),
        a_datastream("b", "none", metadata={**shared, "headrace-placement": "strategy mine"}),
    )
    for some, strategy in ((members[:1], None), (members, "mine")):
        fleet = replace(fleet, datastreams=some)
        assert planning_request(fleet, GROUP, some, CAPACITY).strategy == strategy


def test_without_loads_what_is_placed_stays_on_its_instances_too() -> None:
    """The loads assumed for unmeasured partitions would make instances exchange tasks."""
    held = ["t-0", "t-1", "t-2", "t-3", "t-4"], ["t-5", "t-6", "t-7", "t-8"], ["t-9"], ["t-10"]
    tasks = [a_task(f"orders-{n}", some, "one" if n < 2 else "two") for n, some in enumerate(held)]
    fleet = a_fleet(
        plan=a_plan(*tasks),
        topics={SOURCE: {"t": 11}},
        live=(ONE, TWO),
        requests=(a_request(),),
        rules=TaskPlacementRules(imbalance=1.1),
        loads={GROUP: LoadReport({}, "none")},
    )
    for planner in (SimplePlanner(), LoadPlanner()):
        found = decide(fleet, planner, CAPACITY, 1)
        assert found.moves == ()
        assert any("loads are unknown" in reason for reason in found.group_plans[GROUP].reasons)
