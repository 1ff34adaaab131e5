"""Events as Server-Sent Events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.calls.event_feed import EventFeed
from api.schemas.plans import event_answer
from mirror.control.event_positions import EventPosition, Following

MEDIA_TYPE: Final = "text/event-stream"
EXAMPLE: Final = {
    "schema": {"type": "string"},
    "example": 'id: 12-1\ndata: {"kind":"command","datastream":"orders"}\n\n',
}
_BEAT: Final = b": nothing new\n\n"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_GAP: Final = "the events in between are no longer stored"


class EventStream(StreamingResponse):
    """Response to one listener. `only`: names of datastreams or groups whose events are sent; None: all.
    `is_admitted`: returns whether the listener is still authorized; checked before each message, and the
    stream ends if it is not. `callers`: names whose limits it counts against.

    The id of an event is the position after it, its `data` the event as JSON. An event of type `gap` reports
    missed events. Ids of filtered events are sent without an event, so that a resuming listener does not
    receive a gap for them.
    """

    def __init__(
        self,
        feed: EventFeed,
        position: EventPosition | None,
        only: frozenset[str] | None,
        is_admitted: Callable[[], bool],
        who: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(self._lines(feed, position, only), media_type=MEDIA_TYPE, headers=_HEADERS)
        self._feed = feed
        self._is_admitted = is_admitted
        self._callers = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raise Busy or TooOften, before anything is sent, if there are too many listeners."""
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
    parts = [_message("event: gap\n", {"reason": _GAP})] if found.missed else []
    chosen = [(behind, event) for behind, event in found.events if only is None or event.datastream in only]
    parts += [_message(f"id: {behind}\n", event_answer(event)) for behind, event in chosen]
    if not chosen or chosen[-1][0] != found.position:
        parts.append(f"id: {found.position}\n\n")
    return "".join(parts).encode(errors="backslashreplace")


def _message(head: str, data: dict[str, object]) -> str:
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"
