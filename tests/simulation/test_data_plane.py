"""An engine under seeded faults, in virtual time: nothing lost, nothing doubled, everything in order.

`SIMULATION_SEED=n` repeats one seed; `SEEDS=10000 python -m bench mirror_simulation` runs many.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.run import Simulation
from tests.simulation.schedule import plan

_IN_EACH = 10
_FIRST = [int(os.environ["SIMULATION_SEED"])] if "SIMULATION_SEED" in os.environ else range(0, 200, _IN_EACH)


@pytest.mark.parametrize("first", _FIRST)
def test_every_record_arrives_whatever_happens(first: int) -> None:
    seeds = [first] if "SIMULATION_SEED" in os.environ else range(first, first + _IN_EACH)
    for seed in seeds:
        Simulation(plan(seed)).carry_out()


def test_a_seed_repeats_itself() -> None:
    assert str(plan(7)) == str(plan(7)) != str(plan(8))
