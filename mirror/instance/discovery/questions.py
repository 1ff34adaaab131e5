"""Sends requests to several clusters at once. A slow cluster delays only callers that need it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from mirror.bulkheads import Bulkhead, settle
from mirror.errors import Busy
from mirror.instance.background_calls import BackgroundCalls, CallPending
from mirror.instance.discovery.preparation import LOOK_AGAIN_SECONDS
from mirror.loggers import get_logger
from mirror.model.clusters import is_address
from mirror.model.identifiers import ClusterRef
from mirror.model.reasons import reason_of
from mirror.ports import Clock, TopicAdmin

_log = get_logger(__name__)
_T = TypeVar("_T")
_LATE_SECONDS: Final = 60.0
_LITTLE_PATIENCE: Final = 0.1
"""Seconds to wait for a cluster that timed out within the last `_LATE_SECONDS`."""
_MOST_ADDRESSES: Final = 32
"""Maximum number of concurrent requests to clusters without an alias.

Callers choose these addresses, and each request to an unresponsive cluster occupies a thread. Further
requests fail.
"""
_Run = Callable[[Callable[[], None]], None]


def _in_a_thread(job: Callable[[], None]) -> None:
    threading.Thread(target=job, name="question", daemon=True).start()


class ClusterRequests:
    """Sends requests to several clusters concurrently. Thread-safe. Concurrent callers of the same request
    share its result. Waits less long for a cluster that has recently timed out."""

    def __init__(
        self, admin_of: Callable[[ClusterRef], TopicAdmin], patience_seconds: float, run: _Run = _in_a_thread
    ) -> None:
        self._admin_of = admin_of
        self._patience = patience_seconds
        self._run = run
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, ClusterRef], _Pending[Any]] = {}
        self._late: dict[ClusterRef, float] = {}

    def identities(self, clusters: Iterable[ClusterRef]) -> Mapping[ClusterRef, str]:
        """Return the cluster ids of the clusters that respond in time."""
        return self._ask("identity", clusters, lambda admin: admin.cluster_id())

    def topics(self, clusters: Iterable[ClusterRef]) -> Mapping[ClusterRef, Mapping[str, int]]:
        """Return the partition counts of all topics of the clusters that respond in time. Omits clusters
        whose id request is still pending."""
        with self._lock:
            ready = [cluster for cluster in clusters if ("identity", cluster) not in self._under_way]
        return self._ask("topics", ready, lambda admin: admin.list_topics())

    def _ask(
        self, request_name: str, clusters: Iterable[ClusterRef], ask: Callable[[TopicAdmin], _T]
    ) -> Mapping[ClusterRef, _T]:
        """Send a request to several clusters concurrently, and return the results that arrive in time."""
        pending, found = dict[ClusterRef, _Pending[_T]](), dict[ClusterRef, _T]()
        for cluster in dict.fromkeys(clusters):
            try:
                pending[cluster] = self._question(request_name, cluster, ask)
            except Busy as busy:
                _log.info(
                    "cluster request skipped", cluster=cluster, question=request_name, reason=reason_of(busy)
                )
        for cluster, question in pending.items():
            if not wait([question], self._patience_with(cluster, question)).done:
                self._note_late(cluster)
                _log.info("cluster request timed out", cluster=cluster, question=request_name)
            elif (error := question.exception()) is None:
                found[cluster] = question.result()
            else:
                _log.info(
                    "cluster request failed", cluster=cluster, question=request_name, reason=reason_of(error)
                )
        return found

    def _patience_with(self, cluster: ClusterRef, question: _Pending[_T]) -> float:
        now = monotonic()
        left = max(0.0, question.requested_at + self._patience - now)
        is_late = now - self._late.get(cluster, -_LATE_SECONDS) < _LATE_SECONDS
        return min(left, _LITTLE_PATIENCE) if is_late else left

    def _note_late(self, cluster: ClusterRef) -> None:
        now = monotonic()
        with self._lock:
            late = {cluster: at for cluster, at in self._late.items() if now - at < _LATE_SECONDS}
            self._late = {**late, cluster: now}

    def _question(
        self, request_name: str, cluster: ClusterRef, ask: Callable[[TopicAdmin], _T]
    ) -> _Pending[_T]:
        """Return the pending request with this name, or start a new one. Raises Busy."""
        key = (request_name, cluster)
        with self._lock:
            known = self._under_way.get(key)
            if known is not None:
                return known
            if (
                is_address(cluster)
                and sum(is_address(reference) for _, reference in self._under_way) >= _MOST_ADDRESSES
            ):
                raise Busy(f"too many requests ({_MOST_ADDRESSES}) to clusters without an alias are pending")
            question = self._under_way[key] = _Pending[_T]()
        self._run(partial(self._carry_out, key, question, ask))
        return question

    def _carry_out(
        self, key: tuple[str, ClusterRef], question: _Pending[_T], ask: Callable[[TopicAdmin], _T]
    ) -> None:
        """Send a pending request, and set its result or error."""

        def answer() -> _T:
            try:
                return ask(self._admin_of(key[1]))
            finally:
                self._end(key)

        settle(question, answer)

    def _end(self, key: tuple[str, ClusterRef]) -> None:
        with self._lock:
            del self._under_way[key]


class _Pending(Future[_T]):
    """Result of a pending request to a cluster. `requested_at`: time of the request (monotonic seconds)."""

    def __init__(self) -> None:
        super().__init__()
        self.requested_at = monotonic()


class ClusterIdentities:
    """Reads the id of each cluster: once per interval until it is known, then every ten minutes."""

    def __init__(
        self,
        admin_of: Callable[[ClusterRef], TopicAdmin],
        clock: Clock,
        interval_seconds: float,
        background_calls: BackgroundCalls,
    ) -> None:
        self._admin_of = admin_of
        self._clock = clock
        self._interval = interval_seconds
        self._background_calls = background_calls
        self._known: dict[ClusterRef, str] = {}
        self._requested_at: dict[ClusterRef, float] = {}
        self._failures: dict[ClusterRef, str] = {}

    def of(self, clusters: Collection[ClusterRef]) -> Mapping[ClusterRef, str]:
        """Return the last known ids of the clusters. A cluster that has never responded is missing."""
        now = self._clock.monotonic()
        for cluster in clusters:
            limit = self._interval if cluster not in self._known else LOOK_AGAIN_SECONDS
            if now - self._requested_at.get(cluster, -limit) >= limit:
                self._ask(cluster, now)
        return {cluster: self._known[cluster] for cluster in clusters if cluster in self._known}

    def _ask(self, cluster: ClusterRef, now: float) -> None:
        self._requested_at[cluster] = now
        key = f"identity of {cluster}"
        try:
            with Bulkhead(partial(self._note_failure, cluster), through=(CallPending,)):
                self._known[cluster] = self._background_calls.ask(
                    f"discovery at {cluster}", key, self._admin_of(cluster).cluster_id
                )
                self._failures.pop(cluster, None)
        except CallPending:
            del self._requested_at[cluster]

    def _note_failure(self, cluster: ClusterRef, error: Exception) -> None:
        reason = reason_of(error)
        if self._failures.get(cluster) != reason:
            _log.info("cannot read cluster id", cluster=cluster, reason=reason)
        self._failures[cluster] = reason
