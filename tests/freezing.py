"""Processes that stand still, as on a machine that swaps or a virtual one that is moved."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process and its children stand still in the block.

    The parent goes first and comes back last: meanwhile it neither starts children nor reaps one that ended
    before, so each number stays what it was.
    """
    os.kill(pid, signal.SIGSTOP)
    children = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    for child in children:
        os.kill(child, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in (*children, pid):
            os.kill(each, signal.SIGCONT)
