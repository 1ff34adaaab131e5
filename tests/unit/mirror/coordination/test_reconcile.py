"""Test the lanes that an instance starts, stops and announces under a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror.coordination.reconcile import InstanceView, duties, lane_specs, needs_restart, others_of, starts
from mirror.coordination.stores.membership import Holding
from mirror.model.datastreams.datastream import DatastreamStatus, PartitionPause, StartPosition
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import Epoch, GroupName, InstanceName
from mirror.model.topics import TopicNaming
from tests.builders import a_datastream, a_key, a_plan, a_spec, a_task, an_instance

ONE, TWO, THREE = InstanceName("one"), InstanceName("two"), InstanceName("three")
PLAN = a_plan(a_task("orders-0", ["t-0", "t-1"], "one"), a_task("orders-1", ["t-2"], "two"), epoch=5)
T0, T1, T2 = a_key("t-0"), a_key("t-1"), a_key("t-2")
S0, S1 = a_spec("t-0"), a_spec("t-1")


ORDERS = frozenset({T0.group})


def a_view(**more: Any) -> InstanceView:
    values: dict[str, Any] = {
        "epoch": PLAN.epoch,
        "desired": lane_specs(PLAN, ONE, (a_datastream(),)).specs,
        "running": {},
        "stopping": frozenset(),
        **more,
    }
    return InstanceView(**values)


def held(epoch: int, *releasing: LaneKey, groups: frozenset[GroupName] = ORDERS) -> Holding:
    return Holding(Epoch(epoch), frozenset(releasing), groups)


def test_what_the_plan_gives_and_does_not_run_is_missing() -> None:
    todo = duties(a_view())
    assert dict(todo.missing) == {T0: S0, T1: S1}
    assert todo.stop == ()
    assert todo.holding == held(5)


def test_what_runs_already_is_left_alone() -> None:
    todo = duties(a_view(running={T0: S0, T1: S1}))
    assert (dict(todo.missing), todo.stop) == ({}, ())


def test_another_quota_or_owner_stops_no_lane_and_another_policy_only_those_that_have_it() -> None:
    running = {T0: S0, T1: S1}
    changed = a_datastream(metadata={"headrace.bytes-per-second": "1000", "owner": "others"})
    found = lane_specs(PLAN, ONE, (changed,)).specs
    assert found[T0].policy.bytes_per_second == 1000
    assert duties(a_view(desired=found, running=running)).stop == ()
    stricter = a_datastream(metadata={"headrace.bytes-per-second": "1000", "headrace.path": "record"})
    found = lane_specs(PLAN, ONE, (stricter,)).specs
    assert duties(a_view(desired=found, running=running)).stop == (T0, T1)


def test_what_the_plan_took_away_is_stopped_and_announced_until_it_is_gone() -> None:
    todo = duties(a_view(running={T0: S0, T2: a_spec("t-2")}))
    assert todo.stop == (T2,)
    assert todo.holding == held(5, T2)
    draining = duties(a_view(running={T0: S0, T2: a_spec("t-2")}, stopping=frozenset({T2})))
    assert draining.stop == ()
    assert draining.holding == todo.holding


def test_a_group_is_announced_as_long_as_anything_of_it_runs() -> None:
    nothing = duties(a_view(desired={}))
    assert nothing.holding == held(5, groups=frozenset())
    draining = duties(a_view(desired={}, running={T2: a_spec("t-2")}, stopping=frozenset({T2})))
    assert draining.holding == held(5, T2)


def may_start(**others: Holding | None) -> tuple[LaneSpec, ...]:
    return starts({T0: S0, T1: S1}, Epoch(5), {InstanceName(name): one for name, one in others.items()}).start


def test_alone_everything_starts() -> None:
    assert may_start() == (S0, S1)


def test_a_lane_waits_for_whoever_has_not_said_that_it_gave_it_up() -> None:
    others = {TWO: held(4), THREE: held(5, T1)}
    found = starts({T0: S0, T1: S1}, Epoch(5), others)
    assert found.start == ()
    assert found.waiting == {T0: TWO, T1: THREE}
    found = starts({T0: S0, T1: S1}, Epoch(5), {TWO: held(5, T2), THREE: held(5, T1)})
    assert (found.start, found.waiting) == ((S0,), {T1: THREE})
    assert may_start(two=held(5, T2), three=held(5)) == (S0, S1)


def test_who_runs_nothing_of_the_group_holds_nobody_up() -> None:
    assert may_start(two=held(1, groups=frozenset({GroupName("others")}))) == (S0, S1)
    assert may_start(two=held(9, groups=frozenset())) == (S0, S1)


def test_nothing_starts_by_a_plan_that_others_of_the_group_know_to_be_outdated() -> None:
    assert may_start(two=held(6)) == ()


def test_one_that_has_joined_and_said_nothing_holds_nothing() -> None:
    assert may_start(two=None) == (S0, S1)


def test_an_overdue_lane_is_taken_from_one_that_is_behind_or_does_not_release_it() -> None:
    overdue = frozenset({T0})
    for holder in (held(4), held(5, T0, T1)):
        found = starts({T0: S0, T1: S1}, Epoch(5), {TWO: holder}, overdue)
        assert (found.start, found.waiting) == ((S0,), {T1: TWO})


def test_an_overdue_lane_is_not_taken_from_one_that_is_ahead() -> None:
    assert starts({T0: S0}, Epoch(5), {TWO: held(6)}, frozenset({T0})).start == ()


def test_a_lane_that_changes_its_task_on_the_same_instance_stops_and_starts_there() -> None:
    elsewhere = a_spec("t-0", task="orders-9")
    todo = duties(a_view(running={T0: elsewhere, T1: S1}))
    assert todo.stop == (T0,)
    assert todo.holding.releasing == frozenset()
    assert dict(duties(a_view(running={T1: S1})).missing) == {T0: S0}


def test_a_lane_that_comes_back_while_it_drains_starts_once_it_has() -> None:
    todo = duties(a_view(running={T0: S0, T1: S1}, stopping=frozenset({T0})))
    assert (dict(todo.missing), todo.stop) == ({}, ())
    assert dict(duties(a_view(running={T1: S1})).missing) == {T0: S0}


def test_a_deleted_or_paused_datastream_has_no_lanes() -> None:
    assert lane_specs(PLAN, ONE, ()).specs == {}
    assert lane_specs(PLAN, ONE, (a_datastream(status=DatastreamStatus.PAUSED),)).specs == {}


def test_paused_partitions_have_no_lanes() -> None:
    some = a_datastream(pauses={"t": PartitionPause(frozenset({1, 7}), "too large", 5)})
    assert set(lane_specs(PLAN, ONE, (some,)).specs) == {T0}
    topic = a_datastream(pauses={"t": PartitionPause(None, "the whole topic", 5)})
    assert lane_specs(PLAN, ONE, (topic,)).specs == {}


def test_a_lane_is_copied_as_its_datastream_says() -> None:
    datastream = a_datastream(naming=TopicNaming("copy.*"), start=StartPosition.LATEST)
    specs = lane_specs(PLAN, TWO, (datastream,)).specs
    wanted = a_spec("t-2", task="orders-1", destination_topic="copy.t", start=StartPosition.LATEST)
    assert specs == {T2: wanted}
    since: dict[str, Any] = {"start": StartPosition.TIMESTAMP, "start_ms": 1_795_248_000_500}
    assert lane_specs(PLAN, TWO, (a_datastream(**since),)).specs == {
        T2: a_spec("t-2", task="orders-1", **since)
    }


def test_each_member_of_a_group_copies_its_own_topics() -> None:
    shared = {"system.taskPrefix": "both"}
    plan = a_plan(a_task("both-0", ["t-0", "u-0", "v-0"], "one"))
    members = (
        a_datastream("a", "t", metadata=shared, naming=TopicNaming("a.*")),
        a_datastream("b", "u", metadata=shared, naming=TopicNaming("b.*")),
        a_datastream("c", "v", DatastreamStatus.STOPPED, metadata=shared),
    )
    specs = lane_specs(plan, ONE, members).specs
    assert sorted(spec.destination_topic for spec in specs.values()) == ["a.t", "b.u"]


def test_others_are_everybody_else_also_a_ghost_of_our_own_name() -> None:
    live = [an_instance("one", 1), an_instance("two", 2), an_instance("one", 3)]
    assert [one.sequence for one in others_of(live, 3)] == [1, 2]


class Malicious(TopicNaming):
    """A naming that raises an unexpected error."""

    def destination(self, topic: str) -> str:
        raise RecursionError(topic)


def test_a_lane_that_cannot_be_described_is_named_and_the_others_are_described() -> None:
    plan = a_plan(a_task("orders-0", ["t-0"], "one"), a_task("users-0", ["t-0"], "one"))
    bad, good = a_datastream(naming=Malicious("x.*")), a_datastream("users", "t")
    found = lane_specs(plan, ONE, (bad, good))
    assert [key.group for key in found.specs] == ["users"]
    assert [key.group for key in found.problems] == ["orders"]


def test_lanes_get_the_ids_of_the_only_clusters_that_they_may_read_and_write() -> None:
    assert (S0.source_id, S0.destination_id) == ("", "")
    bound = {a_datastream().source: "a", a_datastream().destination: "b"}
    found = lane_specs(PLAN, ONE, (a_datastream(),), bound).specs
    assert {(one.source_id, one.destination_id) for one in found.values()} == {("a", "b")}


@pytest.mark.parametrize(
    "named", [lambda text: replace(S0, source_id=text), lambda text: replace(S0, destination_id=text)]
)
def test_an_id_that_is_stored_after_the_start_restarts_no_lane_and_another_one_does(
    named: Callable[[str], LaneSpec],
) -> None:
    assert not needs_restart(named(""), named("b"))
    assert needs_restart(named("b"), named("c"))


def test_a_short_interval_of_groups_shortens_the_checkpoints_of_the_lanes() -> None:
    def seconds(**metadata: str) -> set[float]:
        found = lane_specs(PLAN, ONE, (a_datastream(metadata={"owner": "tests", **metadata}),)).specs
        return {one.checkpoint_seconds for one in found.values()}

    assert seconds() == seconds(**{"headrace-groups-interval": "0.2"}) == {0.0}
    assert seconds(**{"headrace-groups": ".*"}) == {0.0}
    assert seconds(**{"headrace-groups": ".*", "headrace-groups-interval": "0.2"}) == {0.1}
    assert seconds(**{"headrace-groups": ".*", "headrace-groups-interval": "4"}) == {0.0}
