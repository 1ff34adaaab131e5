"""A simulated week: noise and spikes cause almost no moves, and the number of tasks does not oscillate."""

from __future__ import annotations

import numpy as np
import pytest

from assigner.problem.policy import PlanMode, Policy
from bench.placement.loads import synthetic_week
from bench.placement.week import Ours, Score, brooklin_greedy, round_robin, simulate, ureplicator

pytestmark = pytest.mark.long

CALM = Policy(mode=PlanMode.INCREMENTAL, overload_band=0.1, settling=3, effort=0.1, exact_cells=0)


@pytest.fixture(scope="module")
def week() -> dict[str, Score]:
    swinging = synthetic_week(250, 9, seed=1)
    steady = synthetic_week(250, 9, seed=3, swing=0.0)
    return {
        "steady": simulate(steady, Ours(CALM, patience=14)),
        "swinging": simulate(swinging, Ours(CALM, patience=14)),
        "greedy": simulate(swinging, brooklin_greedy),
        "round robin": simulate(swinging, round_robin),
        "threshold": simulate(swinging, ureplicator),
    }


def test_noise_and_spikes_make_nothing_swing(week: dict[str, Score]) -> None:
    score = week["steady"]
    assert score.reversals == 0
    assert max(score.tasks) - min(score.tasks) <= 1
    assert score.returns <= 2
    assert np.mean(score.moved[1:]) < 0.002
    assert sum(moved > 0 for moved in score.moved[1:]) < 30


def test_days_and_nights_do_not_reverse_the_number_of_tasks(week: dict[str, Score]) -> None:
    score = week["swinging"]
    assert score.reversals == 0
    assert score.returns <= 5
    assert score.badly < 0.005 * score.task_hours


def test_it_is_the_least_overloaded_and_moves_less_than_the_threshold_rule(week: dict[str, Score]) -> None:
    ours = week["swinging"]
    shares = {name: score.overloaded / score.task_hours for name, score in week.items()}
    assert shares["swinging"] < 0.6 * min(shares["greedy"], shares["round robin"], shares["threshold"])
    assert np.mean(ours.moved) < 0.5 * np.mean(week["threshold"].moved)


def test_a_simulated_week_is_the_same_every_time() -> None:
    few = synthetic_week(60, 3, seed=5, hours=30)
    one, two = (simulate(few, Ours(CALM, patience=6)) for _ in range(2))
    assert (one.tasks, one.moved) == (two.tasks, two.moved)
