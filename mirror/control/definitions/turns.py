"""Serialises concurrent creations by the same owner, so that few of them must be checked again."""

from __future__ import annotations

import contextlib
import threading
from contextlib import AbstractContextManager
from weakref import WeakValueDictionary


class OwnerLocks:
    """Locks by owner. A lock exists only while a call uses it. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def of(self, owner: str | None) -> AbstractContextManager[object]:
        """Return the lock of an owner.

        If `owner` is None, returns a context manager that never waits.
        """
        if owner is None:
            return contextlib.nullcontext()
        with self._mutex:
            return self._locks.setdefault(owner, threading.Lock())
