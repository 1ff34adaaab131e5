"""The leader's decisions over whole histories of a small fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.partition_selection import TopicMatching
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_decision import FleetState, LastPlanning, decide, groups_of
from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import GroupName
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, Plan, PlanningRequest
from tests.builders import SOURCE, a_datastream, an_instance
from tests.examples import examples
from tests.fakes.node_store import FakeZooKeeper

CAPACITY = TaskCapacity(100)
MANY: Final = 1_000
NAMES = ["a", "a-1", "a 1", "a.b", "a-10", "b!", "ä"]
"""Names for which tasks sorted by name are not grouped."""


@st.composite
def fleets(draw: st.DrawFn) -> tuple[tuple[Datastream, ...], dict[str, int], tuple[str, ...]]:
    datastreams = tuple(
        a_datastream(
            name,
            draw(st.sampled_from(["t", "u", "t|u", ".*"])),
            draw(st.sampled_from([DatastreamStatus.READY] * 4 + [DatastreamStatus.PAUSED])),
            limits=TaskLimits(min_tasks=draw(st.sampled_from([1, 2, 12]))),
        )
        for name in sorted(draw(st.sets(st.sampled_from(NAMES), max_size=4)))
    )
    topics = draw(st.dictionaries(st.sampled_from(["t", "u", "__v"]), st.integers(1, 15)))
    live = tuple(sorted(draw(st.sets(st.sampled_from(["one", "two", "three"])))))
    return datastreams, topics, live


@st.composite
def tight_worlds(draw: st.DrawFn) -> FleetState:
    """Draw a fleet whose limits may not leave room for all partitions."""
    datastreams, topics, live = draw(fleets())
    tight = st.builds(
        TaskLimits,
        max_tasks=st.sampled_from([1, 2, None]),
        max_partitions_per_task=st.sampled_from([1, 4, None]),
    )
    return FleetState(
        datastreams=tuple(replace(one, limits=draw(tight)) for one in datastreams),
        live=tuple(an_instance(name, number) for number, name in enumerate(live)),
        plan=NO_PLAN.plan,
        topics={SOURCE: topics},
    )


class FirstFit(SimplePlanner):
    """Planner that leaves partitions beyond the limits without a task. Counts its requests."""

    def __init__(self) -> None:
        self.asked = 0

    def plan(self, request: PlanningRequest) -> GroupPlan:
        self.asked += 1
        room = (request.limits.max_tasks or MANY) * (request.limits.max_partitions_per_task or MANY)
        kept = sorted(request.partitions, key=lambda one: (one not in request.current, one))
        answer = super().plan(replace(request, partitions=tuple(kept[:room])))
        return replace(answer, unplaced=tuple(kept[room:]))


def _content(plan: Plan | None) -> Plan | None:
    """Return the plan without the reason, which names the requested groups."""
    return replace(plan, reason="") if plan is not None else None


@given(st.lists(tight_worlds(), min_size=1, max_size=5))
@settings(max_examples=examples(80))
def test_what_found_no_room_is_planned_only_where_the_plan_can_change(history: Sequence[FleetState]) -> None:
    """Compare with a leader that plans such groups at each tick."""
    always, seldom = FirstFit(), FirstFit()
    plan: Plan = NO_PLAN.plan
    last: Mapping[GroupName, LastPlanning] = {}
    for one in history:
        for _ in range(2):
            asked = seldom.asked
            fleet = replace(one, plan=plan, last=last)
            decision = decide(fleet, seldom, CAPACITY, 1)
            expected = decide(replace(fleet, last={}), always, CAPACITY, 1)
            assert _content(decision.plan) == _content(expected.plan)
            plan, last = decision.plan or plan, decision.last
        assert seldom.asked == asked, "an unchanged fleet was planned again"
        assert last.keys() == {
            group for group, wanted in one.wishes.partitions.items() if wanted != plan.planned.get(group)
        }


@given(st.lists(fleets(), min_size=1, max_size=4))
@settings(max_examples=examples(80))
def test_every_fleet_settles_with_one_plan_that_mirrors_all_that_is_wanted_once(
    history: Sequence[tuple[tuple[Datastream, ...], dict[str, int], tuple[str, ...]]],
) -> None:
    store = PlanStore(FakeZooKeeper().session(), "w")
    stored = NO_PLAN
    for datastreams, topics, live in history:
        paused = {one.group for one in datastreams if one.status is DatastreamStatus.PAUSED}
        kept = {(group, partition) for group, partition in stored.plan.owners if group in paused}
        fleet = FleetState(
            datastreams=datastreams,
            live=tuple(an_instance(name, number) for number, name in enumerate(live)),
            plan=stored.plan,
            topics={SOURCE: topics},
        )
        decision = decide(fleet, SimplePlanner(), CAPACITY, 1)
        if decision.plan is not None:
            assert decision.plan.epoch == stored.plan.epoch + 1
            store.publish(decision.plan, stored)
        stored = store.read(NO_PLAN)
        again = FleetState(datastreams, fleet.live, stored.plan, fleet.topics)
        assert decide(again, SimplePlanner(), CAPACITY, 2).plan is None
        wanted = {
            (group, partition)
            for group, members in groups_of(datastreams).items()
            for partition in TopicMatching().wanted(members, fleet.topics) or ()
        }
        assert set(stored.plan.owners) == wanted | kept
        homes = {task.instance for task in stored.plan.tasks}
        assert homes <= set(live or [None])
