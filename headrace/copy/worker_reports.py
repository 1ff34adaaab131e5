"""Reports of a worker of `headrace copy` to its parent process: the results of the copy."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import Final

from mirror.model.identifiers import ClusterRef
from mirror.ports import Clock
from mirror.replication.engine import BatchEngine
from mirror.replication.reports.lane_reports import LaneReport
from mirror.worker.protocol import CopySums, LaneReports, Message, ThrottledTime, WorkerDone

_SUMS_SECONDS: Final = 0.5
_SUMS_SHARE: Final = 0.005
"""Maximum share of time for computing sums. With very many lanes, the sums are computed less often."""


class CopyReports:
    """Reports of a copy worker: progress sums, a report for each lane, and the resource usage of the
    process."""

    def __init__(self, engine: BatchEngine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._records = self._bytes = 0
        self._throttled: dict[ClusterRef, float] = {}
        self._next = 0.0

    def due(self, now: float) -> Sequence[Message]:
        """Return the reports of lanes that have stopped and, twice per second, the sums of the worker."""
        final = self._final()
        if now < self._next:
            return final
        began = self._clock.monotonic()
        sums = self._engine.sums()
        spent = self._clock.monotonic() - began
        self._next = now + max(_SUMS_SECONDS, spent / _SUMS_SHARE)
        records, size = self._records + sums.records, self._bytes + sums.bytes
        throttled = self._take_throttled()
        return (*final, CopySums(records, size, sums.lag, sums.fenced, throttled, sums.unknown))

    def closing(self) -> Sequence[Message]:
        """Return no reports, because `closed` reports all lanes after they have ended."""
        return ()

    def closed(self) -> Sequence[Message]:
        """Return the reports of all lanes, including lanes that did not stop before the deadline."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        done = WorkerDone(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
        return (*self._final(), *_documents(self._engine.reports()), done)

    def _take_throttled(self) -> tuple[ThrottledTime, ...]:
        for cluster, seconds in self._engine.take_throttled().items():
            self._throttled[cluster] = self._throttled.get(cluster, 0.0) + seconds
        return tuple(ThrottledTime(*pair) for pair in self._throttled.items())

    def _final(self) -> Sequence[Message]:
        reports = self._engine.take_final_reports()
        self._records += sum(report.records for report in reports)
        self._bytes += sum(report.bytes for report in reports)
        return _documents(reports)


def _documents(reports: Sequence[LaneReport]) -> Sequence[Message]:
    return (LaneReports(tuple(report.to_json() for report in reports)),) if reports else ()
