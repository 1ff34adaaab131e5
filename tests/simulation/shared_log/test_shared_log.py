"""Histories of instances that share a log, under seeded faults, checked for linearizability.

Each day runs other seeds of the first 10,000. The deep tests run ten times as many. A failure names its seed;
`SIMULATION_SEED=n` repeats one.
"""

from __future__ import annotations

import os
import time
from typing import Final

import pytest

from mirror.coordination.store.commands import RefusalKind
from mirror.model.nodes import NewNode
from tests.models.linearizability import Checker, RecordedCall
from tests.simulation.shared_log.world import EMPTY, World, model_step

_ALL: Final = 10_000
_A_DAY: Final = 200
_PARTS: Final = 10
_SECONDS_A_DAY: Final = 86_400
CREATE = (NewNode("/a", b"1"),)
READ = ("read",)
CREATED, EXISTS = (("/a",), None), ((), RefusalKind.EXISTS)


def run(first: int, count: int) -> None:
    """Run seeds. Raises AssertionError with the seed."""
    given = os.environ.get("SIMULATION_SEED")
    for seed in [int(given)] if given else range(first, first + count):
        try:
            World(seed).run()
        except AssertionError as error:
            raise AssertionError(f"SIMULATION_SEED={seed}: {error}") from error


def first_of_today(count: int) -> int:
    """Return the first seed of today, if `count` seeds are run each day."""
    return int(time.time()) // _SECONDS_A_DAY * count % _ALL


def test_histories_of_today_are_linearizable() -> None:
    run(first_of_today(_A_DAY), _A_DAY)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(_PARTS))
def test_more_histories_of_today_are_linearizable(part: int) -> None:
    run(first_of_today(_PARTS * _A_DAY) + part * _A_DAY, _A_DAY)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([RecordedCall(CREATE, 1, 2, CREATED), RecordedCall(READ, 3, 4, ((b"1", 0), None))], True),
        ([RecordedCall(CREATE, 1, 2, CREATED), RecordedCall(READ, 3, 4, (None, None))], False),
        ([RecordedCall(CREATE, 1, 3, CREATED), RecordedCall(READ, 2, 4, (None, None))], True),
        ([RecordedCall(CREATE, 1, 2, CREATED), RecordedCall(CREATE, 3, 4, CREATED)], False),
        ([RecordedCall(CREATE, 1, 2, CREATED), RecordedCall(CREATE, 3, 4, EXISTS)], True),
        ([RecordedCall(CREATE, 1), RecordedCall(READ, 2, 3, (None, None))], True),
        ([RecordedCall(CREATE, 1), RecordedCall(CREATE, 2, 3, EXISTS)], True),
        ([RecordedCall(CREATE, 3), RecordedCall(CREATE, 1, 2, EXISTS)], False),
    ],
)
def test_the_checker_knows_what_is_linearizable(history: list[RecordedCall], expected: bool) -> None:
    assert Checker(EMPTY, model_step).explains(history) is expected
