"""Engine of a worker process: copies partitions batch by batch. Implements `ports.CopyEngine`.

This module connects the parts and runs the event loop. A batch passes through `fetch_channel` ->
`fetch_handler` -> `lane.batch_router` -> `delivery` -> `produce_channel` -> `ack_handler` -> `delivery`
(ledger, map) -> `checkpoints`.
`startup` starts lanes; `lane_runner` changes their state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from time import process_time
from typing import Final

from mirror.lane.lane import Lane
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import (
    ANSWERED,
    NO_WINDOWS,
    LaneEvent,
    LaneKey,
    LanePaused,
    LaneSpec,
    LaneStopped,
    LaneWindows,
    Unanswered,
)
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.metrics import MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.exemptions import CatchUpGrace
from mirror.model.movement.history import LanePosition
from mirror.replication.context import EngineContext
from mirror.replication.handlers.ack_handler import AckHandler
from mirror.replication.handlers.fetch_handler import FetchHandler
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.handlers.stalls import StallReporter
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.ownership.checkpoints import Checkpoints
from mirror.replication.ownership.producer_ids import ProducerIdManager
from mirror.replication.ownership.transactions import TransactionManager
from mirror.replication.quotas.deadline_watch import DeadlineWatch
from mirror.replication.quotas.end_watch import EndWatch
from mirror.replication.quotas.quota_watch import QuotaWatch
from mirror.replication.quotas.read_pacer import ReadPacer
from mirror.replication.reports.copy_costs import share_cpu
from mirror.replication.reports.lane_reports import LaneReport, LaneSums, report_of, sums_of
from mirror.replication.reports.measurements import (
    MeasurementInterval,
    counted_metric,
    lacks_end,
    take_metric,
    windows_of,
)
from mirror.replication.reports.positions import Positions
from mirror.replication.reports.retention import RetentionCache
from mirror.replication.startup import LaneStartup

_log = get_logger(__name__)
_TICK_SECONDS: Final = 0.05
"""Seconds between two checks of timed work."""
_CLOSING_STEP: Final = 0.02


class BatchEngine:
    """Copies partitions on one thread. Only `step` waits. The engine owns the context and closes it. `lanes`:
    registry of lanes. `runner`: changes the state of lanes. `checkpoints`: stores progress."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self.lanes = lanes = LaneRegistry(context)
        self.runner = runner = LaneRunner(context, lanes, partial(TransactionManager, context, lanes))
        self._transactions = runner.transactions
        self._lane_log = lanes.log
        self._quotas = QuotaWatch(context, lanes)
        self._pacer = pacer = ReadPacer(context, lanes, runner, self._quotas)
        rejections = Rejections(context, lanes, runner)
        producer_ids = ProducerIdManager(context, lanes, runner, pacer)
        self._fetch_handler = FetchHandler(context, lanes, runner, pacer, producer_ids, rejections)
        self._ends = EndWatch(context, lanes, self._fetch_handler.on_end)
        ack_handler = AckHandler(context, lanes, runner, pacer, rejections)
        self._startup = LaneStartup(context, lanes, runner, self._fetch_handler, ack_handler)
        self.checkpoints = Checkpoints(context, lanes, runner)
        self._stalls = StallReporter(context, lanes, runner)
        self._positions = Positions(RetentionCache(context).of)
        self._deadlines = DeadlineWatch(context, lanes, runner, pacer, self._positions.of)
        self._next_tick = 0.0
        self._measured_ms = context.clock.now_ms()
        self._measured_cpu = process_time()
        self._measured: list[Lane] = []  # lanes of the latest measurements
        self._is_closed = False

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Prepare lanes that another instance still owns: connect and read metadata, but copy nothing."""
        self._startup.expect(specs)

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Start to copy the given lanes from their checkpoints. Other lanes are not affected."""
        for spec in specs:
            if (known := self.lanes.by_key.get(spec.key)) is not None:
                known.observed.watch.forget()
                continue
            try:
                self._start(spec)
            except Exception as error:  # noqa: BLE001 - the other lanes start
                _log.exception("cannot start lane", **spec.key.log_fields)
                self.lanes.report(LanePaused(spec.key, f"cannot start: {error!r}"))

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop fetching, drain and checkpoint the given lanes. A stopped lane reports `LaneStopped`."""
        for key in keys:
            lane = self.lanes.by_key.get(key)
            if lane is None:
                self.lanes.report(LaneStopped(key, None))
            else:
                self.runner.guard(lane, self.runner.stop)

    def _start(self, spec: LaneSpec) -> None:
        buckets = self._context.quotas.first(spec)
        grace_ms = int(self._context.settings.catch_up_seconds * 1000)
        grace = CatchUpGrace.of(spec.exemption, grace_ms, self._context.clock.now_ms())
        lane = Lane(spec, self._context.fetch_bytes(buckets), buckets, grace)
        self.lanes.add(lane, self._context.loop.now())

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Set the quota (bytes/s) that the lanes of each datastream group share.

        Groups without an entry have no quota.
        """
        changed = self._context.quotas.share(shares)
        for lane in [member for key, member in self.lanes.by_key.items() if key.group in changed]:
            buckets = self._context.quotas.shared(lane.spec)
            self._deadlines.limit(lane, buckets)
            self.runner.guard(lane, self._pacer.resume)

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Copy until a lane reports an event, or until `timeout_seconds` have passed."""
        lanes, loop = self.lanes, self._context.loop
        now = loop.now()
        until = now + timeout_seconds
        while True:
            self._startup.pump()
            self._fetch_handler.begin_round()
            loop.run_once(0.0 if lanes.events else until - now)
            now = loop.now()
            if now >= self._next_tick or lanes.stopping:
                self._tick(now)
            if lanes.events or now >= until:
                return lanes.take_events()

    def _tick(self, now: float) -> None:
        self._next_tick = now + _TICK_SECONDS
        for cluster, since in self._context.take_returned().items():
            self.runner.wake(cluster, self._context.clock.now_ms() - int((now - since) * 1000))
            self.checkpoints.hurry(cluster)
        self.runner.probe(now)
        self._fetch_handler.hanging.pump(now)
        self._transactions.pump(now)
        self.checkpoints.pump(now)
        self._stalls.pump(now)
        self._lane_log.pump(now)
        self._quotas.pump(now)
        self._deadlines.pump(now)
        for source in self.lanes.sources.values():
            source.check(now)

    def metrics(self) -> Sequence[MirrorMetric]:
        """Return the measurements of lanes since the previous call. Lanes that did nothing are omitted."""
        now_ms = self._context.clock.now_ms()
        interval_ms, self._measured_ms = now_ms - self._measured_ms, now_ms
        now, oldest_request = self._context.loop.now(), self._oldest_request()
        silent = self._context.silent_clusters(now)
        when = MeasurementInterval(
            now_ms, interval_ms, self._context.identity.instance, now, oldest_request, silent
        )
        cpu_seconds = process_time()
        cpu_ms, self._measured_cpu = (cpu_seconds - self._measured_cpu) * 1000, cpu_seconds
        found: list[MirrorMetric] = []
        self._measured = []
        for lane in self.lanes.by_key.values():
            if (metric := self._metric(lane, when)) is not None:
                found.append(metric)
                self._measured.append(lane)
        self._ends.request(filter(lacks_end, self.lanes.by_key.values()))
        return share_cpu(found, cpu_ms, interval_ms)

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        """Return the latest measurements of lanes, with backlog ages as latency objectives count them."""
        return [
            metric if lane.read.grace is None else counted_metric(lane.read.grace, metric)
            for lane, metric in zip(self._measured, metrics, strict=True)
        ]

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        """Return the positions of the lanes in the latest measurements, in order.

        `at`: current time (monotonic seconds) if the receiver has all earlier positions, otherwise None. With
        `at`, positions that `PositionWatch` withholds are None.
        """
        if at is not None:
            return self._positions.due_positions(self._measured, at, self._measured_ms)
        pairs = zip(self._measured, metrics, strict=True)
        return [self._positions.of(lane, metric.lag_ms, metric.time_ms) for lane, metric in pairs]

    def measured_checkpoints(self) -> Sequence[int]:
        """Return the checkpoints of the lanes in the latest measurements, in order."""
        return [lane.checkpoint for lane in self._measured]

    def timestamp_offsets(self) -> Sequence[int]:
        """Return the producer clock errors (ms) of the lanes in the latest measurements, in order."""
        return [lane.read.times.offset_ms for lane in self._measured]

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        """Map lanes in the latest measurements that wait for an overdue response to the delay."""
        return {
            lane.key: lane.observed.overdue for lane in self._measured if lane.observed.overdue != ANSWERED
        }

    def windows(self) -> Mapping[LaneKey, LaneWindows]:
        """Map measured lanes whose rate is limited by the socket buffers of brokers to the limits."""
        found = ((lane.key, windows_of(lane)) for lane in self._measured)
        return {key: windows for key, windows in found if windows != NO_WINDOWS}

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        """Map each cluster to how long its brokers throttled since the previous call, in seconds
        (KIP-219)."""
        return self._context.take_throttled()

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Return the largest clock skew among the brokers of each cluster. Unknown skews are omitted. A skew
        is measured when the engine writes to topics with `LogAppendTime`."""
        return self._context.clock_skews()

    def _oldest_request(self) -> float:
        """Return when the oldest overdue response was due (monotonic seconds), or infinity if none is
        overdue."""
        oldest_requests = [
            channel.unanswered_since() for part in self.lanes.sources.values() for channel in part.channels
        ]
        oldest_requests += [
            channel.unanswered_since() for part in self.lanes.sinks.values() for channel in part.channels
        ]
        return min(oldest_requests, default=inf)

    def _metric(self, lane: Lane, when: MeasurementInterval) -> MirrorMetric | None:
        try:
            return take_metric(lane, when, self.lanes.delivery.take_counters)
        except Exception as error:  # noqa: BLE001 - the other lanes are measured
            self.runner.set_aside(lane, error)
            return None

    def reports(self) -> list[LaneReport]:
        """Return a report of every lane that has not stopped."""
        now = self._context.loop.now()
        return [report_of(lane, now) for lane in self.lanes.by_key.values()]

    def sums(self) -> LaneSums:
        """Return sums over all lanes that have not stopped. Much faster than adding up `reports`."""
        return sums_of(self.lanes.by_key.values())

    def take_final_reports(self) -> list[LaneReport]:
        """Return the final reports of lanes stopped since the previous call, if `keeps_reports` is set."""
        return self.lanes.take_final()

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Drain and checkpoint all lanes until the deadline, and close all connections. Idempotent."""
        if self._is_closed:
            return ()
        until = self._context.loop.now() + deadline_seconds
        events: list[LaneEvent] = []
        self.stop_lanes(tuple(self.lanes.by_key))
        while self.lanes.by_key and self._context.loop.now() < until:
            events.extend(self.step(_CLOSING_STEP))
        self._is_closed = True
        shown = self._context.loop.spawn(self.checkpoints.groups.commit_last())
        while not shown.is_done and self._context.loop.now() < until:
            self._context.loop.run_once(_CLOSING_STEP)
        for source in self.lanes.sources.values():
            source.close()
        for sink in self.lanes.sinks.values():
            sink.close()
        self._context.close()
        return events
