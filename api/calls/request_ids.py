"""Id of each request, sent in its response and logged with every line about it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror.model.bounds import shown

REQUEST_ID: Final = "X-Request-ID"
_SANE: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
"""Ids that can be repeated in logs and headers unchanged."""


class RequestIds:
    """Outermost ASGI middleware that adds `X-Request-ID` to each response: the caller's if it is a short
    token, else a new one. Log lines about the request carry it too, with method and path.

    The log context belongs to the task, which serves only this request. It is not reset at the end, so that
    errors logged by the server itself carry the id as well.
    """

    def __init__(self, app: ASGIApp, new: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
        self._app = app
        self._new = new

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
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
