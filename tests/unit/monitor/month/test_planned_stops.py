"""Test a month in which operators create, pause, resume and deploy, in virtual time: no alert fires for it.

Records that are late for another reason after a resume are detected, even if an operator resumes repeatedly.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pytest
import structlog

from mirror.model.identifiers import DatastreamName
from monitor.alerts.catalogue import BURNING, LATE
from monitor.latency import Source
from monitor.objectives.late_times import LateSpan, LateTopics, TopicLateness
from tests.unit.monitor.month.flow import (
    OBJECTIVE_MS,
    PER_DAY,
    PER_HOUR,
    PER_MINUTE,
    STEP_SECONDS,
    STEPS,
    Flags,
    Flow,
    daily,
)
from tests.unit.monitor.month.run import Month
from tests.unit.monitor.month.world import CAPACITY, PEAK, START_MS, World

pytestmark = pytest.mark.deep

FRESH: Final = DatastreamName("fresh")
"""Created on topics with history; paused and resumed on many days, for seconds and for hours; every day, the
instances restart one after the other, and each hand-over delays records for up to eight seconds."""
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
        self.deploys = [int(rng.integers(day * PER_DAY, (day + 1) * PER_DAY - 9)) for day in range(1, 30)]
        self._is_recent = rng.random(STEPS) < 1 / 3
        """Steps whose hand-over was in their last seconds, so that lanes have not reported since."""
        for first in self.deploys:
            fresh.silent[first : first + 3 * PER_MINUTE : PER_MINUTE] = rng.uniform(0.2, 8.0, 3)
        looped = Flow(daily(rng, PEAK, 400.0), enough)
        looped.paused[SLOW_FROM :: 40 * PER_MINUTE] = True
        self.flows = {FRESH: fresh, LOOPED: looped}
        self.troubles = {FRESH: [], LOOPED: []}

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics:
        return {Source(name, "east"): {"t": self._lateness(flow)} for name, flow in self.flows.items()}

    def _lateness(self, flow: Flow) -> TopicLateness:
        spans = []
        for step in (self.step - 1, self.step):
            until_ms = START_MS + (step + 1) * STEP_SECONDS * 1_000
            waited = self._waited_ms(flow, step)
            spans.append(LateSpan(until_ms - waited, until_ms, waited))
        waits = round(flow.counted_lag_ms[self.step])
        is_recent = flow.silent[self.step] > 0 and self._is_recent[self.step]
        return TopicLateness(spans, self._waited_ms(flow, self.step) if is_recent else waits)

    def _waited_ms(self, flow: Flow, step: int) -> int:
        return int(max(flow.counted_lag_ms[step], flow.silent[step] * 1_000))

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
    assert FRESH not in {name for _, name in month.world.asked}
    assert month.world.flows[FRESH].lag_ms.max() > 3_600_000, "the month must contain an exempt backlog"


def test_incidents_are_those_of_hand_overs_that_made_records_late(month: Month) -> None:
    world = month.world
    assert isinstance(world, PlannedWorld)
    late = [
        START_MS + first * STEP_SECONDS * 1_000
        for first in world.deploys
        if world.flows[FRESH].silent[first : first + 3 * PER_MINUTE].max() * 1_000 > OBJECTIVE_MS
    ]
    found = [one.opened_ms for one in month.records.values() if one.datastream == FRESH]
    assert found
    assert all(any(0 <= opened - first <= 300_000 for first in late) for opened in found)


def test_who_resumes_again_and_again_hides_nothing_for_long(month: Month) -> None:
    late = [one for one in month.alerts.spans if one.key.datastream == LOOPED]
    assert min(one.first for one in late) >= SLOW_FROM
    assert {one.key.name for one in late} >= {LATE.name, BURNING.name}
    assert min(one.first for one in late) < SLOW_FROM + 6 * PER_HOUR + PER_DAY
