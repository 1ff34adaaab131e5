"""The sampler: measures a cluster's partitions at an interval and writes Cruise Control samples.

One sampler per cluster is enough, so a sampler measures only while `is_leader` returns True. The sampler has
one thread. An unreachable cluster is retried at the next interval. An unexpected error ends the thread and is
stored in `failure`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from mirror.errors import HeadraceError
from mirror.model.topics import TopicPartition
from pmp.ports import ClusterProbe, SampleSink
from pmp.samples.look import LogSnapshot, sample

_log = structlog.get_logger(__name__)


class Sampler:
    """Service: `start` starts the thread, `stop` stops and joins it."""

    def __init__(
        self,
        cluster: str,
        probe: ClusterProbe,
        sink: SampleSink,
        interval_seconds: float,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cluster = cluster
        self._probe = probe
        self._sink = sink
        self._interval_seconds = interval_seconds
        self._is_leader = is_leader
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: LogSnapshot | None = None
        self._bytes_per_message: Mapping[TopicPartition, float] = {}
        self.failure: Exception | None = None
        self.samples_written = 0
        self.rounds = 0
        self.last_problem = ""

    @property
    def remembers(self) -> bool:
        """True if there is a measurement with which the next one can be compared."""
        return self._before is not None

    @property
    def healthy(self) -> bool:
        """True if the thread runs and its last round succeeded."""
        return self.is_running() and not self.last_problem

    def start(self) -> None:
        """Start measuring in the background."""
        self._thread = threading.Thread(target=self._run, name=f"sampler-{self._cluster}")
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Stop measuring; waits up to the deadline for the current round. Safe to call twice."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(deadline_seconds)
        self._probe.close()
        self._sink.close()

    def is_running(self) -> bool:
        """Return whether the thread is alive; `failure` has the reason if it ended."""
        return self._thread is not None and self._thread.is_alive()

    def round(self) -> int:
        """Measure once, write the samples and return their number. The first measurement gives no samples."""
        now = self._probe.look()
        before, self._before = self._before, now
        if before is None:
            return 0
        found = sample(before, now, self._bytes_per_message)
        self._bytes_per_message = found.bytes_per_message
        self._sink.write(found.samples)
        self.samples_written += len(found.samples)
        self.rounds += 1
        return len(found.samples)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._attempt()
                self._stopped.wait(self._interval_seconds)
        except Exception as error:  # noqa: BLE001 - top of a service loop
            self.failure = error
            _log.exception("sampler thread failed", cluster=self._cluster)

    def _attempt(self) -> None:
        if not self._is_leader():
            self._before = None
            return
        try:
            self.round()
        except HeadraceError as error:
            if not error.retriable:
                raise
            if str(error) != self.last_problem:
                _log.warning("cannot sample the cluster", cluster=self._cluster, problem=str(error))
            self.last_problem = str(error)
        else:
            self.last_problem = ""
