"""Simulated days with the decisions of the service: no flapping, little slack, no task above capacity."""

from __future__ import annotations

import pytest

from bench.placement.month import FOLLOWING, Shape, simulate

pytestmark = pytest.mark.deep

DAYS = Shape(partitions=64, tasks=10, days=4)


def test_days_with_a_swing_neither_flap_nor_overload() -> None:
    score = simulate(DAYS)
    assert score.reversals == 0
    assert score.above <= 0.001
    assert score.announced >= 0.95 * score.needs
    assert score.moved <= 0.01


def test_tasks_that_follow_the_day_leave_little_slack_and_change_direction_once_a_day() -> None:
    holding, following = simulate(DAYS), simulate(DAYS, FOLLOWING)
    assert following.slack <= min(0.23, holding.slack)
    assert following.above <= 0.001
    assert following.reversals <= DAYS.days


def test_the_same_days_give_the_same_figures() -> None:
    short = Shape(partitions=24, tasks=4, days=1)
    assert simulate(short) == simulate(short)
