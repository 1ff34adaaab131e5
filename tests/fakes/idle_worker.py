"""Worker process with the real loop, whose engine starts every lane at once and copies nothing."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Mapping, Sequence

from mirror.adapters.system_clock import SystemClock
from mirror.model.datastreams.lanes import (
    LaneEvent,
    LaneKey,
    LaneSpec,
    LaneStarted,
    LaneStopped,
    LaneWindows,
    Unanswered,
)
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.metrics import MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.worker.process import LeaseOver, Worker
from mirror.worker.protocol import EXIT_LEASE_OVER, Message


class IdleEngine:
    """Engine that copies nothing. Satisfies `ports.CopyEngine`. `started`: specs of started lanes, by key."""

    def __init__(self) -> None:
        self.started: dict[LaneKey, LaneSpec] = {}
        self._events: list[LaneEvent] = []

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Do nothing."""

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Start each lane at offset 7."""
        self.started.update((spec.key, spec) for spec in specs)
        self._events += [LaneStarted(spec.key, 7) for spec in specs]

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop each lane at offset 9."""
        self._events += [LaneStopped(key, 9) for key in keys]

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Do nothing."""

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Return the events, waiting up to the timeout if there are none."""
        if not self._events:
            select.select((), (), (), timeout_seconds)
        events, self._events = self._events, []
        return events

    def metrics(self) -> Sequence[MirrorMetric]:
        """Return nothing."""
        return ()

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        return metrics

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        """Return nothing."""
        return ()

    def measured_checkpoints(self) -> Sequence[int]:
        return []

    def timestamp_offsets(self) -> Sequence[int]:
        return []

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        """Return nothing."""
        return {}

    def windows(self) -> Mapping[LaneKey, LaneWindows]:
        """Return nothing."""
        return {}

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        """Return nothing."""
        return {}

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Return nothing."""
        return {}

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Return nothing."""
        return ()


class NoReports:
    """Reports without content. Satisfies `reports.WorkerReports`."""

    def due(self, now: float) -> Sequence[Message]:
        """Return nothing."""
        return ()

    def closing(self) -> Sequence[Message]:
        """Return nothing."""
        return ()

    def closed(self) -> Sequence[Message]:
        """Return nothing."""
        return ()


def main(descriptor: int) -> None:
    """Run until the other end closes, or the lease expires."""
    channel = socket.socket(fileno=descriptor)
    try:
        Worker(channel, IdleEngine(), NoReports(), SystemClock(), "interpreted").run()
    except LeaseOver:
        os._exit(EXIT_LEASE_OVER)


if __name__ == "__main__":
    main(int(sys.argv[1]))
