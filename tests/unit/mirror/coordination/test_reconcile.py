"""What an instance does about a plan."""

from __future__ import annotations

from typing import Any

from mirror.coordination.membership import Holding
from mirror.coordination.reconcile import InstanceView, lane_specs, others_of, reconcile
from mirror.model.datastream import DatastreamStatus, StartPosition
from mirror.model.identifiers import Epoch, InstanceName
from mirror.model.topics import TopicNaming
from tests.builders import a_datastream, a_key, a_plan, a_spec, a_task, an_instance

ONE, TWO, THREE = InstanceName("one"), InstanceName("two"), InstanceName("three")
PLAN = a_plan(a_task("orders-0", ["t-0", "t-1"], "one"), a_task("orders-1", ["t-2"], "two"), epoch=5)
T0, T1, T2 = a_key("t-0"), a_key("t-1"), a_key("t-2")
S0, S1 = a_spec("t-0"), a_spec("t-1")


def a_view(**more: Any) -> InstanceView:
    values: dict[str, Any] = {
        "name": ONE,
        "plan": PLAN,
        "datastreams": (a_datastream(),),
        "running": {},
        "stopping": frozenset(),
        "others": {},
        **more,
    }
    return InstanceView(**values)


def test_an_instance_alone_starts_what_the_plan_gives_it() -> None:
    steps = reconcile(a_view())
    assert steps.start == (S0, S1)
    assert steps.stop == ()
    assert steps.holding == Holding(Epoch(5))


def test_what_runs_already_is_left_alone() -> None:
    steps = reconcile(a_view(running={T0: S0, T1: S1}))
    assert (steps.start, steps.stop, steps.waiting) == ((), (), {})


def test_what_the_plan_took_away_is_stopped_and_announced_until_it_is_gone() -> None:
    steps = reconcile(a_view(running={T0: S0, T2: a_spec("t-2")}))
    assert steps.stop == (T2,)
    assert steps.holding == Holding(Epoch(5), frozenset({T2}))
    draining = reconcile(a_view(running={T0: S0, T2: a_spec("t-2")}, stopping=frozenset({T2})))
    assert draining.stop == ()
    assert draining.holding == steps.holding


def test_a_lane_waits_for_whoever_has_not_said_that_it_gave_it_up() -> None:
    others = {TWO: Holding(Epoch(4)), THREE: Holding(Epoch(5), frozenset({T1}))}
    steps = reconcile(a_view(others=others))
    assert steps.start == ()
    assert steps.waiting == {T0: TWO, T1: THREE}
    others = {TWO: Holding(Epoch(5), frozenset({T2})), THREE: Holding(Epoch(5))}
    assert reconcile(a_view(others=others)).start == (S0, S1)


def test_nothing_starts_by_a_plan_that_others_know_to_be_outdated() -> None:
    steps = reconcile(a_view(others={TWO: Holding(Epoch(6))}))
    assert steps.start == ()
    assert set(steps.waiting.values()) == {TWO}


def test_one_that_has_joined_and_said_nothing_holds_nothing() -> None:
    assert reconcile(a_view(others={TWO: None})).start == (S0, S1)


def test_a_lane_that_changes_its_task_on_the_same_instance_stops_and_starts_there() -> None:
    elsewhere = a_spec("t-0", task="orders-9")
    steps = reconcile(a_view(running={T0: elsewhere, T1: S1}))
    assert steps.stop == (T0,)
    assert steps.holding.releasing == frozenset()
    drained = reconcile(a_view(running={T1: S1}))
    assert drained.start == (S0,)


def test_a_lane_that_comes_back_while_it_drains_starts_once_it_has() -> None:
    steps = reconcile(a_view(running={T0: S0, T1: S1}, stopping=frozenset({T0})))
    assert (steps.start, steps.stop) == ((), ())
    assert reconcile(a_view(running={T1: S1})).start == (S0,)


def test_a_deleted_or_paused_datastream_has_no_lanes() -> None:
    assert lane_specs(PLAN, ONE, ()) == {}
    paused = a_datastream(status=DatastreamStatus.PAUSED)
    steps = reconcile(a_view(datastreams=(paused,), running={T0: S0}))
    assert steps.stop == (T0,)
    assert steps.holding.releasing == {T0}


def test_a_lane_is_copied_as_its_datastream_says() -> None:
    datastream = a_datastream(naming=TopicNaming("copy.*"), start=StartPosition.LATEST)
    specs = lane_specs(PLAN, TWO, (datastream,))
    wanted = a_spec("t-2", task="orders-1", destination_topic="copy.t", start=StartPosition.LATEST)
    assert specs == {T2: wanted}


def test_each_member_of_a_group_copies_its_own_topics() -> None:
    shared = {"system.taskPrefix": "both"}
    plan = a_plan(a_task("both-0", ["t-0", "u-0", "v-0"], "one"))
    members = (
        a_datastream("a", "t", metadata=shared, naming=TopicNaming("a.*")),
        a_datastream("b", "u", metadata=shared, naming=TopicNaming("b.*")),
        a_datastream("c", "v", DatastreamStatus.STOPPED, metadata=shared),
    )
    specs = lane_specs(plan, ONE, members)
    assert sorted(spec.destination_topic for spec in specs.values()) == ["a.t", "b.u"]


def test_others_are_everybody_else_also_a_ghost_of_our_own_name() -> None:
    live = [an_instance("one", 1), an_instance("two", 2), an_instance("one", 3)]
    assert [one.sequence for one in others_of(live, 3)] == [1, 2]
