"""Samples written round by round while a test runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.patience import PATIENCE_SECONDS


class RoundWriter:
    """Calls a function with the number of each round, once a second until stopped."""

    def __init__(self, write_round: Callable[[int], None]) -> None:
        self._write_round = write_round
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples")
        self.rounds = 0
        """Rounds written so far."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write within the context."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(PATIENCE_SECONDS)
            assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self._write_round(self.rounds)
            self.rounds += 1
