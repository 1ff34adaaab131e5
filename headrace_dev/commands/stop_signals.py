"""Signal handling of commands that start servers, so that they stop the processes that they have started."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def cleaning_up(echo: Callable[[str], None]) -> Iterator[None]:
    """Raise SystemExit on SIGINT, SIGTERM and SIGHUP during the `with` block, so that the cleanup code runs.
    The exit code is 128 plus the signal number."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        for other in before:  # further signals must not interrupt the cleanup
            signal.signal(other, signal.SIG_IGN)
        echo("stopping all started processes")
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
