"""Listener for Brooklin clients, restricted to their interface."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.gate import LISTENER
from api.brooklin.protocol import is_brooklins


class BrooklinSurface:
    """ASGI application that marks requests to Brooklin's paths with this listener and passes them on; other
    paths return 404."""

    def __init__(self, app: ASGIApp, listener: str) -> None:
        self._app = app
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        if is_brooklins(scope["path"]):
            state = {**scope.get("state", {}), LISTENER: self._listener}
            await self._app({**scope, "state": state}, receive, send)
            return
        answer = PlainTextResponse("this listener serves only Brooklin's interface", HTTPStatus.NOT_FOUND)
        await answer(scope, receive, send)
