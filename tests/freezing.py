"""Processes that are frozen within a context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stack.process.suspension import freeze, thaw


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Freeze the process and its descendants within the context."""
    pids = freeze(pid)
    try:
        yield
    finally:
        thaw(pids)
