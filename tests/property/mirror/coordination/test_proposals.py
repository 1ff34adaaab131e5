"""A proposed plan is applied exactly as shown, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_decision import World, decide
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
def worlds(draw: st.DrawFn) -> World:
    """Draw a world with a current plan, unbalanced if instances have joined since."""
    datastreams = (
        a_datastream("orders", "t", limits=TaskLimits(min_tasks=draw(st.integers(1, 4)))),
        a_datastream("users", "u", limits=TaskLimits(min_tasks=draw(st.integers(1, 4)))),
    )
    names = draw(st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=3, unique=True))
    topics = {"t": draw(st.integers(1, 9)), "u": draw(st.integers(1, 9))}
    live = tuple(an_instance(name, number) for number, name in enumerate(names))
    world = World(datastreams, live[: draw(st.integers(1, 3))], NOTHING_YET, {SOURCE: topics})
    first = decide(world, SimplePlanner(), CAPACITY, 1).plan
    assert first is not None
    return replace(world, live=live, plan=first)


def proposed(world: World) -> tuple[Proposal, Plan]:
    request = RebalanceRequest(ORDERS, True, "me", "to see", 1, "")
    mine = tuple(one for one in world.datastreams if one.group == ORDERS)
    seen = replace(world, datastreams=mine, requests=(request,), is_whole=False)
    plan = decide(seen, SimplePlanner(), CAPACITY, 2).plan or world.plan
    return propose(seen, ORDERS, plan, {"sentence": "x"}, 2), plan


def stopped(world: World) -> World:
    one, *others = world.datastreams
    return replace(world, datastreams=(replace(one, status=DatastreamStatus.PAUSED), *others))


def changed(one: Datastream) -> Datastream:
    return replace(one, limits=TaskLimits(min_tasks=5))


@settings(max_examples=examples(200))
@given(worlds())
def test_what_is_applied_is_what_was_shown(world: World) -> None:
    proposal, plan = proposed(world)
    kept = from_stored(json.loads(json.dumps(to_stored(proposal))))
    assert kept == proposal
    step = application_of(world, kept, REQUEST, 3)
    assert step.failure is None
    if plan.tasks == world.plan.tasks:
        assert step.decision is None
        return
    assert step.decision is not None
    assert step.decision.plan is not None
    assert step.decision.plan.tasks == plan.tasks
    assert step.decision.plan.epoch == world.plan.epoch + 1
    assert "me: " in step.decision.sentence
    assert "plan p-0000000000" in step.decision.sentence


@settings(max_examples=examples(100))
@given(worlds())
def test_what_is_in_force_is_not_applied_again_and_is_no_failure(world: World) -> None:
    proposal, _ = proposed(world)
    step = application_of(world, proposal, REQUEST, 3)
    if step.decision is not None:
        assert step.decision.plan is not None
        again = application_of(replace(world, plan=step.decision.plan), proposal, REQUEST, 4)
        assert (again.decision, again.failure) == (None, None)


@settings(max_examples=examples(100))
@given(worlds())
def test_what_is_not_true_any_more_is_not_applied_and_says_what_has_changed(world: World) -> None:
    proposal, plan = proposed(world)
    if plan.tasks == world.plan.tasks:
        return
    one, *others = world.datastreams
    for said, other in {
        "epoch 7": replace(world, plan=replace(world.plan, epoch=Epoch(7))),
        "definitions of orders": replace(world, datastreams=(changed(one), *others)),
        "definitions": stopped(world),
        "partitions of orders": replace(world, topics={SOURCE: {"t": 10, "u": 1}}),
        "unknown": replace(world, topics={}),
    }.items():
        step = application_of(other, proposal, REQUEST, 3)
        assert step.decision is None
        assert said in str(step.failure)
    homes = {placement.instance for placement in proposal.placed if placement.instance is not None}
    for name in homes:
        left = tuple(one for one in world.live if one.name != name)
        step = application_of(replace(world, live=left), proposal, REQUEST, 3)
        assert step.decision is None
        assert name in str(step.failure)
