"""librdkafka's log, reduced to one line per outage of a broker instead of one per connection attempt.

librdkafka's clients report connection errors but no successes, so an outage ends when errors stop.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import Final

from mirror.repeats import RepeatedErrors

NAME: Final = "librdkafka"
QUIET_SECONDS: Final = 30.0
"""Time without an error after which an address counts as reachable; clients retry at least every 2 s."""
_BROKER: Final = re.compile(
    r"\[thrd:(?:\w+://)?(?P<address>[^\]/]+:\d+)(?:/\w+)?\]: (?:\S+: )?(?P<reason>.*?)(?: \(after .*\))?$",
    re.S,
)
"""Example: `FAIL [client#producer-1] [thrd:host:9092/1]: host:9092/1: Connect to … failed: … (after 0ms in
…)`."""
_log = logging.getLogger(__name__)


def error_of_broker(line: str) -> tuple[str, str] | None:
    """Return broker address and reason from a line about a connection; None for other lines."""
    found = _BROKER.search(line)
    return None if found is None else (found["address"], found["reason"])


class OutageFilter(logging.Filter):
    """Passes the first error of each broker, and logs one line when the errors stop. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._errors = RepeatedErrors[str]()
        self._is_looking = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a repeated error."""
        found = error_of_broker(record.getMessage()) if record.levelno >= logging.WARNING else None
        if found is None:
            return True
        with self._lock:
            is_first = not self._is_looking
            is_new = self._errors.failed(*found, time.monotonic())
            self._is_looking = True
        if is_first:
            self._look_later()
        if is_new:
            record.msg, record.args = f"{record.getMessage()}; repetitions are counted, not logged", ()
        return is_new

    def end_silent(self, before: float) -> bool:
        """Report brokers without errors since `before` (monotonic seconds).

        Return whether connections to other brokers still fail.
        """
        with self._lock:
            ended = list(self._errors.silent(before))
            self._is_looking = bool(self._errors)
            is_looking = self._is_looking
        for address, end in ended:
            _log.warning(
                "%s: %s: no further errors; %d in %.0f s, the first: %s",
                NAME,
                address,
                end.count,
                end.seconds,
                end.reason,
            )
        return is_looking

    def _look_later(self) -> None:
        timer = threading.Timer(QUIET_SECONDS / 2, self._look)
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        if self.end_silent(time.monotonic() - QUIET_SECONDS):
            self._look_later()


def client_logger() -> logging.Logger:
    """Return the logger for all clients of this process."""
    logger = logging.getLogger(NAME)
    if not any(isinstance(filter_, OutageFilter) for filter_ in logger.filters):
        logger.addFilter(OutageFilter())
    return logger
