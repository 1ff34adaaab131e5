"""Bodies of requests, looked at before anything else reads them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror.errors import HeadraceError, InvalidRequest
from mirror.model.documents import LARGEST, check_depth, parsed

_DEEPEST: Final = 20

Refuse = Callable[[Request, HeadraceError], Awaitable[Response]]


class CheckedBodies:
    """ASGI middleware: a body is JSON of bounded size and depth whose text and numbers can be stored.

    `refuse` makes the answer to any other.
    """

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, has_more = b"", True
        while has_more and len(body) <= LARGEST:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        try:
            _check(body)
        except InvalidRequest as error:
            answer = await self._refuse(Request(scope), error)
            await answer(scope, receive, send)
        else:
            await self._app(scope, _again(body, receive), send)


def _check(body: bytes) -> None:
    if len(body) > LARGEST:
        raise InvalidRequest("the body is too large", advice=f"{LARGEST} bytes are possible")
    if body:
        check_depth(parsed(body), _DEEPEST)


def _again(body: bytes, receive: Receive) -> Receive:
    is_told = False

    async def first() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return first
