"""Periodic reports of a worker process to the control process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from mirror.model.metrics import Drops, MirrorMetric
from mirror.ports import Clock, CopyEngine, MetricSink
from mirror.worker.protocol import (
    ClusterClock,
    CoreUse,
    LaneRate,
    LaneRates,
    LimitedLane,
    Message,
    RecordsDropped,
    TaskSums,
    ThrottledTime,
    WaitingLane,
)

_COUNTED: Final = Path("/proc/thread-self/schedstat")
_BILLION: Final = 1e9


def waited_seconds(counted: Path = _COUNTED) -> float | None:
    """Return how many seconds the calling thread has waited for a CPU core since its start.

    Returns None if the system does not report this time.
    """
    try:
        _, nanoseconds, *_ = counted.read_text(encoding="ascii").split()
        return int(nanoseconds) / _BILLION
    except (OSError, ValueError):
        return None


_DROPS_SECONDS: Final = 1.0
"""Interval at which the worker reads the number of dropped records from the sink."""


class WorkerReports(Protocol):
    """Interface of a worker's reports, which its main loop sends regularly and when it closes the engine."""

    def due(self, now: float) -> Sequence[Message]:
        """Return the reports that are due, as messages.

        `now`: monotonic seconds.
        """
        ...

    def closing(self) -> Sequence[Message]:
        """Return the reports to send before the engine is closed, as messages."""
        ...

    def closed(self) -> Sequence[Message]:
        """Return the final reports after the engine was closed, as messages."""
        ...


class MetricReports:
    """Reports the measurements of lanes to the service.

    Writes measurements of lanes to the sink, and sends rates and sums to the control process.
    """

    def __init__(self, engine: CopyEngine, sink: MetricSink, clock: Clock, interval_seconds: float) -> None:
        self._engine = engine
        self._sink = sink
        self._clock = clock
        self._interval = interval_seconds
        self._next = clock.monotonic() + interval_seconds
        self._next_drops = 0.0
        self._waited = waited_seconds()
        self._drops = Drops()
        """Number of dropped records, as last reported to the control process."""

    def due(self, now: float) -> Sequence[Message]:
        """Return the measurements once per interval, and the number of dropped records when it changes."""
        dropped = self._dropped(now)
        if now < self._next:
            return dropped
        self._next = now + self._interval
        return (*dropped, *self.closing())

    def _dropped(self, now: float) -> Sequence[Message]:
        if now < self._next_drops:
            return ()
        self._next_drops = now + _DROPS_SECONDS
        before, self._drops = self._drops, self._sink.drops()
        return (RecordsDropped(self._drops),) if self._drops != before else ()

    def closing(self) -> Sequence[Message]:
        """Return the measurements since the last interval."""
        metrics = self._engine.metrics()
        self._sink.publish(self._engine.counted(metrics))
        throttled = tuple(ThrottledTime(*pair) for pair in self._engine.take_throttled().items())
        core = CoreUse(_cores(metrics), self._waited_share(metrics))
        at = self._clock.monotonic()
        positions = self._engine.positions(metrics, at)
        checkpoints, offsets = self._engine.measured_checkpoints(), self._engine.timestamp_offsets()
        stands = zip(metrics, positions, checkpoints, offsets, strict=True)
        rates = tuple(LaneRate.of(lane, place, core, *rest) for lane, place, *rest in stands)
        waiting = tuple(WaitingLane(*pair) for pair in self._engine.unanswered().items())
        clocks = tuple(ClusterClock(*pair) for pair in self._engine.clock_skews().items())
        limited = tuple(LimitedLane(*pair) for pair in self._engine.windows().items())
        return (LaneRates(rates, _sums(metrics), throttled, clocks, at, waiting, limited),)

    def _waited_share(self, metrics: Sequence[MirrorMetric]) -> float | None:
        """Return the share of the interval in which the calling thread waited for a CPU core.

        The engine runs in this thread.
        """
        before, self._waited = self._waited, waited_seconds()
        if before is None or self._waited is None or not metrics:
            return None
        return (self._waited - before) * 1000 / max(metrics[0].interval_ms, 1)

    def closed(self) -> Sequence[Message]:
        """Return no reports, because lane events already report the end of lanes."""
        return ()


def _cores(metrics: Sequence[MirrorMetric]) -> float | None:
    """Return the number of CPU cores in use, from the CPU time in the measurements.

    Returns None if no lane has copied anything.
    """
    spent = sum(metric.cpu_ms for metric in metrics)
    return spent / max(metrics[0].interval_ms, 1) if spent else None


def _sums(metrics: Sequence[MirrorMetric]) -> tuple[TaskSums, ...]:
    found: dict[str, TaskSums] = {}
    for metric in metrics:
        sums = TaskSums.of(metric)
        before = found.get(metric.task)
        found[metric.task] = before.plus(sums) if before else sums
    return tuple(found.values())
