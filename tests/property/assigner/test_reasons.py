"""Reasons name the steps that acted: for the number of tasks, and for every move."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assigner.answer.explain import MoveCause
from assigner.answer.placement_answer import PlacementAnswer
from assigner.problem.policy import PlanMode
from tests.examples import examples
from tests.property.assigner.test_plans import World, homes, worlds


@st.composite
def placed_worlds(draw: st.DrawFn) -> World:
    """Draw a world with a current placement, planned incrementally."""
    world = draw(worlds())
    current = draw(homes(len(world.loads.partitions)))
    return replace(
        world, current=current, policy=replace(world.policy, mode=PlanMode.INCREMENTAL, full_move_cost=None)
    )


def tasks_of(answer: PlacementAnswer) -> tuple[set[int], set[int]]:
    """Return the current and the planned tasks."""
    held = set(np.flatnonzero(answer.alive).tolist())
    return set(np.unique(answer.current[answer.current >= 0]).tolist()), held


@given(placed_worlds())
@settings(max_examples=examples(60))
def test_the_first_reason_speaks_of_the_tasks_that_come_and_go(world: World) -> None:
    answer = world.plan()
    before, after = tasks_of(answer)
    reason = answer.reasons[0]
    if not before or "from scratch" in reason or answer.moves_left:
        return
    more = len(after) - len(before)
    assert more <= 0 or "added" in reason or re.search(r"needs \d+ tasks?, current", reason), reason
    assert more <= 0 or "not yet" not in reason
    assert more > 0 or "added" not in reason
    given_up = re.search(r"\d+ of \d+ tasks? suffice|removed", reason, re.IGNORECASE)
    assert (more < 0) == bool(given_up), reason


@given(placed_worlds())
@settings(max_examples=examples(60))
def test_every_move_has_one_cause_and_it_is_true(world: World) -> None:
    answer = world.plan()
    _, after = tasks_of(answer)
    moved = (answer.current >= 0) & (answer.task_of >= 0) & (answer.task_of != answer.current)
    stays = answer.task_of == answer.current
    assert (answer.move_causes[moved] != MoveCause.NONE).all()
    assert (answer.move_causes[stays] == MoveCause.NONE).all()
    if "from scratch" in answer.reasons[0] or set(answer.move_causes[moved].tolist()) == {MoveCause.FULL}:
        return
    usable = world.capacity.usable_bytes_per_second, world.capacity.usable_messages_per_second
    arrived = {int(answer.task_of[one]) for one in np.flatnonzero(answer.task_of != answer.current)}
    for one in np.flatnonzero(moved).tolist():
        home = int(answer.current[one])
        above = any(
            limit is not None and answer.loads_before[home, dimension] > limit - 1
            for dimension, limit in enumerate(usable)
        )
        match MoveCause(int(answer.move_causes[one])):
            case MoveCause.DRAINED:
                assert home not in after
            case MoveCause.EMPTIED:
                assert home in after
                assert answer.moves_left
            case MoveCause.OVERLOADED:
                assert above
            case MoveCause.LEVELLED:
                assert world.policy.rebalance or answer.overloaded
            case MoveCause.MAKES_ROOM:
                assert home in arrived or world.policy.move_budget is not None, "nothing arrived"
            case _:
                assert home in after
