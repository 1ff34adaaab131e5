"""Runs coroutines while a condition is true, and limits how many run at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from mirror.client.event_loop import Promise


class RunWhile:
    """Awaitable that runs a coroutine as long as a condition is true.

    The condition is checked at the start and after every `await`. If the condition is false, the coroutine is
    closed: `finally` blocks and context managers run, and the awaited result or error is discarded.
    """

    def __init__(self, holds: Callable[[], bool], steps: Coroutine[Any, Any, None]) -> None:
        self._holds = holds
        self._steps = steps

    def __await__(self) -> Generator[Promise[Any], None, None]:
        try:
            while self._holds():
                try:
                    awaited: Promise[Any] | None = self._steps.send(None)
                except StopIteration:
                    return
                if awaited is not None:
                    yield awaited
        finally:
            self._steps.close()


class RecheckCondition:
    """Awaitable that makes `RunWhile` check its condition again. Use `await RecheckCondition()` after a call
    that may have changed the condition."""

    def __await__(self) -> Generator[None, None, None]:
        yield None


class ConcurrencyLimit:
    """Limits the number of concurrent coroutines; the others wait in order. Wrap the limited code in `async
    with slots:`."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Promise[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
        else:
            granted = Promise[None]()
            self._waiting.append(granted)
            try:
                await granted
            except GeneratorExit:  # closed while waiting, possibly after receiving the slot
                if granted.is_done:
                    self._give_back()
                else:
                    self._waiting.remove(granted)
                raise

    async def __aexit__(self, *_: object) -> None:
        self._give_back()

    def _give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft().resolve(None)
        else:
            self._free += 1
