"""Calls that query other servers: few at a time, in separate threads, so that they delay no other request."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from api.calls.cluster_turns import ANSWER_SECONDS, ClusterInUse
from api.calls.shares import CallSlots
from mirror.errors import Busy, TooOften

_T = TypeVar("_T")
MOST_AT_ONCE: Final = 8
_AGAIN_SECONDS: Final = 5


class SlowCalls:
    """Executes slow calls. Used by the event loop's thread. `most_each`: limit per principal and per owner.
    `wait_seconds`: time to wait for a cluster in use by other calls."""

    def __init__(self, most_each: int = MOST_AT_ONCE, wait_seconds: float = ANSWER_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._most_each = most_each
        self._shares = CallSlots(MOST_AT_ONCE, most_each)
        self._callers: frozenset[str] = frozenset()

    def of(self, who: frozenset[str]) -> SlowCalls:
        """Return the same limits for one caller. `who`: names whose limits its calls count against."""
        mine = copy.copy(self)
        mine._callers = who  # noqa: SLF001 - its own copy
        return mine

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run `call` in a thread and return its result. Raises the errors of `call`, Busy if `MOST_AT_ONCE`
        calls are in progress, TooOften if this caller has too many. A call that needs a cluster in use by
        another call is repeated when that call ends; until then it occupies no slot and no thread."""
        until = anyio.current_time() + self._wait_seconds
        while True:
            try:
                return await self._run_once(call)
            except ClusterInUse as other:
                await _end_of(other, until - anyio.current_time())

    async def _run_once(self, call: Callable[[], _T]) -> _T:
        full = self._shares.full_for(self._callers)
        if full:
            raise TooOften(
                f"{full} already has {self._most_each} calls in progress that query other servers",
                after_seconds=_AGAIN_SECONDS,
                advice="send them one at a time",
            )
        if self._shares.is_full:
            raise Busy(
                f"{MOST_AT_ONCE} calls that query other servers are in progress",
                advice="retry in a few seconds",
            )
        with self._shares.taken(self._callers):
            return await anyio.to_thread.run_sync(call, limiter=CapacityLimiter(1))


async def _end_of(other: ClusterInUse, seconds: float) -> None:
    """Wait for the other call. Raises Busy after `seconds`."""
    if not (await asyncio.wait([asyncio.wrap_future(other.ended)], timeout=max(seconds, 0.0)))[0]:
        raise Busy(f"cluster {other.cluster} is in use by other calls", advice="retry in a few seconds")
