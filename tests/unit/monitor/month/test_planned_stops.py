"""Test a month in which operators create, pause, resume and deploy, in virtual time: no alert fires for it.

Records that are late for another reason after a resume are detected, even if an operator resumes repeatedly.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
import structlog

from mirror.model.identifiers import DatastreamName
from monitor.alerts.catalogue import BURNING, LATE
from tests.unit.monitor.month.flow import PER_DAY, PER_HOUR, PER_MINUTE, STEPS, Flags, Flow, daily
from tests.unit.monitor.month.run import Month
from tests.unit.monitor.month.world import CAPACITY, PEAK, World

pytestmark = pytest.mark.deep

FRESH: Final = DatastreamName("fresh")
"""Created on topics with history; paused and resumed on many days, for seconds and for hours; deployed."""
LOOPED: Final = DatastreamName("looped")
"""Has too little capacity from day 20 on, while an operator pauses and resumes it all the time."""
SLOW_FROM: Final = 20 * PER_DAY


def pauses_of(rng: np.random.Generator) -> Flags:
    found = np.zeros(STEPS, bool)
    found[: 2 * PER_HOUR] = True  # it is created afterwards
    for day in range(1, 29):
        first = int(rng.integers(day * PER_DAY, (day + 1) * PER_DAY - 4 * PER_HOUR))
        found[first : first + int(rng.choice([1, 2, 4 * PER_MINUTE, 40 * PER_MINUTE]))] = True
    return found


class PlannedWorld(World):
    """Each resume leaves a backlog that is worked off with the spare capacity."""

    budgeted = (FRESH, LOOPED)

    def _fill(self, rng: np.random.Generator) -> None:
        enough = np.full(STEPS, CAPACITY)
        fresh = Flow(daily(rng, PEAK, 60.0), enough, paused=pauses_of(rng))
        for day in range(1, 30):  # a rolling restart briefly removes half of the workers
            self.deployed = int(rng.integers(day * PER_DAY, (day + 1) * PER_DAY))
            fresh.late_ones[self.deployed] = True
        looped = Flow(daily(rng, PEAK, 400.0), enough)
        looped.paused[SLOW_FROM :: 40 * PER_MINUTE] = True
        self.flows = {FRESH: fresh, LOOPED: looped}
        self.troubles = {FRESH: [], LOOPED: []}

    def _apply(self, name: DatastreamName) -> None:
        flow = self.flows[name]
        flow.capacity = np.full(STEPS, CAPACITY)
        if name == LOOPED:
            flow.capacity[SLOW_FROM:] = 0.5 * PEAK
        flow.run()
        self.changes += 1


@pytest.fixture(scope="module", params=(1, 2))
def month(request: pytest.FixtureRequest) -> Month:
    found = Month(request.param, PlannedWorld)
    with structlog.testing.capture_logs():
        found.run(22 * PER_DAY)
    return found


def test_nobody_is_paged_for_creation_resume_or_deploy(month: Month) -> None:
    assert [one for one in month.alerts.spans if one.key.datastream == FRESH] == []
    assert [one for one in month.records.values() if one.datastream == FRESH] == []
    assert month.world.flows[FRESH].lag_ms.max() > 3_600_000, "the month must contain a backlog to excuse"


def test_who_resumes_again_and_again_hides_nothing_for_long(month: Month) -> None:
    late = [one for one in month.alerts.spans if one.key.datastream == LOOPED]
    assert min(one.first for one in late) >= SLOW_FROM
    assert {one.key.name for one in late} >= {LATE.name, BURNING.name}
    assert min(one.first for one in late) < SLOW_FROM + 6 * PER_HOUR + PER_DAY
