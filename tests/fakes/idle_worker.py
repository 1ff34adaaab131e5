"""A worker process with the loop of a real one, whose engine starts every lane at once and copies nothing."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Mapping, Sequence

from mirror.adapters.system_clock import SystemClock
from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LaneSpec, LaneStarted, LaneStopped, Unanswered
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.metrics import MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.worker.process import LeaseOver, Worker
from mirror.worker.protocol import EXIT_LEASE_OVER, Message


class IdleEngine:
    """Satisfies `ports.CopyEngine`. `started`: what it was given, by key."""

    def __init__(self) -> None:
        self.started: dict[LaneKey, LaneSpec] = {}
        self._events: list[LaneEvent] = []

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Nothing to do."""

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Each starts at offset 7."""
        self.started.update((spec.key, spec) for spec in specs)
        self._events += [LaneStarted(spec.key, 7) for spec in specs]

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Each stops at offset 9."""
        self._events += [LaneStopped(key, 9) for key in keys]

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Nothing to do."""

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Wait where nothing has happened."""
        if not self._events:
            select.select((), (), (), timeout_seconds)
        events, self._events = self._events, []
        return events

    def metrics(self) -> Sequence[MirrorMetric]:
        """Nothing was copied."""
        return ()

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        return metrics

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        """Nothing was copied."""
        return ()

    def measured_checkpoints(self) -> Sequence[int]:
        return []

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        """Nobody was asked."""
        return {}

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        """Nobody was asked."""
        return {}

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Nobody was asked."""
        return {}

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Nothing to drain."""
        return ()


class NoReports:
    """Satisfies `reports.WorkerReports`."""

    def due(self, now: float) -> Sequence[Message]:
        """Nothing."""
        return ()

    def closing(self) -> Sequence[Message]:
        """Nothing."""
        return ()

    def closed(self) -> Sequence[Message]:
        """Nothing."""
        return ()


def main(descriptor: int) -> None:
    """Run until the other end is gone, or the lease is over."""
    channel = socket.socket(fileno=descriptor)
    try:
        Worker(channel, IdleEngine(), NoReports(), SystemClock(), "interpreted").run()
    except LeaseOver:
        os._exit(EXIT_LEASE_OVER)


if __name__ == "__main__":
    main(int(sys.argv[1]))
