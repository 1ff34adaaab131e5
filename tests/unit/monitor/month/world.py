"""A service with five datastreams for a month, as the monitor sees it: REST, measurements, and their past."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from mirror.errors import Unreachable
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.datastreams.objectives.objective import Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from monitor.actions.policy import Act, Record
from monitor.burn.pieces import Piece
from monitor.causes.evidence import Evidence, LaneEvidence, Phases
from monitor.latency import Observation, Observations, Source, Subject
from monitor.movement.states import MovementState
from monitor.movement.summary import NOTHING_KNOWN, Movements
from monitor.objectives.history import TopicPast
from monitor.ports import Hold, Preview
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

SHIFTED: Final = (DatastreamName("orders"), DatastreamName("clicks"))
"""Their traffic shifts, each once, so that one task has too much: a rebalance helps."""
SOURCE_BOUND: Final = DatastreamName("billing")
STEADY: Final = DatastreamName("steady")
QUIET: Final = DatastreamName("quiet")

OBJECTIVE: Final = Objective(OBJECTIVE_MS, 99.5)
BUDGETED: Final = (SHIFTED[0], SOURCE_BOUND)
"""Those with an error budget."""
START_MS: Final = 1_700_006_400_000
"""A midnight."""
_REBALANCED: Final = PER_MINUTE // 2
"""Steps until a rebalance is in force."""


class World:
    """Satisfies `monitor.ports.Service`, `Measurements` and `monitor.objectives.history.Past`. `step`:
    the one that has just ended."""

    remark = ""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.step = 0
        self.changes = 0
        self.asked: list[tuple[int, DatastreamName]] = []
        self.flows = _flows(rng)
        self.shifts = {
            name: int(rng.integers(day * PER_DAY, (day + 2) * PER_DAY))
            for name, day in zip(SHIFTED, (7, 24), strict=True)
        }
        self.helped: dict[DatastreamName, int] = {}
        self.blind = _outages(self, rng)
        self._subjects = {name: _subject(name) for name in self.flows}
        for name in self.flows:
            self._apply(name)

    def movements(self) -> Movements:
        return NOTHING_KNOWN

    def subjects(self) -> Mapping[DatastreamName, Subject]:
        return {
            name: replace(one, halted="a cluster does not answer")
            if self._is(self.flows[name].halted)
            else one
            for name, one in self._subjects.items()
        }

    def has_own_monitor(self) -> bool:
        return False

    def hold(self) -> Hold:
        acts = [Act(name, START_MS + step * STEP_SECONDS * 1_000) for step, name in self.asked]
        return Hold("", Record(acts=acts))

    def release(self) -> None:
        """Nobody waits for it."""

    def can_be_helped(self, name: DatastreamName, step: int) -> bool:
        """Whether one task has too much while others have room."""
        return name in self.shifts and self.shifts[name] <= step < self.helped.get(name, STEPS)

    def evidence(self, subject: Subject) -> Evidence:
        name = DatastreamName(subject.source.group)
        late = LaneEvidence("t-0", task="t", lag_ms=OBJECTIVE_MS + 1, batches_per_second=1.0)
        if self.can_be_helped(name, self.step):
            late = replace(late, hold=QuotaHold(QuotaOwner.TASK, 0.9))
        elif name == SOURCE_BOUND:
            late = replace(late, phases=Phases(1.0, 9_000.0, 1.0, 5.0))
        else:
            late = replace(late, state=MovementState.CATCHING_UP, eta_seconds=60.0)
        return Evidence((late, replace(late, partition="t-1")))

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        moves = 2 * self.can_be_helped(name, self.step)
        return Preview(f"{moves} partitions move", moves)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        self.asked.append((self.step, name))
        if self.can_be_helped(name, self.step):
            self.helped[name] = self.step + _REBALANCED
            self._apply(name)
        return f"r-{len(self.asked)}"

    def observe(self, window_seconds: float, least_ms: int = 0) -> Observations:
        self._answer()
        first = max(0, self.step + 1 - int(window_seconds) // STEP_SECONDS)
        return {
            _source(name): {"t": one}
            for name, flow in self.flows.items()
            if (one := self._observation(flow, first)) is not None
        }

    def past(self, piece: Piece, milliseconds: Collection[int]) -> Mapping[Source, Mapping[str, TopicPast]]:
        self._answer()
        first, end = (
            min(max(0, (moment - START_MS) // (1_000 * STEP_SECONDS)), self.step + 1) for moment in piece
        )
        return {
            _source(name): {
                "t": TopicPast(flow.counts(first, end), {OBJECTIVE_MS: flow.stale_seconds(first, end)})
            }
            for name, flow in self.flows.items()
            if name in BUDGETED
        }

    def now_ms(self) -> int:
        """Epoch milliseconds at the end of the step."""
        return START_MS + (self.step + 1) * STEP_SECONDS * 1_000

    def monotonic(self) -> float:
        """Seconds."""
        return float((self.step + 1) * STEP_SECONDS)

    def _observation(self, flow: Flow, first: int) -> Observation | None:
        counts, is_unknown = flow.counts(first, self.step + 1), self._is(flow.unknown)
        lag = 0 if is_unknown else round(float(flow.lag_ms[self.step]))
        return Observation(sum(counts), counts, lag, 4 * is_unknown)

    def _is(self, flags: Flags) -> bool:
        return bool(flags[self.step])

    def _answer(self) -> None:
        if self._is(self.blind):
            raise Unreachable("Pinot does not answer")

    def _apply(self, name: DatastreamName) -> None:
        """A task that has too much copies a third of it, from the shift until a rebalance is in force."""
        flow = self.flows[name]
        if name in self.shifts:
            flow.capacity = np.full(STEPS, _CAPACITY)
            flow.capacity[self.shifts[name] : self.helped.get(name, STEPS)] *= 0.35
        flow.run()
        self.changes += 1


_CAPACITY: Final = 640.0
_PEAK: Final = 500.0


def _flows(rng: np.random.Generator) -> dict[DatastreamName, Flow]:
    """Noise alone brings none of them to what can be copied. The source of one gives three quarters of what
    is asked for at the peaks of a week."""
    enough = np.full(STEPS, _CAPACITY)
    bound = enough.copy()
    first = int(rng.integers(10 * PER_DAY, 13 * PER_DAY))
    bound[first : first + 7 * PER_DAY] = _PEAK * 0.75
    flows = {name: Flow(daily(rng, _PEAK, 200.0, weekend=0.8), enough.copy()) for name in SHIFTED}
    flows[SOURCE_BOUND] = Flow(daily(rng, _PEAK, 60.0), bound)
    flows[STEADY] = Flow(daily(rng, _PEAK, 400.0, weekend=1.0), enough.copy())
    quiet = rng.poisson(0.02 * STEP_SECONDS, STEPS) / STEP_SECONDS
    late_ones = np.zeros(STEPS, bool)
    late_ones[rng.integers(PER_HOUR, STEPS, 25)] = True
    flows[QUIET] = Flow(quiet, np.full(STEPS, 10.0), late_ones=late_ones)
    return flows


def _outages(world: World, rng: np.random.Generator) -> Flags:
    """A source that does not answer, a destination that does not, and Pinot, at some hour each; the steps of
    the latter."""

    def some(day: int, minutes: int) -> slice:
        first = int(rng.integers(day * PER_DAY, (day + 2) * PER_DAY))
        return slice(first, first + minutes * PER_MINUTE)

    source, destination, blind = some(3, 40), some(20, 25), np.zeros(STEPS, bool)
    for flow in (world.flows[SHIFTED[0]], world.flows[QUIET]):
        flow.halted[source] = flow.unknown[source] = True
    for flow in world.flows.values():
        flow.halted[destination] = True
    blind[some(27, 12)] = True
    return blind


def _source(name: DatastreamName) -> Source:
    return Source(name, "east")


def _subject(name: DatastreamName) -> Subject:
    budgets = (OBJECTIVE,) if name in BUDGETED else ()
    return Subject(LatencyObjective(OBJECTIVE_MS), _source(name), TopicSelection("t"), objectives=budgets)
