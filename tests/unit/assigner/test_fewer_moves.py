"""Fewer moves for slightly more bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from assigner.answer.placement_answer import PlacementAnswer
from assigner.planner import plan
from assigner.problem.policy import PlanMode, Policy
from mirror.model.load import TaskLimits
from tests.placement_data import loads_of, tasks_of
from tests.unit.assigner.test_incremental import CAPACITY

BYTES = Policy(mode=PlanMode.INCREMENTAL, settling=1)
MOVES = replace(BYTES, move_slack=0.1)


def answer(
    rates: Sequence[float], home: list[int], policy: Policy, limits: TaskLimits | None = None
) -> PlacementAnswer:
    return plan(loads_of(list(rates)), CAPACITY, limits, policy, tasks_of(home))


def test_two_heavy_partitions_move_in_place_of_many_light_ones_for_a_few_more_bytes() -> None:
    rates, home = [50, 27, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 60], [0] * 12 + [1]
    least = answer(rates, home, BYTES)
    assert (least.moved_partitions, least.moved_bytes_per_second) == (3, 9)
    assert answer(rates, home, MOVES).moved_partitions == 3, "a move of 27, more than a tenth above 9"
    rates = [50, 31, *[3] * 10, 60]
    least, fewer = (answer(rates, home, policy) for policy in (BYTES, MOVES))
    assert (least.moved_partitions, least.moved_bytes_per_second) == (4, 12)
    assert fewer.moved_partitions == 4
    rates = [50, 13, *[3] * 16, 60]
    home = [0] * 18 + [1]
    least, fewer = (answer(rates, home, policy) for policy in (BYTES, MOVES))
    assert (least.moved_partitions, least.moved_bytes_per_second) == (4, 12)
    assert (fewer.moved_partitions, fewer.moved_bytes_per_second) == (1, 13)
    assert not fewer.overloaded


@pytest.mark.parametrize("slack", [0.0, 0.07])
def test_more_bytes_than_the_slack_allows_are_not_moved(slack: float) -> None:
    found = answer([50, 13, *[3] * 16, 60], [0] * 18 + [1], replace(MOVES, move_slack=slack))
    assert (found.moved_partitions, found.moved_bytes_per_second) == (4, 12)


def test_a_limit_of_partitions_holds() -> None:
    limits = TaskLimits(max_partitions_per_task=15)
    found = answer([50, 13, *[3] * 16, 60], [0] * 18 + [1], MOVES, limits)
    assert not found.overloaded
    assert found.moved_partitions >= 3
