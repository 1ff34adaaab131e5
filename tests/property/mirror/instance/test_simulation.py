"""Hundreds of schedules of faults for a whole service in memory: see tests/models/service.py.

Each day runs other seeds of the first 10,000: 25 days of `make test-all` cover all. A failure names
its seed. `SIMULATION_FIRST=n` runs those of another day,
`SEEDS=10000 python -m bench coordination_simulation` all.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from random import Random

import pytest

from mirror.coordination.stores.plan_store import PlanStore
from mirror.model.topics import TopicDescription
from tests.examples import examples
from tests.models.service import Simulation, failures, run

SCHEDULES = 400
STEPS = 60
_ALL = 10_000
_SHARE = 50
_SECONDS_A_DAY = 86_400


@pytest.mark.long
def test_no_two_writers_ever_and_all_is_copied_in_the_end() -> None:
    """A failure names the seed; `run(seed, STEPS)` repeats it."""
    today = int(time.time()) // _SECONDS_A_DAY * SCHEDULES % _ALL
    begin = int(os.environ.get("SIMULATION_FIRST", today))
    end = begin + examples(SCHEDULES)
    shares = [range(first, min(end, first + _SHARE)) for first in range(begin, end, _SHARE)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        found = [one for share in pool.map(failures, shares, [STEPS] * len(shares)) for one in share]
    assert found == []


@pytest.mark.parametrize("seed", range(8))
def test_long_schedules(seed: int) -> None:
    run(seed, 600)


def test_the_faults_of_the_simulation_really_happen() -> None:
    simulation = Simulation(1)
    abandoned = 0
    for seed in range(15):
        simulation.random = Random(seed)
        for _ in range(200):
            simulation.step()
        abandoned += sum(node.follower.workers.abandoned for node in simulation.nodes)
    topics = simulation.source.topics["t"]
    assert topics != TopicDescription("t", 4)
    assert abandoned > 3
    plan = PlanStore(simulation.admin, "r").read().plan
    assert plan.epoch > 10
