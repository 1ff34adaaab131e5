"""Calls that ask other servers: few at a time, in threads of their own, so that nothing else waits."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from mirror.errors import Busy, TooOften

_T = TypeVar("_T")
MOST_AT_ONCE: Final = 8
_AGAIN_SECONDS: Final = 5


class SlowCalls:
    """Used by the event loop's thread. `most_each`: of one caller who is known."""

    def __init__(self, most_each: int = MOST_AT_ONCE) -> None:
        self._most_each = most_each
        self._running = Counter[str]()
        self._who = ""

    def of(self, who: str) -> SlowCalls:
        """The same, for one caller; empty: nobody is asked who they are."""
        mine = copy.copy(self)
        mine._who = who  # noqa: SLF001 - its own copy
        return mine

    async def run(self, call: Callable[[], _T]) -> _T:
        """What the call returns or raises. Raises Busy when `MOST_AT_ONCE` are under way, TooOften when too
        many of them are this caller's."""
        who = self._who
        if who and self._running[who] >= self._most_each:
            raise TooOften(
                f"{self._most_each} calls of {who} that ask other servers are under way",
                after_seconds=_AGAIN_SECONDS,
                advice="make them one after the other",
            )
        if self._running.total() >= MOST_AT_ONCE:
            raise Busy(
                f"{MOST_AT_ONCE} calls that ask other servers are under way",
                advice="ask again in a few seconds",
            )
        self._running[who] += 1
        try:
            return await anyio.to_thread.run_sync(call, limiter=CapacityLimiter(1))
        finally:
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]
