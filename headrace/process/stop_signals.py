"""Who hears SIGTERM and SIGINT: a parent that stops its workers in order, never the workers themselves; and
commands that clean up what they have started.

A terminal sends SIGINT to the whole process group, systemd sends SIGTERM to the whole service. A worker that
heard them would end without draining, so it is deaf to both from the moment it is started.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

_STOP_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})


@contextmanager
def held_back() -> Iterator[None]:
    """Processes that this thread starts in the block begin with stop signals blocked; what arrives for this
    one meanwhile is delivered after the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """For the first line of a worker. A stop is then what its parent says through the pipe, or its end."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)


@contextmanager
def cleaning_up(say: Callable[[str], None]) -> Iterator[None]:
    """In the block SIGTERM and SIGHUP clean up as ctrl-C does; the exit code names the signal."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        for other in before:  # once is enough: what follows is the cleaning up
            signal.signal(other, signal.SIG_IGN)
        say("stopping what was started")
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
