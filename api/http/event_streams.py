"""Events as Server-Sent Events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

All listeners of an instance share the one reader of its feed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from typing import Final

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.http.slow_calls import CallSlots
from mirror.control.event_positions import EventPosition, Following, Gap, end_of, following
from mirror.errors import Busy, TooOften, Unreachable
from mirror.loggers import get_logger
from mirror.model.metrics import NO_EVENTS, EventHistory, PlacementEvent
from mirror.model.reasons import reason_of
from mirror.ports import Watch
from mirror.wording import counted

_log = get_logger(__name__)
MOST_LISTENERS: Final = 200
BEAT_SECONDS: Final = 15.0
"""Interval of heartbeats to the listeners of event streams, in seconds. The feed also polls at this interval,
because a lost watch would go unnoticed."""
_AGAIN_SECONDS: Final = 2.0
"""Delay of the next read after a failed read."""

_PLACE_SECONDS: Final = 15

ReadLog = Callable[[EventHistory, Watch], EventHistory]
"""Callback that returns the current content of the event log.

The argument is the previous content. The watch is called when the log changes again.
"""


class EventFeed:
    """Sends the events of the event log to the listeners of event streams.

    Used on the event loop's thread, except `close`, which is thread-safe. Without listeners, the feed reads
    nothing and keeps no events. A slow listener does not delay others, because each listener has a position
    instead of a queue.
    """

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
        self._kept: EventHistory | None = None
        self._reading: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung = asyncio.Event()
        self._news = asyncio.Event()
        self._is_closed = False

    @contextlib.contextmanager
    def listening(self, callers: frozenset[str] = frozenset()) -> Iterator[None]:
        """Count one more listener of the event feed while the block runs.

        `callers`: names against whose limits the listener counts. Raises Busy if the maximum number of
        listeners is reached, TooOften if one of the names has reached its limit, Unreachable after `close`.
        """
        if self._is_closed:
            raise Unreachable("this instance is shutting down", advice="connect to another instance")
        if full := self._listeners.full_for(callers):
            raise TooOften(
                f"{full} already has {counted(self._most_each, 'event stream')} open on this instance",
                after_seconds=_PLACE_SECONDS,
                advice="close a stream; an operator can change [api.limits]",
            )
        if self._listeners.is_full:
            raise Busy(
                f"the limit of {self._most} event streams is reached", advice="connect to another instance"
            )
        self._loop = asyncio.get_running_loop()
        if self._reading is None:
            self._reading = self._loop.create_task(self._keep_up())
        try:
            with self._listeners.taken(callers):
                yield
        finally:
            if not self._listeners.count:
                self._reading.cancel()
                self._reading, self._kept = None, None

    async def after(self, position: EventPosition | None) -> AsyncIterator[EventPosition | Following | None]:
        """Yield the start position, and then new events until `close`. `position` None is the end of the log.
        Events are yielded one publication at a time, and None as a heartbeat."""
        is_reported = False
        while not self._is_closed:
            news, kept = self._news, self._kept
            if kept is not None and not is_reported:
                position, is_reported = position if position is not None else end_of(kept), True
                yield position
            found = following(kept, position) if kept is not None and position is not None else None
            if found is not None:
                position = found.position
                yield found
            elif not await _is_set(news, self._beat_seconds):
                yield None

    def close(self) -> None:
        """End all event streams. Idempotent and thread-safe."""
        self._is_closed = True
        self._from_elsewhere(self._notify)

    async def _keep_up(self) -> None:
        limiter = CapacityLimiter(1)
        while True:
            self._rung.clear()
            pause = self._beat_seconds
            try:
                found = await anyio.to_thread.run_sync(
                    self._read, self._kept or NO_EVENTS, self._ring, limiter=limiter, abandon_on_cancel=True
                )
            except Exception as error:  # noqa: BLE001 - top of the loop that serves all listeners
                _log.warning("cannot read events", reason=reason_of(error))
                pause = min(_AGAIN_SECONDS, self._beat_seconds)
            else:
                self._kept = found
                self._notify()
            await _is_set(self._rung, pause)

    def _ring(self) -> None:
        """Wake the reader of the event log. Called by watches of the coordination store."""
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


MEDIA_TYPE: Final = "text/event-stream"
EXAMPLE: Final = {
    "schema": {"type": "string"},
    "example": 'id: 12-1\ndata: {"kind":"command","datastream":"orders"}\n\n',
}
_BEAT: Final = b": nothing new\n\n"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """Response that streams placement events to one listener.

    `only`: names of datastreams or groups whose events are sent; None means all. `is_admitted`: function that
    returns whether the listener is still authorized. `is_admitted` is called before each message; if the
    listener is no longer authorized, the stream ends. `callers`: names against whose limits the listener
    counts.

    The id of an event is the position after the event; its `data` is the event as JSON. An event of type
    `gap` reports missed events: `reason`, and whether the event log was replaced (`is_reset`). For events
    excluded by `only`, just the ids are sent, so that a resuming listener reports no gap for them.
    """

    def __init__(
        self,
        feed: EventFeed,
        position: EventPosition | None,
        only: frozenset[str] | None,
        is_admitted: Callable[[], bool],
        callers: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(self._lines(feed, position, only), media_type=MEDIA_TYPE, headers=_HEADERS)
        self._feed = feed
        self._is_admitted = is_admitted
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream the events. Raises Busy or TooOften at the start if there are too many listeners."""
        with self._feed.listening(self._callers):
            await super().__call__(scope, receive, send)

    async def _lines(
        self, feed: EventFeed, position: EventPosition | None, only: frozenset[str] | None
    ) -> AsyncIterator[bytes]:
        async for found in feed.after(position):
            if not self._is_admitted():
                return
            if found is None:
                yield _BEAT
            elif isinstance(found, EventPosition):
                yield f"id: {found}\n\n".encode()
            else:
                yield _publication(found, only)


def _publication(found: Following, only: frozenset[str] | None) -> bytes:
    gap: dict[str, object] = {"reason": found.gap, "is_reset": found.gap is Gap.RESET}
    parts = [] if found.gap is None else [_message("event: gap\n", gap)]
    chosen = [(behind, event) for behind, event in found.events if only is None or event.datastream in only]
    parts += [_message(f"id: {behind}\n", event_answer(event)) for behind, event in chosen]
    if not chosen or chosen[-1][0] != found.position:
        parts.append(f"id: {found.position}\n\n")
    return "".join(parts).encode(errors="backslashreplace")


def _message(head: str, data: dict[str, object]) -> str:
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


def event_answer(event: PlacementEvent) -> dict[str, object]:
    """Return an event as JSON-ready values for the stream."""
    return asdict(event)
