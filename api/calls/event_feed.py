"""What is new in the log of events, for everybody who listens at this instance: read once for all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import anyio.to_thread
import structlog
from anyio import CapacityLimiter

from api.calls.shares import Shares
from mirror.control.event_positions import EventPosition, Following, Publications, end_of, following
from mirror.errors import Busy, TooOften, Unreachable, reason_of
from mirror.ports import Watch
from mirror.wording import counted

_log = structlog.get_logger(__name__)
MOST_LISTENERS: Final = 200
BEAT_SECONDS: Final = 15.0
"""Between signs of life to who listens; and between looks that no watch has asked for, whose loss nobody
would notice."""
_AGAIN_SECONDS: Final = 2.0
"""Until the next look after one that failed."""

_PLACE_SECONDS: Final = 15

ReadLog = Callable[[Publications, Watch], Publications]
"""What the log holds now, given what it held; the watch fires when that has changed."""


class EventFeed:
    """Used by the event loop's thread; `close` by any. While nobody listens it reads nothing and keeps
    nothing. Who is slow holds up nobody: each listener has a position, and no queue."""

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
        self._listeners = Shares(most_listeners, most_each)
        self._kept: Publications | None = None
        self._reading: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung = asyncio.Event()
        self._news = asyncio.Event()
        self._is_closed = False

    @contextlib.contextmanager
    def listening(self, who: frozenset[str] = frozenset()) -> Iterator[None]:
        """A place for one listener. `who`: the names whose limits it counts against. Raises Busy where there
        is none, TooOften where one of the names has too many, Unreachable after `close`."""
        if self._is_closed:
            raise Unreachable("this instance stops", advice="listen at another one")
        if full := self._listeners.full_for(who):
            raise TooOften(
                f"{full} has {counted(self._most_each, 'stream')} of events at this instance",
                after_seconds=_PLACE_SECONDS,
                advice="end one of them; the operator decides, in [api.limits] of the settings",
            )
        if self._listeners.is_full:
            raise Busy(f"{self._most} others listen at this instance", advice="listen at another one")
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
        """First the position to begin at (None: behind everything that there is), then what follows, one
        publication at a time, until `close`; None where nothing has happened for a while."""
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
        """Everybody's stream ends. Idempotent, for any thread."""
        self._is_closed = True
        self._from_elsewhere(self._tell)

    async def _keep_up(self) -> None:
        limiter = CapacityLimiter(1)
        while True:
            self._rung.clear()
            pause = self._beat_seconds
            try:
                found = await anyio.to_thread.run_sync(
                    self._read, self._kept or {}, self._ring, limiter=limiter, abandon_on_cancel=True
                )
            except Exception as error:  # noqa: BLE001 - the top of a loop that all who listen hang on
                _log.warning("events are not read", reason=reason_of(error))
                pause = min(_AGAIN_SECONDS, self._beat_seconds)
            else:
                self._kept = found
                self._tell()
            await _is_set(self._rung, pause)

    def _ring(self) -> None:
        """Called by watches."""
        self._from_elsewhere(self._rung.set)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _from_elsewhere(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and everybody's stream with it
                self._loop.call_soon_threadsafe(call)


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
