"""Test the engine under seeded faults in virtual time: nothing lost, no duplicates, everything in order.

Each day runs other seeds of the first 10,000, so that 100 days cover all; a failure names its seed.
`SIMULATION_SEED=n` repeats one seed, `SIMULATION_FIRST=n` the seeds of another day;
`SEEDS=10000 SEED=0 python -m bench mirror_simulation` runs all seeds.
"""

from __future__ import annotations

import os
import time
from typing import Final

import pytest

from tests.simulation.run import Simulation
from tests.simulation.schedule import plan

_ALL: Final = 10_000
_PARTS: Final = 10
_IN_EACH: Final = 10
_SECONDS_A_DAY: Final = 86_400


def seeds_of(part: int) -> list[int]:
    """Return the seeds of one part of today's."""
    if "SIMULATION_SEED" in os.environ:
        return [int(os.environ["SIMULATION_SEED"])] if part == 0 else []
    today = int(time.time()) // _SECONDS_A_DAY * _PARTS * _IN_EACH % _ALL
    first = int(os.environ.get("SIMULATION_FIRST", today)) + part * _IN_EACH
    return list(range(first, first + _IN_EACH))


_SHARES: Final = [0, 1, *(pytest.param(part, marks=pytest.mark.deep) for part in range(2, _PARTS))]


@pytest.mark.parametrize("part", _SHARES)
def test_every_record_arrives_whatever_happens(part: int) -> None:
    for seed in seeds_of(part):
        Simulation(plan(seed)).carry_out()


@pytest.mark.parametrize("seed", [8612, 8677])
def test_an_audit_tells_copies_from_duplicates(seed: int) -> None:
    """8612: the map names the second of two copies; 8677: the ledger states a larger gap than there is."""
    Simulation(plan(seed)).carry_out()


def test_a_seed_repeats_itself() -> None:
    assert str(plan(7)) == str(plan(7)) != str(plan(8))
