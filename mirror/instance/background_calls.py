"""Runs calls to slow servers on background threads, so that they do not block the leader's tick.

Calls are grouped into lines (queues), each with its own thread. The caller waits briefly for a result, unless
the line is already slow. Several slow lines together delay the caller no longer than one slow line.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from mirror.errors import HeadraceError, LoadUnavailable, TimedOut
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness, LoadReport, LoadSource
from mirror.model.reasons import named
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider

_T = TypeVar("_T")
_REFILL: Final = 0.1
"""Seconds per elapsed second by which the time that a caller may wait grows."""
_LEAST_SECONDS: Final = 0.05
"""Seconds to wait for a responsive server when the caller's wait budget is empty."""
_FRESH_SECONDS: Final = 15.0
"""Maximum age of a call's result in seconds. The caller of an older result has given up."""


class CallPending(TimedOut):
    """Raised while the result of a call is pending; a later call returns it."""


class BackgroundCalls(Protocol):
    """Runs slow jobs, such as requests to slow servers, on background threads. A queue is called a line."""

    def ask(self, line: str, key: str, job: Callable[[], _T]) -> _T:
        """Run a job on the line's thread, and return its result. Jobs with the same key share one result.

        Jobs of one line run one after another. Raises the error of the job; CallPending if the result did not
        arrive in time.
        """
        ...


class WaitBudget:
    """Limits how long one thread waits for results in total.

    The budget starts at `limit_seconds`, and regains a tenth of the elapsed time up to that limit. Even with
    an empty budget, a call may wait briefly. Without the budget, each of N unresponsive clusters would delay
    a tick by a whole timeout.
    """

    def __init__(self, limit_seconds: float) -> None:
        self._limit = self._left = limit_seconds
        self._counted_at: float | None = None

    def remaining_seconds(self, now: float) -> float:
        """Return how long a caller may wait now, in seconds. `now`: current time (monotonic seconds)."""
        if self._counted_at is not None:
            self._left = min(self._limit, self._left + (now - self._counted_at) * _REFILL)
        self._counted_at = now
        return max(self._left, min(self._limit, _LEAST_SECONDS))

    def spend(self, now: float) -> None:
        """Subtract a wait from the budget: from the last call of `left` until `now`."""
        if self._counted_at is not None:
            self._left = max(0.0, self._left - (now - self._counted_at))
        self._counted_at = now


class ThreadedCalls:
    """Runs the jobs of each line one after another on a daemon thread of the line.

    `wake`: called on the line's thread when a result has arrived too late for its caller.
    """

    def __init__(self, patience_seconds: float, wake: Callable[[], None]) -> None:
        self._patience = patience_seconds
        self._budget = WaitBudget(patience_seconds)
        self._wake = wake
        self._lines: dict[str, _Line] = {}

    def ask(self, line: str, key: str, job: Callable[[], _T]) -> _T:
        """Run a job on the thread of a line, as `BackgroundCalls.ask` does. Not thread-safe."""
        if line not in self._lines:
            self._lines = {name: line for name, line in self._lines.items() if not line.is_forgotten()}
            self._lines[line] = _Line(line, self._patience)
        try:
            return self._lines[line].ask(key, job, self._budget.remaining_seconds(monotonic()), self._wake)
        finally:
            self._budget.spend(monotonic())


