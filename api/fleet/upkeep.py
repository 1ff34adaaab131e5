"""Periodic refresh of the cached shared state, so that it is current even without requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from fastapi import FastAPI
from starlette.datastructures import MutableHeaders

from api.fleet.reads import Reads
from mirror.errors import HeadraceError

_log = structlog.get_logger(__name__)
OFTEN_SECONDS: Final = 5.0
SELDOM_SECONDS: Final = 60.0


@contextmanager
def kept_up(app: FastAPI) -> Iterator[None]:
    """Refresh the application's cache immediately and then periodically, in daemon threads."""
    ended = threading.Event()
    often, seldom = (Reads(app.state.services, app.state.memory, MutableHeaders()) for _ in range(2))
    for read, seconds in ((often.refresh, OFTEN_SECONDS), (seldom.refresh_events, SELDOM_SECONDS)):
        threading.Thread(
            target=_repeat, args=(read, seconds, ended), name="reads-upkeep", daemon=True
        ).start()
    try:
        yield
    finally:
        ended.set()


def _repeat(read: Callable[[], None], seconds: float, ended: threading.Event) -> None:
    while True:
        try:
            read()
        except HeadraceError as error:
            _log.info("cannot refresh the cached state", reason=str(error))
        if ended.wait(seconds):
            return
