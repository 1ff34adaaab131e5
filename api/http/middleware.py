"""ASGI middleware for all requests: request ids, body checks, security headers, and requests cancelled by a
shutdown."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.table import FLEET_PATH
from api.http.problems import BodyTooLarge, BodyTooLate
from mirror.errors import HeadraceError, InvalidRequest, Unreachable
from mirror.model.bounds import shown
from mirror.model.documents import LARGEST, check_shape, parsed

_STREAM: Final = b"text/event-stream"
REQUEST_ID: Final = "X-Request-ID"
_SANE: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
"""Matches ids that can be repeated unchanged in logs and headers."""


class RequestIds:
    """Outermost ASGI middleware, which adds `X-Request-ID` to each response.

    The id is that of the caller if it is a short token, otherwise a new id. Log lines about the request
    contain the id, method and path. The log context belongs to the asyncio task of the request, and remains
    at the end, so that errors logged by the server contain the id.
    """

    def __init__(self, app: ASGIApp, new: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
        self._app = app
        self._new = new

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, and add its id to the response and to the log context."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        name = given if _SANE.fullmatch(given) else self._new()
        scope.setdefault("state", {})["request_id"] = name
        request_line = f"{scope['method']} {shown(scope['path'])}"
        structlog.contextvars.bind_contextvars(request_id=name, asked=request_line)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = name
            await send(message)

        await self._app(scope, receive, named)


def request_id_of(request: Request) -> str:
    """Return the id of a request."""
    found: str = request.state.request_id
    return found


def caller_of(request: Request, given: str) -> str:
    """Return the requester of a change: the name in the request, else the client's address and the request
    id.

    The request id identifies the request in the log.
    """
    if given:
        return given
    origin = request.client.host if request.client is not None else "an unknown address"
    return f"client at {origin} (request {request_id_of(request)})"


SAFE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class SafeHeaders:
    """Outermost ASGI middleware, which adds the headers of `SAFE_HEADERS` missing in a response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, and add missing security headers to its response."""

        async def completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, completed)


class HeadCalls:
    """ASGI middleware that responds to HEAD like to GET, but without the body (RFC 9110).

    `is_excluded`: returns whether a path has no HEAD. For an event stream, which would never end, the
    response is that to another GET.
    """

    def __init__(self, app: ASGIApp, is_excluded: Callable[[str], bool]) -> None:
        self._app = app
        self._is_excluded = is_excluded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; drop the body of the response to a HEAD request."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or self._is_excluded(scope["path"]):
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        headers = [(name, text) for name, text in scope["headers"] if _STREAM not in text]
        await self._app({**scope, "method": "GET", "headers": headers}, receive, without_body)


class CutOffCalls:
    """ASGI middleware that responds with `refuse` to requests cancelled during shutdown.

    Without this middleware, uvicorn responds with a plain 500, which looks like a bug in Headrace.
    """

    def __init__(self, app: ASGIApp, refuse: Callable[[Request, HeadraceError], Awaitable[Response]]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, and respond to it if a shutdown cancels it."""
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if has_begun or scope["type"] != "http":
                raise
            error = Unreachable(
                "this instance stopped before the request was complete",
                advice="check on another instance whether it was carried out, or retry",
            )
            answer = await self._refuse(Request(scope), error)
            await answer(scope, receive, send)


_DEEPEST: Final = 20
_MOST_KEYS: Final = 10_000
_AT_ONCE: Final = 32_768
"""Maximum size in bytes of a body that is checked in the event loop.

The check of a larger body can take 100 ms. The check of a larger body therefore runs in a thread, one body at
a time, so that other requests are not delayed.
"""

Refuse = Callable[[Request, HeadraceError], Awaitable[Response]]


class CheckedBodies:
    """ASGI middleware that accepts only valid JSON bodies.

    A body must arrive in time, have a bounded size and depth, and contain only storable text and numbers.
    `refuse` creates the response to any other body. The body of a request between instances is read by its
    endpoint, which verifies the signature first.
    """

    def __init__(self, app: ASGIApp, refuse: Refuse, seconds: float) -> None:
        self._app = app
        self._refuse = refuse
        self._seconds = seconds
        self._one_by_one = CapacityLimiter(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the body of one request, and pass the request on or reject it."""
        if scope["type"] != "http" or scope["path"].startswith(FLEET_PATH):
            await self._app(scope, receive, send)
            return
        try:
            body = await received(receive, self._seconds, LARGEST, "the request body")
            if body is None:
                return
            if len(body) <= _AT_ONCE:
                _check(body)
            else:
                await to_thread.run_sync(_check, body, limiter=self._one_by_one)
        except InvalidRequest as error:
            answer = await self._refuse(Request(scope), error)
            await answer(scope, receive, send)
        else:
            await self._app(scope, _again(body, receive), send)


async def received(receive: Receive, seconds: float, most: int, label: str) -> bytes | None:
    """Read the body of a request, of at most `most` bytes; None if the client disconnected.

    Raises BodyTooLate, BodyTooLarge.
    """
    parts, size, has_more = list[bytes](), 0, True
    try:
        async with asyncio.timeout(seconds):
            while has_more and size <= most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                has_more = message.get("more_body", False)
    except TimeoutError as error:
        raise BodyTooLate(f"{label} did not arrive within {seconds:g} seconds") from error
    if size > most:
        raise BodyTooLarge(f"{label} is too large", advice=f"the limit is {most} bytes")
    return b"".join(parts)


def _check(body: bytes) -> None:
    if body:
        check_shape(parsed(body), _DEEPEST, _MOST_KEYS)


def _again(body: bytes, receive: Receive) -> Receive:
    is_told = False

    async def first() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return first