class _Line:
    """Runs the jobs of one line in order, and keeps results until they are fetched.

    The thread of a line ends when no jobs remain. A line becomes slow when a result takes longer than
    `patience_seconds`, and fast again when a job succeeds within that time.
    """

    def __init__(self, name: str, patience_seconds: float) -> None:
        self._name = name
        self._patience = patience_seconds
        self._jobs: deque[Callable[[], None]] = deque()
        self._answers: dict[str, _CallResult[Any]] = {}
        self._awaited: deque[_CallResult[Any]] = deque()
        self._is_slow = False
        self._lock = threading.Lock()
        self._is_running = False

    def is_forgotten(self) -> bool:
        """Return whether the line can be dropped: no job is running, and all kept results are outdated."""
        return not self._is_running and all(answer.is_stale() for answer in self._answers.values())

    def ask(self, key: str, job: Callable[[], _T], wait_seconds: float, wake: Callable[[], None]) -> _T:
        known = self._answers.get(key)
        if known is not None and known.is_stale():
            known, self._is_slow = None, False
        is_new = known is None
        answer: _CallResult[_T] = _CallResult() if known is None else known
        if is_new:
            self._give(lambda: _do(job, answer))
            self._answers[key] = answer
            self._awaited.append(answer)
        done, _ = wait([answer], wait_seconds if self._is_worth_waiting(answer) else 0)
        if not done:
            if is_new:
                answer.add_done_callback(lambda _: wake())
            raise CallPending(f"{key}: no response yet", advice="other calls are not affected")
        took_long = answer.done_at - answer.requested_at >= self._patience
        self._is_slow = took_long or (self._is_slow and answer.exception() is not None)
        del self._answers[key]
        return answer.result()

    def _is_worth_waiting(self, answer: _CallResult[_T]) -> bool:
        """Return whether the caller should wait for a result: the line is fast, and no other job is first."""
        while self._awaited and self._awaited[0].done():  # results arrive in the order of the calls
            self._awaited.popleft()
        if not self._awaited:
            return not self._is_slow
        oldest = self._awaited[0]
        self._is_slow = self._is_slow or oldest.requested_at <= monotonic() - self._patience
        return not self._is_slow and len(self._awaited) == 1 and oldest is answer

    def _give(self, job: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_running:
                threading.Thread(target=self._run, name=f"background_calls-{self._name}", daemon=True).start()
                self._is_running = True
            self._jobs.append(job)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._is_running = False
                    return
                job = self._jobs.popleft()
            job()


class _CallResult(Future[_T]):
    """Result of a background call. `requested_at`, `done_at`: start and end (monotonic seconds)."""

    def __init__(self) -> None:
        super().__init__()
        self.requested_at = monotonic()
        self.done_at = math.inf

    def is_stale(self) -> bool:
        """Return whether the result is outdated, because no caller has fetched it in time."""
        return monotonic() - self.done_at > _FRESH_SECONDS


def _do(job: Callable[[], _T], answer: _CallResult[_T]) -> None:
    try:
        result = job()
    except BaseException as error:  # noqa: BLE001 - re-raised in the caller
        answer.done_at = monotonic()
        answer.set_exception(error if isinstance(error, Exception) else HeadraceError(named(error)))
    else:
        answer.done_at = monotonic()
        answer.set_result(result)


class LoadsPending(LoadUnavailable):
    """Raised while the load provider has not responded yet."""


class PatientLoads:
    """Load provider that never blocks its caller. Implements `ports.LoadProvider`.

    `name`: name of a provider that datastreams choose; each provider has its own line.
    """

    def __init__(self, provider: LoadProvider, background_calls: BackgroundCalls, name: str = "") -> None:
        self._provider = provider
        self._background_calls = background_calls
        self._name = name

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the loads that the provider reports. Raises LoadUnavailable and LoadsPending."""
        try:
            return self._background_calls.ask(
                f"loads by {self._name}" if self._name else "loads",
                f"loads of {LoadSource(cluster, self._name)}",
                lambda: self._provider.loads(cluster, partitions),
            )
        except CallPending as error:
            raise LoadsPending(error.message, advice="a later plan will use the loads") from error


class PatientFreshness:
    """Reads the age of a provider's loads. Calls never wait: `background_calls` has a wait limit of zero."""

    def __init__(self, ask: Callable[[ClusterRef], Freshness], background_calls: BackgroundCalls) -> None:
        self._ask = ask
        self._background_calls = background_calls

    def __call__(self, cluster: ClusterRef) -> Freshness:
        """Return the latest known age of a cluster's loads. Raises CallPending and the provider's errors."""
        return self._background_calls.ask("freshness", f"freshness of {cluster}", lambda: self._ask(cluster))
