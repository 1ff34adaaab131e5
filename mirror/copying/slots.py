"""A limit on how many coroutines do something at once; the others wait in order."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mirror.copying.loop import Promise


class Slots:
    """`async with slots.one():` around what takes much."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Promise[None]] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Waits for a free slot and gives it back in the end, whatever happens."""
        if self._free:
            self._free -= 1
        else:
            turn = Promise[None]()
            self._waiting.append(turn)
            await turn
        try:
            yield
        finally:
            if self._waiting:
                self._waiting.popleft().resolve(None)
            else:
                self._free += 1
