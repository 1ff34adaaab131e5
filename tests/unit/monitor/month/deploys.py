"""Model of a rolling restart as the monitor sees it: reports of lanes that are silent during their hand-over.

A lane copies ten records per second. When it stops for a hand-over, records wait until the next owner starts,
which reports at its own times. Reports go through the sums of the metrics topic (`monitor/recent_rows.py`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.identifiers import DatastreamName
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.rows import HISTOGRAM_COLUMNS
from mirror.model.topics import TopicSelection
from monitor.actions import ActionRecord
from monitor.alerts.catalogue import ClockReading
from monitor.alerts.conditions import Conditions
from monitor.causes.evidence import Evidence, LaneEvidence
from monitor.cycle import MonitorCycle
from monitor.incidents import IncidentPolicy
from monitor.latency import ObjectiveSubject, Observations, Source
from monitor.movement.states import MovementState
from monitor.movement.summary import NOTHING_KNOWN, FleetMovement
from monitor.objectives.late_times import LateTopics
from monitor.ports import LeaseHold, Preview
from monitor.recent_rows import RecentRows
from monitor.settings import MonitorSettings

NAME: Final = DatastreamName("orders")
LANES: Final = 4
END_SECONDS: Final = 420
LIMIT_MS: Final = 2_000
_SOURCE: Final = Source(NAME, "east")
_START_MS: Final = 1_700_000_000_000
_REPORT_SECONDS: Final = 5.0
_PER_SECOND: Final = 10
_USUAL_SECONDS: Final = 0.02
_PUBLISHED_SECONDS: Final = 0.1


class HandOver(NamedTuple):
    """A lane stops at `at` and its next owner copies `seconds` later."""

    lane: int
    at: float
    seconds: float


class DeployedService:
    """Service and measurements. Satisfies `monitor.ports.Service` and `Measurements`. `now`: seconds since
    the start."""

    remark = ""

    def __init__(self, hand_overs: Sequence[HandOver], rng: random.Random) -> None:
        self.now = 0.0
        self.requests: list[DatastreamName] = []
        self._rows = RecentRows(LIMIT_MS)
        reports = [
            one
            for lane in range(LANES)
            for one in _reports(lane, sorted(one[1:] for one in hand_overs if one.lane == lane), rng)
        ]
        self._reports = sorted(reports, key=lambda one: -float(one["time_ms"]))

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        return {NAME: ObjectiveSubject(LatencyObjective(LIMIT_MS), _SOURCE, TopicSelection("t"))}

    def movements(self) -> FleetMovement:
        return NOTHING_KNOWN

    def has_own_monitor(self) -> bool:
        return False

    def hold(self) -> LeaseHold:
        return LeaseHold("", ActionRecord())

    def release(self) -> None:
        """Do nothing: no other monitor waits for the lease."""

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        """Return lanes that copy: a hand-over is over before the cause of an incident is determined."""
        lane = LaneEvidence("", "one", "orders-0", lag_ms=5, state=MovementState.OK)
        return Evidence(tuple(lane for _ in range(LANES)))

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        return Preview("2 partitions move", 2)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        self.requests.append(name)
        return "r-1"

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        published_ms = self.now_ms() - round(_PUBLISHED_SECONDS * 1_000)
        while self._reports and self._reports[-1]["time_ms"] <= published_ms:
            self._rows.add(self._reports.pop())
        return self._rows.observe(self.now_ms(), round(window_seconds * 1_000))

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics:
        return self._rows.late(sources, since_ms)

    def now_ms(self) -> int:
        return _START_MS + round(self.now * 1_000)

    def monotonic(self) -> float:
        return self.now


def alerts_of(hand_overs: Sequence[HandOver], seed: int) -> tuple[set[str], bool, int]:
    """Run the monitor with its default settings. Return the names of the alerts that fired, whether an
    incident opened, and the number of rebalances."""
    rng, settings = random.Random(seed), MonitorSettings()
    service = DeployedService(hand_overs, rng)
    policy = IncidentPolicy(
        settings.open_after,
        settings.close_after,
        settings.cooldown_seconds,
        close_seconds=settings.close_seconds,
    )
    cycle = MonitorCycle(service, service, policy, service, settings.window_seconds)
    conditions, fired, has_incident = Conditions(settings.alerts.patience()), set[str](), False
    service.now = settings.window_seconds + rng.uniform(0, settings.interval_seconds)
    while service.now < END_SECONDS:
        findings = cycle.evaluate()
        has_incident = has_incident or findings[NAME].incident.is_open
        alerts = conditions.judged(findings, ClockReading(service.now_ms(), service.now))
        fired |= {one.kind.name for one in alerts}
        service.now += settings.interval_seconds + rng.uniform(0, 0.1)
    return fired, has_incident, len(service.requests)


def _reports(lane: int, stops: Sequence[tuple[float, float]], rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the rows of a lane. `stops`: start and length of its hand-overs."""
    arrivals = [_arrival(number / _PER_SECOND, stops) for number in range(END_SECONDS * _PER_SECOND)]
    arrivals.reverse()
    at, left = rng.uniform(0, _REPORT_SECONDS), list(stops)
    while at < END_SECONDS:
        if left and at >= left[0][0]:  # the next owner has its own times
            at = sum(left.pop(0)) + rng.uniform(0, _REPORT_SECONDS)
            continue
        counts = [0] * LATENCY_BUCKETS
        while arrivals and arrivals[-1][0] <= at:
            counts[latency_bucket(arrivals.pop()[1] * 1_000)] += 1
        yield {
            "datastream": NAME,
            "source_cluster": _SOURCE.cluster,
            "topic": "t",
            "kafka_partition": lane,
            "time_ms": _START_MS + round(at * 1_000),
            "interval_ms": round(_REPORT_SECONDS * 1_000),
            "lag_records": 1,
            "lag_ms": 5,
            "records_copied": sum(counts),
            **dict(zip(HISTOGRAM_COLUMNS, counts, strict=True)),
        }
        at += _REPORT_SECONDS


def _arrival(produced: float, stops: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return when a record arrives, and its latency, in seconds."""
    waits = [at + length for at, length in stops if at <= produced < at + length]
    arrived = max(waits, default=produced) + _USUAL_SECONDS
    return arrived, arrived - produced
