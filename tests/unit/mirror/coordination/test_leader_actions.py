"""Test the actions that the leader derives from a snapshot of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirror.coordination.leader_actions import (
    CompleteRequest,
    PublishPlan,
    RemoveDefinition,
    StoreDefinition,
    after,
    is_over,
    is_too_early,
    leader_actions,
    status_change,
)
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_decision import FleetState, decide
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, Halt
from mirror.model.identifiers import GroupName
from mirror.model.load import TaskCapacity
from mirror.model.movement.exemptions import WHOLE, Resumption
from mirror.model.plan import Plan
from tests.builders import SOURCE, a_datastream, a_plan, a_task, an_instance

_S = DatastreamStatus
PLANNED = a_plan(a_task("orders-0", ["t-0"], "one"))


def statuses(*datastreams: Datastream, plan: Plan = PLANNED, now_ms: int = 0) -> dict[str, _S]:
    changes = changes_of(datastreams, plan, now_ms)
    return {one.datastream.name: one.datastream.status for one in changes}


def changes_of(datastreams: Sequence[Datastream], plan: Plan, now_ms: int) -> list[StoreDefinition]:
    found = (status_change(one, datastreams, plan, now_ms) for one in datastreams)
    return [change for change in found if change is not None]


def test_what_is_new_becomes_ready() -> None:
    assert statuses(a_datastream(status=_S.INITIALIZING)) == {"orders": _S.READY}


def test_what_stops_has_stopped_once_nothing_of_it_is_planned() -> None:
    stopping = a_datastream(status=_S.STOPPING)
    assert statuses(stopping) == {}
    assert statuses(stopping, plan=a_plan()) == {"orders": _S.STOPPED}


def test_what_has_outlived_its_time_is_deleted_once() -> None:
    brief = {"system.creation.ms": "1000", "system.ttl.ms": "500"}
    assert statuses(a_datastream(metadata=brief), now_ms=1499) == {}
    for status in (_S.READY, _S.PAUSED, _S.STOPPED):
        assert statuses(a_datastream(metadata=brief, status=status), now_ms=1500) == {"orders": _S.DELETING}
    assert statuses(a_datastream(metadata=brief, status=_S.DELETING), now_ms=9000) == {}


def test_what_was_paused_for_a_time_is_ready_again_and_told_of() -> None:
    one = a_datastream(status=_S.PAUSED, halt=Halt("tests", 1, "me", 1500))
    assert changes_of([one], PLANNED, 1499) == []
    (change,) = changes_of([one], PLANNED, 1500)
    over = a_datastream(resumptions={WHOLE: Resumption(None, 1, 1500, 1500)})
    assert (change.datastream, change.is_told) == (over, True)
    brief = replace(one, metadata={"system.creation.ms": "1000", "system.ttl.ms": "500"})
    assert statuses(brief, now_ms=1500) == {"orders": _S.DELETING}


def test_the_order_is_states_then_plan_then_answers_then_removals() -> None:
    datastreams = (
        a_datastream("gone", "t", _S.DELETING),
        a_datastream("orders", "t", _S.INITIALIZING),
    )
    plan = a_plan(a_task("gone-0", ["t-0"], "one"))
    request = RebalanceRequest(GroupName("orders"), False, "me", "to see", 1, "r-1")
    changes = changes_of(datastreams, plan, 0)
    fleet = FleetState(after(datastreams, changes), (an_instance(),), plan, {SOURCE: {"t": 2}}, (request,))
    decision = decide(fleet, SimplePlanner(), TaskCapacity(100), 1)
    over = [one.name for one in fleet.datastreams if is_over(one, fleet, decision)]
    kinds = [type(action) for action in leader_actions(fleet, changes, decision, over)]
    assert kinds == [StoreDefinition, PublishPlan, CompleteRequest, RemoveDefinition]


def test_nothing_to_do_is_nothing_to_do() -> None:
    fleet = FleetState((a_datastream("orders", "t"),), (an_instance(),), PLANNED, {SOURCE: {"t": 1}})
    assert leader_actions(fleet, (), decide(fleet, SimplePlanner(), TaskCapacity(100), 1), ()) == ()


def test_a_new_leader_waits_a_moment_when_most_others_are_missing() -> None:
    plan = a_plan(*(a_task(f"g-{name}", [f"t-{name}"], f"i{name}") for name in range(4)))
    few, most = [an_instance("i0")], [an_instance(f"i{name}") for name in range(3)]
    assert is_too_early(plan, few, 0.5)
    assert not is_too_early(plan, most, 0.5)
    assert not is_too_early(plan, few, 2.0)


def test_where_one_of_one_or_two_is_missing_nobody_waits() -> None:
    assert not is_too_early(a_plan(a_task("g-0", ["t-0"], "i0")), [an_instance("i1")], 0.0)
    pair = a_plan(a_task("g-0", ["t-0"], "i0"), a_task("g-1", ["t-1"], "i1"))
    assert not is_too_early(pair, [an_instance("i1")], 0.0)
