"""Reads stored incidents for several callers: one read at a time, with a cache of two seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from mirror.errors import Busy, HeadraceError
from mirror.ports import Clock
from monitor.records.record import IncidentRecord

_FRESH_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 20.0


class RecordReader:
    """Reads stored incidents. Thread-safe. Errors are cached too, so that callers do not all wait for an
    unavailable cluster."""

    def __init__(self, read: Callable[[], Sequence[IncidentRecord]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._found: Sequence[IncidentRecord] = ()
        self._error: HeadraceError | None = None

    def __call__(self) -> Sequence[IncidentRecord]:
        """Return the incidents, latest first. Raises Unreachable, Refused, Busy."""
        if not self._lock.acquire(timeout=_PATIENCE_SECONDS):
            raise Busy("another request is still reading the incidents; retry")
        try:
            if self._clock.monotonic() - self._read_at >= _FRESH_SECONDS:
                self._refresh()
            if self._error is not None:
                raise type(self._error)(self._error.message, advice=self._error.advice) from self._error
            return self._found
        finally:
            self._lock.release()

    def _refresh(self) -> None:
        self._error = None
        try:
            found = self._read()
        except HeadraceError as error:
            self._error = error
        else:
            self._found = sorted(found, key=lambda incident: (incident.opened_ms, incident.id), reverse=True)
        self._read_at = self._clock.monotonic()
