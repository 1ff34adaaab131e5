"""Validation of request bodies before any handler reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.table import FLEET_PATH
from api.errors import BodyTooLarge, BodyTooLate
from mirror.errors import HeadraceError, InvalidRequest
from mirror.model.documents import LARGEST, check_shape, parsed

_DEEPEST: Final = 20
_MOST_KEYS: Final = 10_000
_AT_ONCE: Final = 32_768
"""Maximum size in bytes of a body checked in the event loop. Larger ones can take 100 ms: they are checked in
a thread, one at a time, so that other requests are not delayed."""

Refuse = Callable[[Request, HeadraceError], Awaitable[Response]]


class CheckedBodies:
    """ASGI middleware that accepts only JSON bodies of bounded size and depth, with text and numbers that can
    be stored, received within a time limit.

    `refuse` creates the response to any other body. The body of a request between instances is read by its
    endpoint, which verifies the signature first.
    """

    def __init__(self, app: ASGIApp, refuse: Refuse, seconds: float) -> None:
        self._app = app
        self._refuse = refuse
        self._seconds = seconds
        self._one_by_one = CapacityLimiter(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
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
    """Return a body of at most `most` bytes, or None if the client disconnected. Raises BodyTooLate,
    BodyTooLarge."""
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
