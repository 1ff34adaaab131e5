"""Rest.li protocol version in every response on Brooklin's paths: that of the request, if supported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.brooklin.protocol import VERSION, check_call, is_brooklins, protocol_of
from api.brooklin.refusals import RoutingRefusal
from mirror.errors import HeadraceError


class SpokenVersions:
    """ASGI middleware that rejects unsupported requests with `refuse` and adds the version to responses.
    Other paths pass without overhead."""

    def __init__(self, app: ASGIApp, refuse: Callable[[Request, HeadraceError], Awaitable[Response]]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not is_brooklins(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[VERSION] = protocol_of(request.headers).spoken
            await send(message)

        try:
            check_call(request.headers)
        except RoutingRefusal as error:
            answer = await self._refuse(request, error)
            await answer(scope, receive, with_version)
        else:
            await self._app(scope, receive, with_version)
