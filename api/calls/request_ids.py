"""One name for a call, in its answer and in every line that is logged for it."""

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
"""What may be repeated in logs and headers as it is."""


class RequestIds:
    """ASGI middleware around everything else: each answer has `X-Request-ID`, the caller's where that is a
    short token, else a new one. What is logged of the call has it too, and what was asked.

    The log's context is that of the task, which serves this call only: it is left as it is in the end, so
    that what the server itself logs of an error has the name, too.
    """

    def __init__(self, app: ASGIApp, new: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
        self._app = app
        self._new = new

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        name = given if _SANE.fullmatch(given) else self._new()
        scope.setdefault("state", {})["request_id"] = name
        asked = f"{scope['method']} {shown(scope['path'])}"
        structlog.contextvars.bind_contextvars(request_id=name, asked=asked)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = name
            await send(message)

        await self._app(scope, receive, named)


def request_id_of(request: Request) -> str:
    """The name of the call."""
    found: str = request.state.request_id
    return found
