"""A proposed plan is applied exactly as shown, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_decision import FleetState, decide
from mirror.coordination.proposals.application import application_of
from mirror.coordination.proposals.proposal import Proposal, from_stored, propose, to_stored
from mirror.coordination.stores.requests import ApplyRequest, RebalanceRequest
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import Epoch, GroupName
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.plan import Plan
from tests.builders import SOURCE, a_datastream, an_instance
from tests.examples import examples

CAPACITY = TaskCapacity(100)
ORDERS = GroupName("orders")
REQUEST = ApplyRequest(ORDERS, "p-0000000000", "me", 1, "r-0000000000")
NOTHING_YET = Plan(Epoch(0), (), 0, "no plan yet")


@st.composite
def fleets(draw: st.DrawFn) -> FleetState:
    """Draw a fleet with a current plan, unbalanced if instances have joined since."""
    datastreams = (
        a_datastream("orders", "t", limits=TaskLimits(min_tasks=draw(st.integers(1, 4)))),
        a_datastream("users", "u", limits=TaskLimits(min_tasks=draw(st.integers(1, 4)))),
    )
    names = draw(st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=3, unique=True))
    topics = {"t": draw(st.integers(1, 9)), "u": draw(st.integers(1, 9))}
    live = tuple(an_instance(name, number) for number, name in enumerate(names))
    fleet = FleetState(datastreams, live[: draw(st.integers(1, 3))], NOTHING_YET, {SOURCE: topics})
    first = decide(fleet, SimplePlanner(), CAPACITY, 1).plan
    assert first is not None
    return replace(fleet, live=live, plan=first)


def proposed(fleet: FleetState) -> tuple[Proposal, Plan]:
    request = RebalanceRequest(ORDERS, True, "me", "to see", 1, "")
    mine = tuple(one for one in fleet.datastreams if one.group == ORDERS)
    seen = replace(fleet, datastreams=mine, requests=(request,), is_whole=False)
    plan = decide(seen, SimplePlanner(), CAPACITY, 2).plan or fleet.plan
    return propose(seen, ORDERS, plan, {"sentence": "x"}, 2), plan


def stopped(fleet: FleetState) -> FleetState:
    one, *others = fleet.datastreams
    return replace(fleet, datastreams=(replace(one, status=DatastreamStatus.PAUSED), *others))


def changed(one: Datastream) -> Datastream:
    return replace(one, limits=TaskLimits(min_tasks=5))


@settings(max_examples=examples(200))
@given(fleets())
def test_what_is_applied_is_what_was_shown(fleet: FleetState) -> None:
    proposal, plan = proposed(fleet)
    kept = from_stored(json.loads(json.dumps(to_stored(proposal))))
    assert kept == proposal
    step = application_of(fleet, kept, REQUEST, 3)
    assert step.failure is None
    if plan.tasks == fleet.plan.tasks:
        assert step.decision is None
        return
    assert step.decision is not None
    assert step.decision.plan is not None
    assert step.decision.plan.tasks == plan.tasks
    assert step.decision.plan.epoch == fleet.plan.epoch + 1
    assert "me: " in step.decision.sentence
    assert "plan p-0000000000" in step.decision.sentence


@settings(max_examples=examples(100))
@given(fleets())
def test_what_is_in_force_is_not_applied_again_and_is_no_failure(fleet: FleetState) -> None:
    proposal, _ = proposed(fleet)
    step = application_of(fleet, proposal, REQUEST, 3)
    if step.decision is not None:
        assert step.decision.plan is not None
        again = application_of(replace(fleet, plan=step.decision.plan), proposal, REQUEST, 4)
        assert (again.decision, again.failure) == (None, None)


@settings(max_examples=examples(100))
@given(fleets())
def test_what_is_not_true_any_more_is_not_applied_and_says_what_has_changed(fleet: FleetState) -> None:
    proposal, plan = proposed(fleet)
    if plan.tasks == fleet.plan.tasks:
        return
    one, *others = fleet.datastreams
    for said, other in {
        "epoch 7": replace(fleet, plan=replace(fleet.plan, epoch=Epoch(7))),
        "definitions of orders": replace(fleet, datastreams=(changed(one), *others)),
        "definitions": stopped(fleet),
        "partitions of orders": replace(fleet, topics={SOURCE: {"t": 10, "u": 1}}),
        "unknown": replace(fleet, topics={}),
    }.items():
        step = application_of(other, proposal, REQUEST, 3)
        assert step.decision is None
        assert said in str(step.failure)
    homes = {placement.instance for placement in proposal.placed if placement.instance is not None}
    for name in homes:
        left = tuple(one for one in fleet.live if one.name != name)
        step = application_of(replace(fleet, live=left), proposal, REQUEST, 3)
        assert step.decision is None
        assert name in str(step.failure)
