"""The sampler: measures a cluster's partitions at an interval and writes Cruise Control samples.

One sampler per cluster is enough, so a sampler measures only while `is_leader` returns True. The sampler has
one thread. An unreachable cluster is retried at the next interval. An unexpected error ends the thread and is
stored in `failure`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirror.model.topics import TopicPartition
from pmp.ports import ClusterProbe, SampleSink
from pmp.rounds import RoundService
from pmp.samples.snapshot import LogSnapshot, sample


class Sampler(RoundService):
    """Service that samples one cluster; `round` does the work of one interval."""

    def __init__(
        self,
        cluster: str,
        probe: ClusterProbe,
        sink: SampleSink,
        interval_seconds: float,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(f"sampler-{cluster}", interval_seconds)
        self._probe = probe
        self._sink = sink
        self._is_leader = is_leader
        self._before: LogSnapshot | None = None
        self._bytes_per_message: Mapping[TopicPartition, float] = {}

    def stop(self, deadline_seconds: float) -> None:
        """Stop after the current measurement, but wait at most until the deadline. Idempotent."""
        super().stop(deadline_seconds)
        self._probe.close()
        self._sink.close()

    def round(self) -> int:
        """Measure the cluster once, write the samples and return their number. The first measurement gives no
        samples."""
        now = self._probe.snapshot()
        before, self._before = self._before, now
        if before is None:
            return 0
        found = sample(before, now, self._bytes_per_message)
        self._bytes_per_message = found.bytes_per_message
        self._sink.write(found.samples)
        return len(found.samples)

    def _work(self) -> None:
        if self._is_leader():
            self.round()
        else:
            self._before = None
