"""The leader's decision over whole histories of a small world."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.matching import TopicMatching
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_store import NO_PLAN, PlanStore
from mirror.coordination.planning import World, decide, groups_of
from mirror.model.datastream import Datastream, DatastreamStatus
from mirror.model.load import TaskCapacity, TaskLimits
from tests.builders import SOURCE, a_datastream, an_instance
from tests.fakes.node_store import FakeZooKeeper

CAPACITY = TaskCapacity(100)
NAMES = ["a", "a-1", "a 1", "a.b", "a-10", "b!", "ä"]
"""Such that tasks sorted by name do not come group by group."""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[tuple[Datastream, ...], dict[str, int], tuple[str, ...]]:
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


@given(st.lists(worlds(), min_size=1, max_size=4))
@settings(max_examples=80)
def test_every_world_settles_with_one_plan_that_mirrors_all_that_is_wanted_once(
    history: Sequence[tuple[tuple[Datastream, ...], dict[str, int], tuple[str, ...]]],
) -> None:
    store = PlanStore(FakeZooKeeper().session(), "w")
    stored = NO_PLAN
    for datastreams, topics, live in history:
        world = World(
            datastreams=datastreams,
            live=tuple(an_instance(name, number) for number, name in enumerate(live)),
            plan=stored.plan,
            topics={SOURCE: topics},
        )
        decision = decide(world, SimplePlanner(), CAPACITY, 1)
        if decision.plan is not None:
            assert decision.plan.epoch == stored.plan.epoch + 1
            store.publish(decision.plan, stored)
        stored = store.read(NO_PLAN)
        again = World(datastreams, world.live, stored.plan, world.topics)
        assert decide(again, SimplePlanner(), CAPACITY, 2).plan is None
        wanted = {
            (group, partition)
            for group, members in groups_of(datastreams).items()
            for partition in TopicMatching().wanted(members, world.topics) or ()
        }
        assert set(stored.plan.owners) == wanted
        homes = {task.instance for task in stored.plan.tasks}
        assert homes <= set(live or [None])
