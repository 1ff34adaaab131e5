"""Feed of new events for the listeners of this instance, which share one reader."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import anyio.to_thread
import structlog
from anyio import CapacityLimiter

from api.calls.shares import CallSlots
from mirror.control.event_positions import EventPosition, Following, Publications, end_of, following
from mirror.errors import Busy, TooOften, Unreachable, reason_of
from mirror.ports import Watch
from mirror.wording import counted

_log = structlog.get_logger(__name__)
MOST_LISTENERS: Final = 200
BEAT_SECONDS: Final = 15.0
"""Interval of heartbeats to listeners, and of polls in addition to watches, because a lost watch would go
unnoticed."""
_AGAIN_SECONDS: Final = 2.0
"""Delay before the next read after a failed one."""

_PLACE_SECONDS: Final = 15

ReadLog = Callable[[Publications, Watch], Publications]
"""Returns the current content of the log, given its previous content; the watch fires when it changes
again."""


class EventFeed:
    """Feed of the event log. Used by the event loop's thread, except `close`, which is thread-safe. Without
    listeners it reads and keeps nothing. A slow listener delays no other: each has a position instead of a
    queue."""

    def __init__(
        self,
        read: ReadLog,
        beat_seconds: float = BEAT_SECONDS,
        most_listeners: int = MOST_LISTENERS,
        most_each: int = MOST_LISTENERS,
    ) -> None:
        self._read = read
        self._beat_seconds = beat_seconds
        self._most = most_listeners
        self._most_each = most_each
        self._listeners = CallSlots(most_listeners, most_each)
        self._kept: Publications | None = None
        self._reading: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung = asyncio.Event()
        self._news = asyncio.Event()
        self._is_closed = False

    @contextlib.contextmanager
    def listening(self, who: frozenset[str] = frozenset()) -> Iterator[None]:
        """Reserve a place for one listener. `who`: names whose limits it counts against. Raises Busy if all
        places are taken, TooOften if one of the names has reached its limit, Unreachable after `close`."""
        if self._is_closed:
            raise Unreachable("this instance is shutting down", advice="connect to another one")
        if full := self._listeners.full_for(who):
            raise TooOften(
                f"{full} has {counted(self._most_each, 'stream')} of events on this instance",
                after_seconds=_PLACE_SECONDS,
                advice="close a stream; an operator can change [api.limits]",
            )
        if self._listeners.is_full:
            raise Busy(f"this instance has {self._most} event streams", advice="connect to another one")
        self._loop = asyncio.get_running_loop()
        if self._reading is None:
            self._reading = self._loop.create_task(self._keep_up())
        try:
            with self._listeners.taken(who):
                yield
        finally:
            if not self._listeners.count:
                self._reading.cancel()
                self._reading, self._kept = None, None

    async def after(self, position: EventPosition | None) -> AsyncIterator[EventPosition | Following | None]:
        """Yield the start position first (None: the end of the log), then new events, one publication at a
        time, until `close`; yield None as a heartbeat when nothing happens."""
        is_told = False
        while not self._is_closed:
            news, kept = self._news, self._kept
            if kept is not None and not is_told:
                position, is_told = position if position is not None else end_of(kept), True
                yield position
            found = following(kept, position) if kept is not None and position is not None else None
            if found is not None:
                position = found.position
                yield found
            elif not await _is_set(news, self._beat_seconds):
                yield None

    def close(self) -> None:
        """End all streams. Idempotent and thread-safe."""
        self._is_closed = True
        self._from_elsewhere(self._notify)

    async def _keep_up(self) -> None:
        limiter = CapacityLimiter(1)
        while True:
            self._rung.clear()
            pause = self._beat_seconds
            try:
                found = await anyio.to_thread.run_sync(
                    self._read, self._kept or {}, self._ring, limiter=limiter, abandon_on_cancel=True
                )
            except Exception as error:  # noqa: BLE001 - top of the loop that serves all listeners
                _log.warning("cannot read events", reason=reason_of(error))
                pause = min(_AGAIN_SECONDS, self._beat_seconds)
            else:
                self._kept = found
                self._notify()
            await _is_set(self._rung, pause)

    def _ring(self) -> None:
        """Called by watches."""
        self._from_elsewhere(self._rung.set)

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _from_elsewhere(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all streams
                self._loop.call_soon_threadsafe(call)


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
