"""Estimates of the remaining time of noisy catch-ups."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.movement.history import LaneHistory
from monitor.movement.catch_up import approach, eta_seconds
from monitor.movement.judge import judge_lane
from monitor.movement.states import LaneFacts, MovementState
from tests.fakes.partition_lives import PartitionLife

TOLERANCE = 0.2


@given(
    seed=st.integers(0, 2**32),
    inflow=st.floats(0, 300),
    speed=st.floats(1.4, 6.0),
    outage=st.integers(600, 3_000),
)
def test_an_announced_end_comes_true_within_a_fifth(
    seed: int, inflow: float, speed: float, outage: int
) -> None:
    """Both rates vary by a fifth from second to second."""
    random = Random(seed)

    def noise() -> float:
        return random.uniform(0.8, 1.2)

    life = PartitionLife().run(30, inflow + 10).run(outage, 100, 0)
    copied = max(inflow * speed, inflow + 20)
    life.run(120, inflow, copied, noise=noise)
    found = judge_lane(life.history, LaneFacts(), life.now)
    if life.age_seconds() < 60:
        return
    assert found.state is MovementState.CATCHING_UP, found
    assert found.eta_seconds is not None
    began = life.now
    while life.checkpoint < life.end - 2 * (inflow + copied):
        life.run(5, inflow, copied, noise=noise, reports=False)
    took = life.now - began
    assert abs(found.eta_seconds - took) <= TOLERANCE * took + 10, (found.eta_seconds, took)


@given(seed=st.integers(0, 2**32), rate=st.floats(10, 300))
def test_a_lag_that_only_wanders_is_seldom_called_catching_up(seed: int, rate: float) -> None:
    """Inflow and copy rate are equal on average, so no end within the hour is predicted."""
    random = Random(seed)
    life = PartitionLife().run(30, rate).run(600, rate, 0)
    life.run(300, rate, rate, noise=lambda: random.uniform(0.8, 1.2))
    found = eta_seconds(approach(life.history), life.history, life.now)
    assert found is None or found > 3_600


@given(st.lists(st.tuples(st.floats(0.1, 60), st.integers(-500, 5_000), st.integers(0, 5_000)), max_size=80))
def test_every_history_has_one_state_and_is_bounded(steps: list[tuple[float, int, int]]) -> None:
    life = PartitionLife(100)
    for seconds, moved, came in steps:
        life.now += seconds
        life.end += came
        life.checkpoint = max(min(life.checkpoint + moved, life.end), 0)
        life.age_is_known = came % 2 == 0
        life.report()
        found = judge_lane(life.history, LaneFacts(), life.now)
        assert found.state is not None
        assert found.eta_seconds is None or found.eta_seconds >= 0
        assert (found.eta_seconds is not None) <= (found.state is MovementState.CATCHING_UP)
        assert len(life.history.waypoints) <= 24
        moments = [one.at for one in life.history.waypoints]
        assert moments == sorted(set(moments))
        _assert_sums_are_of_the_waypoints(life.history)


def _assert_sums_are_of_the_waypoints(history: LaneHistory) -> None:
    waits = [one.waiting for one in history.waypoints]
    assert list(history.waits) == waits
    lengths = [later.at - sooner.at for sooner, later in pairwise(history.waypoints)]
    changes = [(before - after) ** 2 for before, after in pairwise(waits)]
    assert list(history.unrest) == [one / seconds for one, seconds in zip(changes, lengths, strict=True)]
