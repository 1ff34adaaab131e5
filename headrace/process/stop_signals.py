"""Handles SIGTERM and SIGINT. Parent processes stop their workers gracefully; workers ignore the signals.

A terminal sends SIGINT to the whole process group, and systemd sends SIGTERM to the whole service, so workers
receive both signals, too. A worker must ignore them from its start. The process would otherwise end without
draining.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_STOP_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})


def on_stop_signals(stop: Callable[[], object]) -> None:
    """Call `stop` when the process receives SIGTERM or SIGINT."""
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda *_: stop())


@contextmanager
def held_back() -> Iterator[None]:
    """Deliver SIGTERM and SIGINT to this thread only after the `with` block.

    Processes that are started in the block inherit the signal mask. Signals that arrive in the meantime are
    delivered afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """Ignore SIGTERM and SIGINT. Workers call this function first. A worker stops when its parent sends a
    message or closes the pipe."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
