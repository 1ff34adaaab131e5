"""One creation of an owner at a time in this process, so that few of them have to be checked again."""

from __future__ import annotations

import contextlib
import threading
from contextlib import AbstractContextManager
from weakref import WeakValueDictionary


class Turns:
    """Locks by owner, kept while a call has one. For any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def of(self, owner: str | None) -> AbstractContextManager[object]:
        """Return the lock of an owner. None: the call waits for no other."""
        if owner is None:
            return contextlib.nullcontext()
        with self._mutex:
            return self._locks.setdefault(owner, threading.Lock())
