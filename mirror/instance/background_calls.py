"""Questions to servers that may be slow, so that the leader's tick is not: each has a line of its own.
The asking thread waits a moment for the answer; in a line that is slow already, not at all. However many
lines are slow, it waits for all of them together no longer than for one.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from mirror.errors import HeadraceError, LoadUnavailable, TimedOut, named
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness, LoadReport, LoadSource
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider

_T = TypeVar("_T")
_REFILL: Final = 0.1
"""Seconds of waiting that a thread gets back for each second that passes."""
_LEAST_SECONDS: Final = 0.05
"""What a quick line may take even when slow ones have used up the patience."""
_FRESH_SECONDS: Final = 15.0
"""A caller that waits for an answer is woken when it comes. An answer that lies longer was meant for another
question."""


class StillAsking(TimedOut):
    """There is no answer yet; the next call gets it."""


class BackgroundCalls(Protocol):
    """Runs jobs that may take long."""

    def ask(self, line: str, key: str, job: Callable[[], _T]) -> _T:
        """The job's result, or that of the job of the same key that was under way. Jobs of one line are done
        one after the other. Raises what the job raises, and StillAsking."""
        ...


class WaitBudget:
    """How long one thread may wait for answers: `limit_seconds` in a row, and a tenth of its time after that,
    beside a moment for each answer.

    Without it each of N clusters that do not answer would hold up a tick of the leader by the whole patience.
    """

    def __init__(self, limit_seconds: float) -> None:
        self._limit = self._left = limit_seconds
        self._counted_at: float | None = None

    def left(self, now: float) -> float:
        """Seconds that a wait which begins at `now` (monotonic seconds) may take."""
        if self._counted_at is not None:
            self._left = min(self._limit, self._left + (now - self._counted_at) * _REFILL)
        self._counted_at = now
        return max(self._left, min(self._limit, _LEAST_SECONDS))

    def spend(self, now: float) -> None:
        """Take off the wait that has begun at the last call of `left` and ends at `now`."""
        if self._counted_at is not None:
            self._left = max(0.0, self._left - (now - self._counted_at))
        self._counted_at = now


class ThreadedCalls:
    """One daemon thread for each line that has something to do. `wake` is called, from that thread, when an
    answer came late."""

    def __init__(self, patience_seconds: float, wake: Callable[[], None]) -> None:
        self._patience = patience_seconds
        self._budget = WaitBudget(patience_seconds)
        self._wake = wake
        self._lines: dict[str, _Line] = {}

    def ask(self, line: str, key: str, job: Callable[[], _T]) -> _T:
        """As in the port. Used by one thread."""
        if line not in self._lines:
            self._lines = {name: one for name, one in self._lines.items() if not one.is_forgotten()}
            self._lines[line] = _Line(line, self._patience)
        try:
            return self._lines[line].ask(key, job, self._budget.left(monotonic()), self._wake)
        finally:
            self._budget.spend(monotonic())


class _Line:
    """Does one job after the other, and keeps the answers that nobody has fetched yet. Its thread ends when
    there is nothing left to do. It is slow from an answer that took longer than `patience_seconds` to a good
    one that did not: a server that was waited for in vain may be said to be away at once the next time."""

    def __init__(self, name: str, patience_seconds: float) -> None:
        self._name = name
        self._patience = patience_seconds
        self._jobs: deque[Callable[[], None]] = deque()
        self._answers: dict[str, _Answer[Any]] = {}
        self._awaited: deque[_Answer[Any]] = deque()
        self._is_slow = False
        self._lock = threading.Lock()
        self._is_running = False

    def is_forgotten(self) -> bool:
        """Whether nobody waits for anything any more."""
        return not self._is_running and all(one.is_stale() for one in self._answers.values())

    def ask(self, key: str, job: Callable[[], _T], wait_seconds: float, wake: Callable[[], None]) -> _T:
        known = self._answers.get(key)
        if known is not None and known.is_stale():
            known, self._is_slow = None, False
        is_new = known is None
        answer: _Answer[_T] = _Answer() if known is None else known
        if is_new:
            self._give(lambda: _do(job, answer))
            self._answers[key] = answer
            self._awaited.append(answer)
        done, _ = wait([answer], wait_seconds if self._is_worth_waiting(answer) else 0)
        if not done:
            if is_new:
                answer.add_done_callback(lambda _: wake())
            raise StillAsking(f"{key}: no answer yet", advice="the others go on meanwhile")
        took_long = answer.done_at - answer.asked_at >= self._patience
        self._is_slow = took_long or (self._is_slow and answer.exception() is not None)
        del self._answers[key]
        return answer.result()

    def _is_worth_waiting(self, answer: _Answer[_T]) -> bool:
        """Not where the job before has not ended yet, or what it waits for is slow."""
        while self._awaited and self._awaited[0].done():  # answers come in the order of the questions
            self._awaited.popleft()
        if not self._awaited:
            return not self._is_slow
        oldest = self._awaited[0]
        self._is_slow = self._is_slow or oldest.asked_at <= monotonic() - self._patience
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


class _Answer(Future[_T]):
    """`asked_at`, `done_at`: when the question was asked and its answer came, in monotonic seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_at = monotonic()
        self.done_at = math.inf

    def is_stale(self) -> bool:
        """Whether it came too long ago for anybody to have waited for it."""
        return monotonic() - self.done_at > _FRESH_SECONDS


def _do(job: Callable[[], _T], answer: _Answer[_T]) -> None:
    try:
        result = job()
    except BaseException as error:  # noqa: BLE001 - raised where the answer is asked for
        answer.done_at = monotonic()
        answer.set_exception(error if isinstance(error, Exception) else HeadraceError(named(error)))
    else:
        answer.done_at = monotonic()
        answer.set_result(result)


class LoadsOnTheWay(LoadUnavailable):
    """The provider has been asked and has not answered yet."""


class PatientLoads:
    """A load provider that never holds up who asks. Satisfies `ports.LoadProvider`. `name`: of one that
    datastreams choose; each is asked in a line of its own."""

    def __init__(self, provider: LoadProvider, background_calls: BackgroundCalls, name: str = "") -> None:
        self._provider = provider
        self._background_calls = background_calls
        self._name = name

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """The provider's answer. Raises LoadUnavailable, and LoadsOnTheWay."""
        try:
            return self._background_calls.ask(
                f"loads by {self._name}" if self._name else "loads",
                f"loads of {LoadSource(cluster, self._name)}",
                lambda: self._provider.loads(cluster, partitions),
            )
        except StillAsking as error:
            raise LoadsOnTheWay(error.message, advice="the next plan has them") from error


class PatientFreshness:
    """How new a provider's loads are, asked without ever waiting: `background_calls` has no patience."""

    def __init__(self, ask: Callable[[ClusterRef], Freshness], background_calls: BackgroundCalls) -> None:
        self._ask = ask
        self._background_calls = background_calls

    def __call__(self, cluster: ClusterRef) -> Freshness:
        """The newest answer. Raises StillAsking, and what the question raises."""
        return self._background_calls.ask("freshness", f"freshness of {cluster}", lambda: self._ask(cluster))
