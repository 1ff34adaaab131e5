"""Limits the connections of an HTTP listener, and the duration of each part of a request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, ClassVar, Final

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.access.listener_settings import LimitSettings
from api.http.middleware import SAFE_HEADERS
from api.http.problems import PROBLEM_TYPE, LegibleJson

_TOO_MANY: Final = "too many connections"
_FRAMINGS: Final = frozenset({b"content-length", b"transfer-encoding"})
_CLOSE: Final = (b"connection", b"close")
RESERVE: Final = 50
"""Number of connections above the limits that may still request the paths in `RESERVED`."""
RESERVED: Final = frozenset({"/health", "/v1/health", "/v1/ready", "/metrics", "/v1/instances"})
_GRACE_SECONDS: Final = 2.0
"""Seconds added to the application's deadline for a request body, so that the application can respond
first."""


class BoundedProtocol(H11Protocol):
    """HTTP protocol with limits on connections and on the duration of requests.

    Excess connections get a 503 response. If the head of a request does not arrive in time, the response is
    408. The connection is closed if a request body does not arrive in time, or if the client does not read
    the response.

    At the limit, a new connection closes the connection that has been idle for the longest time. If no
    connection is idle, some more connections are accepted, but only for the paths in `RESERVED`.
    """

    limits: ClassVar[LimitSettings] = LimitSettings()
    by_address: ClassVar[Counter[str]] = Counter()
    unread: ClassVar[dict[BoundedProtocol, None]] = {}
    """Connections with a response that the client has not read, oldest first."""
    silent: ClassVar[dict[BoundedProtocol, None]] = {}
    """Idle connections, which have not sent a complete request head, longest idle first."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_for = ""
        self._counted = ""
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the new connection. Above a limit, close an idle connection or reject the new one."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # usual responses fit into the socket buffer
        self._counted = self.client[0] if self.client else "unknown address"
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
        """Close idle connections until the limit is met. Return by how many the limit is still exceeded."""
        of_all = self.by_address.total() - self.limits.connections
        of_address = self.by_address[self._counted] - self.limits.connections_of_one_address
        if of_address > 0:
            ended = self._end_silent(lambda connection: connection._counted == self._counted)  # noqa: SLF001 - its own
            of_address, of_all = of_address - ended, of_all - ended
        if of_all > 0:
            of_all -= self._end_silent(lambda _: True)
        return max(of_all, of_address)

    def _end_silent(self, is_meant: Callable[[BoundedProtocol], bool]) -> int:
        """Close the connection that has been idle longest. Return the number of closed connections (0
        or 1)."""
        found = next((connection for connection in self.silent if is_meant(connection)), None)
        if found is None:
            return 0
        found._give_way()  # noqa: SLF001 - its own
        return 1

    def _give_way(self) -> None:
        """Close this idle connection, so that another one can be accepted.

        If the connection has already served a request, no response is sent, because the client would mistake
        it for the response to its next request.
        """
        if self.cycle is None:
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, _TOO_MANY)
        else:
            self._wait_for("")
            self._uncount()
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release all resources of the connection."""
        self._wait_for("")
        self._is_read()
        self._uncount()
        super().connection_lost(exc)

    def _uncount(self) -> None:
        """Stop counting this connection towards the limits. Idempotent."""
        self.silent.pop(self, None)
        address, self._counted = self._counted, ""
        if address:
            self.by_address[address] -= 1
            if self.by_address[address] <= 0:
                del self.by_address[address]

    def pause_writing(self) -> None:
        """Stop writing until the client reads the response.

        The connection is aborted if the client takes too long. If the unread bytes of all connections exceed
        the limit, the clients that have not read for longest are disconnected.
        """
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(self.limits.answer_seconds, self.abandon)
        self.unread[self] = None
        while len(self.unread) > 1 and self._unread_bytes() > self.limits.unread_bytes:
            next(iter(self.unread)).abandon()

    def resume_writing(self) -> None:
        """Continue writing after the write buffer has drained."""
        self._is_read()
        super().resume_writing()

    def _unread_bytes(self) -> int:
        return sum(connection.transport.get_write_buffer_size() for connection in self.unread)

    def _is_read(self) -> None:
        self.unread.pop(self, None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def abandon(self) -> None:
        """Abort the connection without sending remaining data.

        `close` would wait until the client has read all data.
        """
        self._is_read()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Process received bytes, unless the connection is closing."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._note_state()
            if self.conn.their_state is h11.IDLE and not self._waits_for:
                self._wait_for("head", self.limits.head_seconds)

    def handle_events(self) -> None:
        """Process the parts of a request that the parser has completed.

        After a request with both Content-Length and Transfer-Encoding, the connection is closed, because a
        proxy may see another end of the request body (RFC 9112, 6.3).
        """
        super().handle_events()
        if self.headers and _CLOSE not in self.headers and {name for name, _ in self.headers} >= _FRAMINGS:
            self.headers.append(_CLOSE)

    def on_response_complete(self) -> None:
        """Update the deadlines after a response. The head of the next request may already have arrived."""
        super().on_response_complete()
        self._note_state()

    def _note_state(self) -> None:
        state = self.conn.their_state
        if state is not h11.IDLE:
            self.silent.pop(self, None)
        elif self._counted:
            self.silent.setdefault(self)
        if state is h11.SEND_BODY:
            self._wait_for("body", self.limits.body_seconds + _GRACE_SECONDS)
        elif state is not h11.IDLE or self._waits_for == "body":
            self._wait_for("")

    def _wait_for(self, awaited: str, seconds: float = 0.0) -> None:
        """Set the deadline by which a part of a request must arrive. Arriving data does not extend it.

        `awaited`: `head` or `body`; empty to cancel the deadline.
        """
        if awaited == self._waits_for:
            return
        self._waits_for = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if awaited:
            self._deadline = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        if self._waits_for == "head":
            detail = f"the request head did not arrive within {self.limits.head_seconds:g} seconds"
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
    """Return an ASGI application that rejects all paths except `RESERVED`, for connections above the
    limit."""

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
