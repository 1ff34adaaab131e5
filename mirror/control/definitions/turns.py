"""Locks that serialize the creations of an owner in this process, so that few creations must be checked
again."""

from __future__ import annotations

import contextlib
import threading
from contextlib import AbstractContextManager
from weakref import WeakValueDictionary


class OwnerLocks:
    """Locks by owner, which exist while a call uses them. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def of(self, owner: str | None) -> AbstractContextManager[object]:
        """Return the lock of an owner; without an owner, a context manager that never waits."""
        if owner is None:
            return contextlib.nullcontext()
        with self._mutex:
            return self._locks.setdefault(owner, threading.Lock())
