"""Who hears SIGTERM and SIGINT: a parent that stops its workers in order, never the workers themselves.

A terminal sends SIGINT to the whole process group, systemd sends SIGTERM to the whole service. A worker that
heard them would end without draining, so it is deaf to both from the moment it is started.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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
