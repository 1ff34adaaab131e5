"""Test which reports a worker sends unrequested, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from mirror.model.datastreams.lanes import LaneKey, LaneWindows, Unanswered, WindowLimit
from mirror.model.identifiers import ClusterRef
from mirror.model.metrics import Drops, MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.ports import CopyEngine
from mirror.worker.protocol import LaneRates, RecordsDropped
from mirror.worker.reports import MetricReports
from tests.builders import SOURCE, a_key
from tests.fakes.clock import ManualClock
from tests.metrics_data import a_measurement

KEY = a_key("t-0")
WINDOWS = LaneWindows(destination=WindowLimit(3, 125_000, 100.0, 24, 64))


class Measured:
    """An engine with measurements of two lanes of a task, and the sink of the measurements."""

    def __init__(self) -> None:
        self.lanes = [a_measurement("orders", "source", n, 5_000, 30, 0) for n in (0, 2)]
        self.published: list[MirrorMetric] = []
        self.dropped = Drops()
        self.requested_at: float | None = None

    def metrics(self) -> Sequence[MirrorMetric]:
        return self.lanes

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        return metrics

    def measured_checkpoints(self) -> Sequence[int]:
        return [7] * len(self.metrics())

    def timestamp_offsets(self) -> Sequence[int]:
        return [-60_000, 0]

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        self.requested_at = at
        return [LanePosition(70, 100, 100), None]

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        return {KEY: Unanswered(produce_seconds=4.0)}

    def windows(self) -> Mapping[LaneKey, LaneWindows]:
        return {KEY: WINDOWS}

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        return {SOURCE: 1.5}

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        return {SOURCE: ClockSkew(3.0, 1.5)}

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        self.published += metrics

    def drops(self) -> Drops:
        return self.dropped


def test_measurements_are_said_every_interval_and_drops_when_they_change() -> None:
    clock, measured = ManualClock(), Measured()
    reports = MetricReports(cast(CopyEngine, measured), measured, clock, 5.0)
    start = clock.monotonic()
    assert reports.due(start) == ()
    measured.dropped = Drops(3, "queue full")
    assert reports.due(start + 0.5) == (), "the sink is read once a second"
    assert reports.due(start + 1.0) == (RecordsDropped(measured.dropped),)
    assert reports.due(start + 2.0) == ()
    (said,) = reports.due(start + 5.0)
    assert isinstance(said, LaneRates)
    assert [one.checkpoint for one in said.rates] == [7, 7]
    assert [one.offset_ms for one in said.rates] == [-60_000, 0]
    assert said.rates[0].core.busy is None, "the use of the core is unknown"
    assert [one.position for one in said.rates] == [LanePosition(70, 100, 100), None]
    assert said.waiting == ((KEY, (None, 4.0)),)
    assert said.limited == ((KEY, WINDOWS),)
    (sums,) = said.sums
    assert sums.by_name()["records_copied"] == 2 * measured.lanes[0].records_copied
    assert sums.latency_counts == tuple(2 * count for count in measured.lanes[0].latency_counts)
    assert said.at == measured.requested_at == clock.monotonic()
    assert said.throttled == ((SOURCE, 1.5),)
    assert said.clocks == ((SOURCE, (3.0, 1.5)),)
    assert measured.published == measured.lanes
    assert reports.due(start + 9.0) == ()
    assert len(reports.closing()) == 1
    assert reports.closed() == ()
