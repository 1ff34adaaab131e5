"""One request at a time per Kafka cluster, so that an unresponsive cluster blocks only one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from typing import Final, TypeVar

from mirror.errors import TimedOut, Unreachable
from mirror.model.identifiers import ClusterRef

_T = TypeVar("_T")
ANSWER_SECONDS: Final = 5.0
"""Deadline for a cluster to respond, and time for which its failure answers further requests."""


class ClusterInUse(Exception):
    """Another request to the cluster is in progress. `ended` completes with it."""

    def __init__(self, cluster: ClusterRef, ended: Future[None]) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self.ended = ended


class ClusterTurns:
    """Serializes requests per cluster. Thread-safe and non-blocking: after `ClusterInUse`, `SlowCalls` waits
    without occupying a slot or a thread. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._under_way: dict[ClusterRef, Future[None]] = {}
        self._failures: dict[ClusterRef, tuple[Unreachable, float]] = {}

    def ask(self, cluster: ClusterRef, question: Callable[[], _T]) -> _T:
        """Return the result of `question`, which queries this cluster. Raises the errors of `question`,
        ClusterInUse while another one is in progress, and Unreachable for `ANSWER_SECONDS` after one
        failed."""
        ended = self._begin(cluster)
        try:
            return question()
        except Unreachable as error:
            raise self.note_failure(cluster, error) from error
        finally:
            with self._lock:
                del self._under_way[cluster]
            ended.set_result(None)

    def note_failure(self, cluster: ClusterRef, error: Unreachable) -> Unreachable:
        """Remember the error for later requests, and return it in the form in which they receive it:
        time-outs are converted, so that the status is always 503."""
        found = copy(error)
        if isinstance(error, TimedOut):
            found = Unreachable(error.message, advice=error.advice)
        with self._lock:
            self._forget_old()
            self._failures[cluster] = found, self._monotonic()
        return copy(found)

    def failure(self, cluster: ClusterRef) -> Unreachable | None:
        """Return the error of a request that failed within the last `ANSWER_SECONDS`, or None."""
        with self._lock:
            return self._failure(cluster)

    def _failure(self, cluster: ClusterRef) -> Unreachable | None:
        self._forget_old()
        known = self._failures.get(cluster)
        return copy(known[0]) if known is not None else None

    def _begin(self, cluster: ClusterRef) -> Future[None]:
        with self._lock:
            failure = self._failure(cluster)
            if failure is not None:
                raise failure
            under_way = self._under_way.get(cluster)
            if under_way is not None:
                raise ClusterInUse(cluster, under_way)
            ended = self._under_way[cluster] = Future[None]()
        return ended

    def _forget_old(self) -> None:
        oldest = self._monotonic() - ANSWER_SECONDS
        self._failures = {one: known for one, known in self._failures.items() if known[1] > oldest}
