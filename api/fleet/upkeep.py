"""Reads everything now and then, so that it is remembered although nobody has asked for it."""

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
    """What the application reads: at once and again and again, in threads that nobody waits for."""
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
            _log.info("the shared state is not remembered as it is now", reason=str(error))
        if ended.wait(seconds):
            return
