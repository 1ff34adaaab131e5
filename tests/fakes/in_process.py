"""A web application asked without a socket, by a real HTTP client."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import FastAPI


class InProcess(httpx.BaseTransport):
    """What the application answers; a bug in it is answered with 500, as a server would."""

    def __init__(self, app: FastAPI) -> None:
        self._inner = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request in an event loop of its own."""

        async def ask() -> httpx.Response:
            response = await self._inner.handle_async_request(request)
            body = await response.aread()
            return httpx.Response(response.status_code, headers=response.headers, content=body)

        return asyncio.run(ask())


def client_of(app: FastAPI) -> httpx.Client:
    """A client of the application; there is nothing to close."""
    return httpx.Client(transport=InProcess(app), base_url="http://test")
