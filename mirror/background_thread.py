"""Threads of an instance that run until they are stopped."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class BackgroundThread(ABC):
    """A daemon thread. A subclass overrides `_run`, which must end soon after `_stopping` is set."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Stop the thread and wait up to `deadline_seconds`. Has no effect on a thread that was never
        started."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(deadline_seconds)

    @abstractmethod
    def _run(self) -> None:
        """Work until the thread is stopped."""
