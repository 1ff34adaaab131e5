"""What a listener of its own for Brooklin's clients serves: their interface, and nothing else."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.gate import LISTENER
from api.brooklin.protocol import is_brooklins


class BrooklinSurface:
    """ASGI: calls of Brooklin's paths reach the application as calls of this listener; any other path is not
    there."""

    def __init__(self, app: ASGIApp, listener: str) -> None:
        self._app = app
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        if is_brooklins(scope["path"]):
            state = {**scope.get("state", {}), LISTENER: self._listener}
            await self._app({**scope, "state": state}, receive, send)
            return
        answer = PlainTextResponse("only Brooklin's interface is here", HTTPStatus.NOT_FOUND)
        await answer(scope, receive, send)
