"""Processes that stand still for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stack.process.suspension import freeze, thaw


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Freeze the process and its descendants within the block."""
    pids = freeze(pid)
    try:
        yield
    finally:
        thaw(pids)
