"""Headers that prevent caching and content sniffing of responses."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class SafeHeaders:
    """Outermost ASGI middleware that adds `SAFE_HEADERS` to each response unless it sets them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, completed)
