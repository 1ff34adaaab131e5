"""Calls that ask other servers: few at a time, in threads of their own, so that nothing else waits."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from api.calls.cluster_turns import ANSWER_SECONDS, ClusterInUse
from api.calls.shares import Shares
from mirror.errors import Busy, TooOften

_T = TypeVar("_T")
MOST_AT_ONCE: Final = 8
_AGAIN_SECONDS: Final = 5


class SlowCalls:
    """Used by the event loop's thread. `most_each`: of one principal, or of all principals of one owner.
    `wait_seconds`: for a cluster that other calls ask."""

    def __init__(self, most_each: int = MOST_AT_ONCE, wait_seconds: float = ANSWER_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._most_each = most_each
        self._shares = Shares(MOST_AT_ONCE, most_each)
        self._who: frozenset[str] = frozenset()

    def of(self, who: frozenset[str]) -> SlowCalls:
        """The same, for one caller: the names whose limits its calls count against."""
        mine = copy.copy(self)
        mine._who = who  # noqa: SLF001 - its own copy
        return mine

    async def run(self, call: Callable[[], _T]) -> _T:
        """What the call returns or raises. Raises Busy when `MOST_AT_ONCE` are under way, TooOften when too
        many of them are this caller's. A call that needs a cluster which another one asks begins again when
        that one is over; it has no place and no thread until then."""
        until = anyio.current_time() + self._wait_seconds
        while True:
            try:
                return await self._run_once(call)
            except ClusterInUse as other:
                await _end_of(other, until - anyio.current_time())

    async def _run_once(self, call: Callable[[], _T]) -> _T:
        full = self._shares.full_for(self._who)
        if full:
            raise TooOften(
                f"{self._most_each} calls of {full} that ask other servers are under way",
                after_seconds=_AGAIN_SECONDS,
                advice="make them one after the other",
            )
        if self._shares.is_full:
            raise Busy(
                f"{MOST_AT_ONCE} calls that ask other servers are under way",
                advice="ask again in a few seconds",
            )
        with self._shares.taken(self._who):
            return await anyio.to_thread.run_sync(call, limiter=CapacityLimiter(1))


async def _end_of(other: ClusterInUse, seconds: float) -> None:
    """Raises Busy after that time."""
    if not (await asyncio.wait([asyncio.wrap_future(other.ended)], timeout=max(seconds, 0.0)))[0]:
        raise Busy(f"other calls are asking cluster {other.cluster}", advice="ask again in a few seconds")
