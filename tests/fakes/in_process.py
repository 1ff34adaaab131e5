"""Web application called by a real HTTP client without a socket."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from functools import cache

import httpx
from fastapi import FastAPI


class InProcess(httpx.BaseTransport):
    """Transport into the application; an exception in it becomes a 500 response, as on a server."""

    def __init__(self, app: FastAPI) -> None:
        self._inner = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Run one request in the event loop shared by all applications of the process."""

        async def ask() -> httpx.Response:
            response = await self._inner.handle_async_request(request)
            body = await response.aread()
            headers = [one for one in response.headers.raw if one[0].lower() != b"content-encoding"]
            return httpx.Response(response.status_code, headers=headers, content=body)

        return asyncio.run_coroutine_threadsafe(ask(), _loop()).result()


def client_of(app: FastAPI) -> httpx.Client:
    """Return a client of the application; it needs no closing."""
    return httpx.Client(transport=InProcess(app), base_url="http://test")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return a loop that runs until the process ends and reuses the handler threads.

    Creating both for each request would take longer than most requests.
    """
    started: Future[asyncio.AbstractEventLoop] = Future()

    async def run() -> None:
        started.set_result(asyncio.get_running_loop())
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True, name="in-process HTTP").start()
    return started.result()
