"""Bounds of the connections of a listener: how many there are, and how long the parts of a call may take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, ClassVar, Final

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.access.settings import LimitSettings
from api.calls.answer_headers import SAFE_HEADERS
from api.errors import LegibleJson
from api.schemas.problems import PROBLEM_TYPE

_TOO_MANY: Final = "there are too many connections"
_FRAMINGS: Final = frozenset({b"content-length", b"transfer-encoding"})
_CLOSE: Final = (b"connection", b"close")
RESERVE: Final = 50
"""Connections beyond the limits, for `RESERVED` alone."""
RESERVED: Final = frozenset({"/health", "/v1/health", "/v1/ready", "/metrics", "/v1/instances"})
_GRACE_SECONDS: Final = 2.0
"""Longer than the application waits for a body, which it refuses in its own words."""


class BoundedProtocol(H11Protocol):
    """Answers 503 where there are too many connections, and 408 where a head does not come; closes where a
    body does not, also that of a call which has been answered, and where an answer is not read. Where there
    are too many, the one that has been silent for longest gives way to a new one; where none is silent, calls
    of `RESERVED` are answered over a reserve of connections."""

    limits: ClassVar[LimitSettings] = LimitSettings()
    by_address: ClassVar[Counter[str]] = Counter()
    unread: ClassVar[dict[BoundedProtocol, None]] = {}
    """Those whose caller does not read what is sent, the one that waits longest first."""
    silent: ClassVar[dict[BoundedProtocol, None]] = {}
    """Connections without a complete request head, the one that has waited longest first."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_for = ""
        self._counted = ""
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection is there; nothing has come of it."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # the system's own buffer takes what is usual
        self._counted = self.client[0] if self.client else "nobody known"
        self.by_address[self._counted] += 1
        excess = self._make_room()
        if excess > RESERVE:
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, _TOO_MANY)
            return
        if excess > 0:
            self.app = _only_reserved(self.app)
        self.silent[self] = None
        self._wait_for("head", self.limits.head_seconds)

    def _make_room(self) -> int:
        """End a silent connection where there are too many, and return how many there are too many then."""
        of_all = self.by_address.total() - self.limits.connections
        of_address = self.by_address[self._counted] - self.limits.connections_of_one_address
        if of_address > 0:
            ended = self._end_silent(lambda one: one._counted == self._counted)  # noqa: SLF001 - its own
            of_address, of_all = of_address - ended, of_all - ended
        if of_all > 0:
            of_all -= self._end_silent(lambda _: True)
        return max(of_all, of_address)

    def _end_silent(self, is_meant: Callable[[BoundedProtocol], bool]) -> int:
        """End the connection that has been silent for longest; returns how many have ended."""
        found = next((one for one in self.silent if is_meant(one)), None)
        if found is None:
            return 0
        found._give_way()  # noqa: SLF001 - its own
        return 1

    def _give_way(self) -> None:
        """End, without an answer after a former one: a caller would take it for that to its next call."""
        if self.cycle is None:
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, _TOO_MANY)
        else:
            self._wait_for("")
            self._uncount()
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._wait_for("")
        self._is_read()
        self._uncount()
        super().connection_lost(exc)

    def _uncount(self) -> None:
        """Give the place to another connection. Idempotent."""
        self.silent.pop(self, None)
        address, self._counted = self._counted, ""
        if address:
            self.by_address[address] -= 1
            if self.by_address[address] <= 0:
                del self.by_address[address]

    def pause_writing(self) -> None:
        """Something of an answer waits for the caller to read what is before it. Until that is read no more
        is written; where that takes too long, or too much waits of all connections, the connection ends."""
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(self.limits.answer_seconds, self.abandon)
        self.unread[self] = None
        while len(self.unread) > 1 and self._unread_bytes() > self.limits.unread_bytes:
            next(iter(self.unread)).abandon()

    def resume_writing(self) -> None:
        """All of it is with the system, or gone."""
        self._is_read()
        super().resume_writing()

    def _unread_bytes(self) -> int:
        return sum(one.transport.get_write_buffer_size() for one in self.unread)

    def _is_read(self) -> None:
        self.unread.pop(self, None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def abandon(self) -> None:
        """End the connection. What is written is dropped: `close` would wait for the caller."""
        self._is_read()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes, of which nothing is looked at once the connection ends."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._look()
            if self.conn.their_state is h11.IDLE and not self._waits_for:
                self._wait_for("head", self.limits.head_seconds)

    def handle_events(self) -> None:
        """What has come is looked at. A call that says the end of its body in two ways is the last one of its
        connection, as what is in front of this listener may see another end (RFC 9112, 6.3)."""
        super().handle_events()
        if self.headers and _CLOSE not in self.headers and {name for name, _ in self.headers} >= _FRAMINGS:
            self.headers.append(_CLOSE)

    def on_response_complete(self) -> None:
        """A call is answered; the head of the next may be here already."""
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        state = self.conn.their_state
        if state is not h11.IDLE:
            self.silent.pop(self, None)
        elif self._counted:
            self.silent.setdefault(self)
        if state is h11.SEND_BODY:
            self._wait_for("body", self.limits.body_seconds + _GRACE_SECONDS)
        elif state is not h11.IDLE or self._waits_for == "body":
            self._wait_for("")

    def _wait_for(self, what: str, seconds: float = 0.0) -> None:
        """One deadline for all of it, however often a part comes; nothing: no more."""
        if what == self._waits_for:
            return
        self._waits_for = what
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if what:
            self._deadline = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        if self._waits_for == "head":
            detail = f"the head of the call was not here within {self.limits.head_seconds:g} seconds"
            self._end(HTTPStatus.REQUEST_TIMEOUT, detail)
        else:
            self.transport.close()

    def _end(self, status: HTTPStatus, detail: str) -> None:
        self._wait_for("")
        self._uncount()
        document = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
        body = bytes(LegibleJson(document).body)
        safe = "".join(f"{name}: {value}\r\n" for name, value in SAFE_HEADERS.items())
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {PROBLEM_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nRetry-After: 5\r\n{safe}Connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def _only_reserved(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Return an application for connections of the reserve: it refuses other calls than `RESERVED`."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in RESERVED:
            await app(scope, receive, send)
            return
        status = HTTPStatus.SERVICE_UNAVAILABLE
        document = {
            "type": "about:blank",
            "title": status.phrase,
            "status": status.value,
            "detail": _TOO_MANY,
        }
        headers = {"Retry-After": "5", "Connection": "close"}
        await LegibleJson(document, status, headers, PROBLEM_TYPE)(scope, receive, send)

    return answered
