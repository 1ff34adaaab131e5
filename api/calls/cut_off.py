"""Requests interrupted by a shutdown of the instance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror.errors import HeadraceError, Unreachable


class CutOffCalls:
    """ASGI middleware that responds with `refuse` to requests that the server cancels during shutdown.

    Otherwise uvicorn responds with a plain 500, which looks like a bug in Headrace.
    """

    def __init__(self, app: ASGIApp, refuse: Callable[[Request, HeadraceError], Awaitable[Response]]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
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
