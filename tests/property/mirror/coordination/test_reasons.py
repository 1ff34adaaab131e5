"""Every move has exactly one reason, whatever changes a plan."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from assigner.planner import LoadPlanner
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_decision import Decision, FleetState, decide
from mirror.coordination.plan_reasons import task_changes
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest, Request
from mirror.coordination.task_placement import TaskPlacementRules
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadReport, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE, a_datastream, a_plan, a_task, an_instance
from tests.examples import examples

NAMES = ["one", "two", "three"]
GROUPS = [GroupName("a"), GroupName("b")]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    group = draw(st.sampled_from(GROUPS))
    if draw(st.booleans()):
        return RebalanceRequest(group, draw(st.booleans()), "me", "to see", 5, "r-0000000001")
    some = frozenset(TopicPartition("t", number) for number in draw(st.sets(st.integers(0, 5), min_size=1)))
    return MoveRequest(group, some, draw(st.sampled_from(NAMES)), "me", 5, "r-0000000002")


@st.composite
def steps(draw: st.DrawFn, before: FleetState) -> FleetState:
    """Draw another fleet of two groups that mirror one topic."""
    topics = {"t": draw(st.integers(0, 9))}
    loads = {
        TopicPartition("t", number): PartitionLoad(draw(st.sampled_from([0.0, 1.0, 20.0, 60.0, 130.0])))
        for number in range(topics["t"])
    }
    report = LoadReport(loads, "tests", 1)
    least = draw(st.integers(1, 3))
    limits = st.builds(TaskLimits, min_tasks=st.just(least), max_tasks=st.sampled_from([None, 3]))
    live = draw(st.sets(st.sampled_from(NAMES), min_size=1))
    return replace(
        before,
        datastreams=tuple(a_datastream(name, "t", limits=draw(limits)) for name in GROUPS),
        live=tuple(
            replace(an_instance(name, number), is_leaving=draw(st.sampled_from([False, False, True])))
            for number, name in enumerate(sorted(live))
        ),
        topics={SOURCE: topics},
        requests=tuple(draw(st.lists(requests(), max_size=1))),
        loads=dict.fromkeys(GROUPS, report),
        recent=dict.fromkeys(GROUPS, (loads, loads)),
        due=frozenset(GROUPS) if draw(st.booleans()) else frozenset(),
    )


@given(st.data(), st.sampled_from([SimplePlanner(), LoadPlanner()]))
@settings(max_examples=examples(60))
def test_every_move_has_exactly_one_reason(data: st.DataObject, planner: SimplePlanner | LoadPlanner) -> None:
    rules = TaskPlacementRules(return_delay_ms=1_000, imbalance=1.3)
    fleet = FleetState((), (), a_plan(epoch=0), {SOURCE: {}}, rules=rules)
    for number in range(3):
        fleet = data.draw(steps(fleet))
        decision = decide(fleet, planner, TaskCapacity(100, utilisation_percent=100), number + 2)
        places = [(move.group, move.partition) for move in decision.moves]
        assert len(places) == len(set(places))
        assert decision.move_reasons.keys() == set(places)
        here = {one.name for one in fleet.live}
        for move in decision.moves:
            reason = decision.move_reasons[move.group, move.partition]
            assert reason.strip("- ")
            assert "strategy" not in reason, "a planner gave no reason"
            assert not reason.endswith(" left") or move.from_instance not in here
        check_tasks(fleet, decision)
        fleet = replace(fleet, plan=decision.plan or fleet.plan)


def check_tasks(fleet: FleetState, decision: Decision) -> None:
    """Every added and removed task has one reason, which speaks of what happened."""
    before, after = fleet.plan.by_task, (decision.plan or fleet.plan).by_task
    changes = {one.task: one for one in decision.task_changes}
    assert len(changes) == len(decision.task_changes)
    assert {task for task, one in changes.items() if one.is_added} == after.keys() - before.keys()
    assert {task for task, one in changes.items() if not one.is_added} == before.keys() - after.keys()
    placed = {(one.group, partition) for one in after.values() for partition in one.partitions}
    counts = {
        group: [sum(one.group == group for one in tasks.values()) for tasks in (before, after)]
        for group in GROUPS
    }
    for task, change in changes.items():
        least, most = counts[change.group]
        assert change.reason.strip("- ")
        assert "strategy" not in change.reason, "our planners say why"
        assert ("had no tasks" in change.reason) == (change.is_added and least == 0)
        if "requested" in change.reason:
            assert fleet.moves
        if "not mirrored" in change.reason:
            assert not any((change.group, one) in placed for one in before[task].partitions)
        if "alone" in change.reason:
            (partition,) = after[task].partitions
            assert fleet.loads[change.group].loads[partition].bytes_per_second > 100
        if "in place" in change.reason:
            assert (least >= most) if change.is_added else (least <= most)


def test_a_task_of_an_offending_partition_and_one_of_a_request_say_so() -> None:
    group, two = GROUPS[0], TopicPartition("t", 1)
    before = a_plan(a_task("a-0", ["t-0", "t-1"]))
    tasks = (a_task("a-0", ["t-0"]), a_task("a-1", ["t-1"], "two"))
    answer = GroupPlan({}, {}, 2, ("the load needs 2 tasks",), offending=(two,))
    asked = MoveRequest(group, frozenset({two}), "two", "me", 5, "r-0000000003")
    for found, words in (
        (task_changes(before, tasks, {group: answer}), "t-1 alone"),
        (task_changes(before, tasks, {group: replace(answer, offending=())}), "the load needs 2"),
        (task_changes(before, tasks, {}, (asked,)), "requested by me"),
    ):
        (change,) = found
        assert (change.task, change.is_added) == ("a-1", True)
        assert change.reason.startswith(words)
    (gone,) = task_changes(
        a_plan(*tasks), before.tasks, {group: replace(answer, reasons=("1 of 2 suffices",))}
    )
    assert (gone.task, gone.is_added, gone.reason) == ("a-1", False, "1 of 2 suffices")


def test_the_plan_that_stays_counts_all_groups_that_have_tasks() -> None:
    """A preview contains the datastreams of one group only."""
    fleet = FleetState(
        tuple(a_datastream(name, "t") for name in GROUPS),
        (an_instance("one"),),
        a_plan(epoch=0),
        {SOURCE: {"t": 2}},
    )
    plan = decide(fleet, SimplePlanner(), TaskCapacity(100), 1).plan
    assert plan is not None
    seen = replace(fleet, datastreams=fleet.datastreams[:1], plan=plan, is_whole=False)
    sentence = decide(seen, SimplePlanner(), TaskCapacity(100), 2).sentence
    assert ("4 partitions" in sentence, "2 datastream groups" in sentence) == (True, True), sentence
