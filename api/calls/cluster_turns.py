"""One question at a time for each Kafka cluster, so that one that does not answer holds one thread."""

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
"""How long a cluster may take to answer a request, and how long its failure is the answer to others."""


class ClusterInUse(Exception):
    """Another question to the cluster is under way. `ended` is done when that one is over."""

    def __init__(self, cluster: ClusterRef, ended: Future[None]) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self.ended = ended


class ClusterTurns:
    """Thread-safe. `monotonic` returns seconds. Nothing waits here: after `ClusterInUse`, `SlowCalls` waits
    without a place and without a thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._under_way: dict[ClusterRef, Future[None]] = {}
        self._failures: dict[ClusterRef, tuple[Unreachable, float]] = {}

    def ask(self, cluster: ClusterRef, question: Callable[[], _T]) -> _T:
        """Return the result of a question that asks this cluster. Raises what the question raises,
        ClusterInUse while another one is under way, and Unreachable for `ANSWER_SECONDS` after one without
        an answer."""
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
        """Keep the error for the next questions, and return it as they get it: 503 also for a time-out."""
        found = copy(error)
        if isinstance(error, TimedOut):
            found = Unreachable(error.message, advice=error.advice)
        with self._lock:
            self._forget_old()
            self._failures[cluster] = found, self._monotonic()
        return copy(found)

    def failure(self, cluster: ClusterRef) -> Unreachable | None:
        """Return the error of a question that failed within the last `ANSWER_SECONDS`."""
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
