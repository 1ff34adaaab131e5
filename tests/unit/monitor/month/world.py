"""Simulated service with five datastreams over a month, as the monitor sees it, with measurements."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from mirror.errors import Unreachable
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.lanes import QuotaOwner
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from monitor.actions import ActionRecord, RebalanceAction
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.tally import late_records
from monitor.causes.diagnosis import OF_PLACEMENT, Cause
from monitor.causes.evidence import Evidence
from monitor.latency import LatencyObservation, ObjectiveSubject, Observations, Source
from monitor.movement.summary import NOTHING_KNOWN, FleetMovement
from monitor.objectives.late_times import LateTopics
from monitor.objectives.past import TopicLatencySums
from monitor.ports import LeaseHold, Preview
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
from tests.unit.monitor.month.lanes import StepView, Trouble, lanes_in, lanes_without

SHIFTED: Final = (DatastreamName("orders"), DatastreamName("clicks"))
"""Datastreams whose traffic shifts once, so that a partition or a task is overloaded: a rebalance helps."""
SOURCE_BOUND: Final = DatastreamName("billing")
STEADY: Final = DatastreamName("steady")
"""Datastream whose instance is once kept busy by others, so that a rebalance helps; it also has every other
problem that makes records late."""
HELPED: Final = (*SHIFTED, STEADY)
QUIET: Final = DatastreamName("quiet")

OBJECTIVE: Final = Objective(OBJECTIVE_MS, 99.5)
BUDGETED: Final = (SHIFTED[0], SOURCE_BOUND)
"""Datastreams with an error budget."""
START_MS: Final = 1_700_006_400_000
"""Midnight."""
_REBALANCED: Final = PER_MINUTE // 2
"""Steps until a rebalance takes effect."""


class World:
    """Service and measurements of the month. Satisfies `monitor.ports.Service`, `Measurements` and
    `monitor.objectives.past.PastMeasurements`. `step`: the latest finished step."""

    remark = ""

    budgeted: Collection[DatastreamName] = BUDGETED

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.step = 0
        self.changes = 0
        self.asked: list[tuple[int, DatastreamName]] = []
        self.tried: list[DatastreamName] = []
        self.blind: Flags = np.zeros(STEPS, bool)
        self.flows: dict[DatastreamName, Flow] = {}
        self.troubles: dict[DatastreamName, list[Trouble]] = {}
        self._fill(rng)
        self._subjects = {name: _subject(name, self.budgeted) for name in self.flows}
        for name in self.flows:
            self._apply(name)

    def _fill(self, rng: np.random.Generator) -> None:
        """Create the traffic and the problems of the month."""
        self.flows = _flows(rng)
        self.troubles = _troubles(rng)
        self.blind = _outages(self, rng)

    def movements(self) -> FleetMovement:
        return NOTHING_KNOWN

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        return {
            name: replace(one, halted="a cluster does not answer")
            if self._is(self.flows[name].halted)
            else one
            for name, one in self._subjects.items()
            if not self._is(self.flows[name].paused)
        }

    def has_own_monitor(self) -> bool:
        return False

    def hold(self) -> LeaseHold:
        acts = [RebalanceAction(name, START_MS + step * STEP_SECONDS * 1_000) for step, name in self.asked]
        return LeaseHold("", ActionRecord(acts=acts))

    def release(self) -> None:
        """Do nothing: no other monitor waits for the lease."""

    def trouble(self, name: DatastreamName) -> Trouble | None:
        """Return the present problem of a datastream."""
        return next((one for one in self.troubles[name] if one.first <= self.step < one.end), None)

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        name = DatastreamName(subject.source.group)
        flow, step = self.flows[name], self.step
        if self._is(flow.halted):
            side = Cause.SOURCE_BOUND if self._is(flow.unknown) else Cause.DESTINATION_BOUND
            return lanes_without(side, flow.waiting[step])
        sight = StepView(round(flow.lag_ms[step]), flow.waiting[step], flow.fall(step), flow.late_ms(step))
        return lanes_in(self.trouble(name), sight)

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """Return a preview with moves: this planner always finds something to move."""
        self.tried.append(name)
        return Preview("2 partitions move", 2)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        self.asked.append((self.step, name))
        trouble = self.trouble(name)
        if trouble is not None and trouble.cause in OF_PLACEMENT and not trouble.is_alone:
            self.troubles[name].remove(trouble)
            self.troubles[name].append(trouble._replace(end=self.step + _REBALANCED))
            self._apply(name)
        return f"r-{len(self.asked)}"

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        return None

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        self._answer()
        first = max(0, self.step + 1 - int(window_seconds) // STEP_SECONDS)
        return {
            _source(name): {"t": one}
            for name, flow in self.flows.items()
            if not self._is(flow.paused) and (one := self._observation(flow, first)) is not None
        }

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        self._answer()
        first, end = (
            min(max(0, (moment - START_MS) // (1_000 * STEP_SECONDS)), self.step + 1) for moment in piece
        )
        flows = {name: flow for name, flow in self.flows.items() if name in self.budgeted}
        counts = [flow.counts(first, end) for flow in flows.values()]
        stale = [flow.stale_seconds(first, end) for flow in flows.values()]
        places = [(*_source(name), "t") for name in flows]
        return TopicLatencySums(
            places,
            [sum(one) for one in counts],
            {age: [late_records(one, age) for one in counts] for age in milliseconds},
            {age: dict(zip(places, stale, strict=True)) for age in milliseconds},
        )

    def now_ms(self) -> int:
        """Return the epoch milliseconds at the end of the step."""
        return START_MS + (self.step + 1) * STEP_SECONDS * 1_000

    def monotonic(self) -> float:
        """Return the seconds at the end of the step."""
        return float((self.step + 1) * STEP_SECONDS)

    def _observation(self, flow: Flow, first: int) -> LatencyObservation | None:
        counts, is_unknown = flow.counts(first, self.step + 1), self._is(flow.unknown)
        lag = 0 if is_unknown else round(float(flow.counted_lag_ms[self.step]))
        return LatencyObservation(sum(counts), counts, lag, 4 * is_unknown)

    def _is(self, flags: Flags) -> bool:
        return bool(flags[self.step])

    def _answer(self) -> None:
        if self._is(self.blind):
            raise Unreachable("Pinot does not answer")

    def _apply(self, name: DatastreamName) -> None:
        flow = self.flows[name]
        flow.capacity = np.full(STEPS, CAPACITY)
        for one in self.troubles[name]:
            flow.capacity[one.first : one.end] *= one.share
        flow.run()
        self.changes += 1


CAPACITY: Final = 640.0
PEAK: Final = 500.0


def _flows(rng: np.random.Generator) -> dict[DatastreamName, Flow]:
    """Return the traffic by datastream; noise alone never reaches the capacity."""
    enough = np.full(STEPS, CAPACITY)
    flows = {name: Flow(daily(rng, PEAK, 200.0, weekend=0.8), enough) for name in SHIFTED}
    flows[SOURCE_BOUND] = Flow(daily(rng, PEAK, 60.0), enough)
    flows[STEADY] = Flow(daily(rng, PEAK, 400.0, weekend=1.0), enough)
    quiet = rng.poisson(0.02 * STEP_SECONDS, STEPS) / STEP_SECONDS
    late_ones = np.zeros(STEPS, bool)
    late_ones[rng.integers(PER_HOUR, STEPS, 25)] = True
    flows[QUIET] = Flow(quiet, enough, late_ones=late_ones)
    return flows


def _troubles(rng: np.random.Generator) -> dict[DatastreamName, list[Trouble]]:
    """Return the problems by datastream. The source of one provides three quarters of the required rate at
    the peaks of a week. Problems that a rebalance solves last until then."""

    def some(day: int, cause: Cause, minutes: int) -> Trouble:
        first = int(rng.integers(day * PER_DAY, (day + 2) * PER_DAY))
        return Trouble(cause, first, first + minutes * PER_MINUTE)

    def lasting(day: int, cause: Cause) -> Trouble:
        return some(day, cause, 0)._replace(end=STEPS)

    quota = some(12, Cause.OUR_QUOTA, 90)
    week = some(10, Cause.SOURCE_BOUND, 7 * PER_DAY // PER_MINUTE)
    return {
        SHIFTED[0]: [lasting(7, Cause.HOT_PARTITION)],
        SHIFTED[1]: [quota._replace(quota=QuotaOwner.DATASTREAM), lasting(24, Cause.OVERLOADED_TASK)],
        SOURCE_BOUND: [week._replace(share=0.75 * PEAK / CAPACITY)],
        STEADY: [
            some(1, Cause.BROKER_QUOTA, 60)._replace(quota=QuotaOwner.DESTINATION),
            some(4, Cause.DESTINATION_BOUND, 60),
            some(7, Cause.NETWORK, 40),
            some(10, Cause.HOT_PARTITION, 60)._replace(is_alone=True),
            some(13, Cause.OPEN_TRANSACTION, 15)._replace(share=0.0),
            some(15, Cause.PAUSED, 15)._replace(share=0.0),
            some(18, Cause.START_UP, 4)._replace(share=0.0),
            lasting(24, Cause.OVERLOADED_INSTANCE),
        ],
        QUIET: [],
    }


def _outages(world: World, rng: np.random.Generator) -> Flags:
    """Add an outage of a source, a destination and Pinot at random hours; return the steps of the last
    one."""

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


def _subject(name: DatastreamName, budgeted: Collection[DatastreamName]) -> ObjectiveSubject:
    budgets = (OBJECTIVE,) if name in budgeted else ()
    return ObjectiveSubject(
        LatencyObjective(OBJECTIVE_MS), _source(name), TopicSelection("t"), objectives=budgets
    )
