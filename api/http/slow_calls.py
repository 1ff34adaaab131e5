"""Runs in threads what would delay other requests: calls to other servers, and large responses.

Only a few calls that wait for other servers, such as Kafka brokers, run at a time. Each Kafka cluster gets
one request at a time, so that an unresponsive cluster blocks only one thread.

FastAPI validates and serializes a response on the event loop, which serves no other request in the meantime.
Endpoints whose responses grow with the number of partitions or topics therefore serialize them in a thread
(`large_response`). Lists are serialized element by element, because the interpreter runs no other thread
during one call of the serializer.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Response
from pydantic import BaseModel

from api.http.problems import json_list, json_text
from mirror.errors import Busy, TimedOut, TooOften, Unreachable
from mirror.model.identifiers import ClusterRef


class CallSlots:
    """Limits the number of concurrent calls, in total and for each name. Not thread-safe.

    `most`: total limit. `most_each`: limit per name, such as a principal or an owner.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._all = 0
        self._each = Counter[str]()

    @property
    def count(self) -> int:
        """Number of calls in progress."""
        return self._all

    @property
    def is_full(self) -> bool:
        """True if the maximum number of calls is in progress."""
        return self._all >= self._most

    def full_for(self, names: frozenset[str]) -> str:
        """Return the first of the given names that has reached its limit; empty if none has."""
        return next((name for name in sorted(names) if self._each[name] >= self._most_each), "")

    @contextmanager
    def taken(self, names: frozenset[str]) -> Iterator[None]:
        """Count one more call against the limits of the given names while the block runs."""
        self._all += 1
        self._each.update(names)
        try:
            yield
        finally:
            self._all -= 1
            self._each.subtract(names)
            self._each = +self._each


_T = TypeVar("_T")
ANSWER_SECONDS: Final = 5.0
"""Deadline in seconds for a response of a cluster. After a failed request, all requests to this cluster fail
immediately for as long as this deadline."""


class ClusterInUse(Exception):
    """Raised while another request uses the cluster. `ended`: future that completes with that request."""

    def __init__(self, cluster: ClusterRef, ended: Future[None]) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self.ended = ended


class ClusterRequestLimiter:
    """Runs at most one slow request to each cluster at a time. Thread-safe and non-blocking: `ask` raises
    `ClusterInUse`, and `SlowCalls` then waits without occupying a slot or a thread. `monotonic` returns
    monotonic seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._under_way: dict[ClusterRef, Future[None]] = {}
        self._failures: dict[ClusterRef, tuple[Unreachable, float]] = {}

    def ask(self, cluster: ClusterRef, question: Callable[[], _T]) -> _T:
        """Return the result of `question`, which queries a cluster.

        Raises the errors of `question`, ClusterInUse while another request is in progress, and Unreachable
        for `ANSWER_SECONDS` after a request has failed.
        """
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
        """Keep the error of a cluster for later requests, and return a copy to raise. A timeout becomes
        Unreachable, so that the HTTP status is always 503."""
        found = copy.copy(error)
        if isinstance(error, TimedOut):
            found = Unreachable(error.message, advice=error.advice)
        with self._lock:
            self._forget_old()
            self._failures[cluster] = found, self._monotonic()
        return copy.copy(found)

    def failure(self, cluster: ClusterRef) -> Unreachable | None:
        """Return the error of a request that failed within the last `ANSWER_SECONDS`, or None."""
        with self._lock:
            return self._failure(cluster)

    def _failure(self, cluster: ClusterRef) -> Unreachable | None:
        self._forget_old()
        known = self._failures.get(cluster)
        return copy.copy(known[0]) if known is not None else None

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
        self._failures = {key: known for key, known in self._failures.items() if known[1] > oldest}


MOST_AT_ONCE: Final = 8
_AGAIN_SECONDS: Final = 5


class SlowCalls:
    """Runs calls that query other servers, in threads, for the thread of the event loop.

    `most_each`: limit per principal and per owner. `wait_seconds`: time to wait for a cluster that other
    calls use.
    """

    def __init__(
        self,
        most_each: int = MOST_AT_ONCE,
        wait_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._wait_seconds = wait_seconds
        self._most_each = most_each
        self._slots = CallSlots(MOST_AT_ONCE, most_each)

    async def run(self, call: Callable[[], _T], callers: frozenset[str] = frozenset()) -> _T:
        """Run `call` in a thread and return its result.

        `callers`: names against whose limits the call counts.

        Raises the errors of `call`, Busy if `MOST_AT_ONCE` calls are in progress, TooOften if this caller has
        reached its limit of concurrent calls. If a call needs a cluster in use by another call, it is
        repeated when the other call ends. A waiting call does not count and needs no thread.
        """
        until = anyio.current_time() + self._wait_seconds
        while True:
            try:
                return await self._run_once(call, callers)
            except ClusterInUse as other:
                await _end_of(other, until - anyio.current_time())

    async def _run_once(self, call: Callable[[], _T], callers: frozenset[str]) -> _T:
        full = self._slots.full_for(callers)
        if full:
            raise TooOften(
                f"{full} already has {self._most_each} calls in progress that query other servers",
                after_seconds=_AGAIN_SECONDS,
                advice="send them one at a time",
            )
        if self._slots.is_full:
            raise Busy(
                f"the limit of {MOST_AT_ONCE} concurrent calls that query other servers is reached",
                advice="retry in a few seconds",
            )
        with self._slots.taken(callers):
            return await anyio.to_thread.run_sync(call, limiter=CapacityLimiter(1))


@dataclass(frozen=True, slots=True)
class CallersSlowCalls:
    """Runs slow calls of one REST request. `callers`: function that returns the names whose limits apply."""

    calls: SlowCalls
    callers: Callable[[], frozenset[str]]

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run a call in another thread, and return its result. Raises the errors of `SlowCalls.run`."""
        return await self.calls.run(call, self.callers())


async def _end_of(other: ClusterInUse, seconds: float) -> None:
    """Wait until the call that uses the cluster has ended. Raises Busy if it has not ended after
    `seconds`."""
    if not (await asyncio.wait([asyncio.wrap_future(other.ended)], timeout=max(seconds, 0.0)))[0]:
        raise Busy(f"cluster {other.cluster} is in use by other calls", advice="retry in a few seconds")


Answer = BaseModel | Sequence[BaseModel]
"""One response model, or a list of response models."""


def large_response(answer: Answer, response: Response) -> Response:
    """Return a response with the same document that FastAPI returns for `answer`.

    `response`: its headers and its status are copied. Call this function in a thread.
    """
    return Response(
        json_of(answer),
        response.status_code or HTTPStatus.OK,
        dict(response.headers),
        media_type="application/json",
    )


def json_of(answer: Answer) -> bytes:
    """Serialize a response model, or a list of response models."""
    if not isinstance(answer, BaseModel):
        return _list_text(answer)
    lists = {name: value for name, value in answer if _is_list_of_models(value)}
    rest = answer.model_dump(mode="json", exclude=set(lists))
    pairs = (
        json_text(name) + b":" + (_list_text(lists[name]) if name in lists else json_text(rest[name]))
        for name, _ in answer
    )
    return b"{" + b",".join(pairs) + b"}"


def _list_text(values: Sequence[BaseModel]) -> bytes:
    return json_list(value.model_dump(mode="json") for value in values)


def _is_list_of_models(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, BaseModel) for each in value)
