"""Test that a rolling restart pages nobody, even if each hand-over delays records for several seconds."""

from __future__ import annotations

from typing import Final

import pytest

from monitor.alerts.catalogue import LATE
from tests.examples import examples
from tests.unit.monitor.month.deploys import LANES, HandOver, alerts_of

SEEDS: Final = range(examples(40))


def rolling(seconds: float, apart: float, rounds: int = 3) -> list[HandOver]:
    """Return the hand-overs while instances restart one after the other: two lanes move each time."""
    return [
        HandOver((2 * number + side) % LANES, 100.3 + apart * number, seconds)
        for number in range(rounds)
        for side in (0, 1)
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("seconds", "apart"), [(0.3, 30.0), (2.5, 30.0), (4.0, 10.0), (8.0, 30.0), (8.0, 60.0)]
)
def test_a_rolling_restart_pages_nobody(seconds: float, apart: float, seed: int) -> None:
    alerts, has_incident, rebalances = alerts_of(rolling(seconds, apart), seed)
    assert (alerts, rebalances) == (set(), 0)
    assert not (has_incident and seconds < 2), "the objective is 2 s"


@pytest.mark.parametrize("seconds", [4.0, 12.0])
def test_the_restart_of_a_single_instance_pages_nobody(seconds: float) -> None:
    stopped = [HandOver(lane, 100.3, seconds) for lane in range(LANES)]
    assert [alerts_of(stopped, seed)[0] for seed in SEEDS] == [set()] * len(SEEDS)


def test_late_records_without_end_page_although_none_is_late_for_long() -> None:
    """An objective that hand-overs keep missing is missed, whatever their reason."""
    assert alerts_of(rolling(6.0, 20.0, rounds=15), 1)[0] == {LATE.name}
