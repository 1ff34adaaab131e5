"""The web application over a service in memory, behind a real socket for a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from api.app import end_streams
from stack.ports import free_ports
from tests.patience import wait_until


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve the application within the context; yield its URL `http://127.0.0.1:port`."""
    port = free_ports(1)[0]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, name="served application", daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, "the application is served")
        yield f"http://127.0.0.1:{port}"
    finally:
        end_streams(app)
        server.should_exit = True
        thread.join()
