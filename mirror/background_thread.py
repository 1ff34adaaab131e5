"""Threads of an instance that run until the instance stops them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class BackgroundThread(ABC):
    """Base class of threads that run until they are stopped.

    A subclass overrides `_run`, which must end soon after `_stopping` is set. A subclass overrides `wake` if
    the thread also waits for anything else. `is_daemon`: whether the process can end without waiting for the
    thread.
    """

    def __init__(self, name: str, *, is_daemon: bool = True) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=is_daemon)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Stop the thread, and wait up to `deadline_seconds`. Idempotent."""
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(deadline_seconds)

    def is_running(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def wake(self) -> None:  # noqa: B027 - most threads wait only for `_stopping`
        """Interrupt waits of the thread other than for the stop, so that it ends at once."""

    @abstractmethod
    def _run(self) -> None:
        """Do the work of the thread until it is stopped."""
