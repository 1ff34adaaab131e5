"""Calls that ask other servers: few at a time, in threads of their own, so that nothing else waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from mirror.errors import Busy

_T = TypeVar("_T")
MOST_AT_ONCE: Final = 8


class SlowCalls:
    """Used by the event loop's thread."""

    def __init__(self) -> None:
        self._running = 0

    async def run(self, call: Callable[[], _T]) -> _T:
        """What the call returns or raises. Raises Busy when `MOST_AT_ONCE` are under way."""
        if self._running >= MOST_AT_ONCE:
            raise Busy(
                f"{MOST_AT_ONCE} calls that ask other servers are under way",
                advice="ask again in a few seconds",
            )
        self._running += 1
        try:
            return await anyio.to_thread.run_sync(call, limiter=CapacityLimiter(1))
        finally:
            self._running -= 1
