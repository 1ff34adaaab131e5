"""A web application asked without a socket, by a real HTTP client."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from functools import cache

import httpx
from fastapi import FastAPI


class InProcess(httpx.BaseTransport):
    """What the application answers; a bug in it is answered with 500, as a server would."""

    def __init__(self, app: FastAPI) -> None:
        self._inner = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request in the event loop that all applications of the process share."""

        async def ask() -> httpx.Response:
            response = await self._inner.handle_async_request(request)
            body = await response.aread()
            headers = [one for one in response.headers.raw if one[0].lower() != b"content-encoding"]
            return httpx.Response(response.status_code, headers=headers, content=body)

        return asyncio.run_coroutine_threadsafe(ask(), _loop()).result()


def client_of(app: FastAPI) -> httpx.Client:
    """A client of the application; there is nothing to close."""
    return httpx.Client(transport=InProcess(app), base_url="http://test")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """A loop that runs until the process ends, and keeps the threads in which handlers run: making both for
    each request takes longer than most requests."""
    started: Future[asyncio.AbstractEventLoop] = Future()

    async def run() -> None:
        started.set_result(asyncio.get_running_loop())
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True, name="in-process HTTP").start()
    return started.result()
