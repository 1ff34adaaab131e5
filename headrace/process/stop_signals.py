"""Handling of SIGTERM and SIGINT in parents, which stop their workers in order, in workers, which ignore the
signals, and in commands, which clean up the processes that they have started.

A terminal sends SIGINT to the whole process group, systemd sends SIGTERM to the whole service. A worker that
handled them would end without draining, so it ignores both from its start.
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
    """Block stop signals in this thread, so that processes started in the block inherit the mask. Signals
    that arrive within the block are delivered after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """Ignore stop signals, as the first step of a worker. A worker stops on a message from its parent through
    the pipe, or when the pipe is closed."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)


@contextmanager
def cleaning_up(echo: Callable[[str], None]) -> Iterator[None]:
    """Raise SystemExit in the block on SIGINT, SIGTERM and SIGHUP, so that cleanup runs. The exit code is 128
    plus the signal number."""

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
