"""What librdkafka logs, without a line for each attempt to reach a broker that is away.

Its clients report errors of connections and no successes, so the end of an outage is an absence of errors.
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
"""Without an error for this time an address counts as reached; clients try again every 2 s at least."""
_BROKER: Final = re.compile(
    r"\[thrd:(?:\w+://)?(?P<address>[^\]/]+:\d+)(?:/\w+)?\]: (?:\S+: )?(?P<reason>.*?)(?: \(after .*\))?$",
    re.S,
)
"""`FAIL [client#producer-1] [thrd:host:9092/1]: host:9092/1: Connect to … failed: … (after 0ms in …)`."""
_log = logging.getLogger(__name__)


def error_of_broker(line: str) -> tuple[str, str] | None:
    """The address of the broker and the reason, of a line about a connection; None for any other line."""
    found = _BROKER.search(line)
    return None if found is None else (found["address"], found["reason"])


class OutageFilter(logging.Filter):
    """Lets the first error of a broker through and one line when there are no more. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._errors = RepeatedErrors[str]()
        self._is_looking = False

    def filter(self, record: logging.LogRecord) -> bool:
        """False for an error that repeats."""
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
            record.msg, record.args = f"{record.getMessage()}; its repetitions are counted, not logged", ()
        return is_new

    def end_silent(self, before: float) -> bool:
        """Report the brokers without an error since `before` (monotonic seconds). Whether others are left."""
        with self._lock:
            ended = list(self._errors.silent(before))
            self._is_looking = bool(self._errors)
            is_looking = self._is_looking
        for address, end in ended:
            _log.warning(
                "%s: %s: no further error; there were %d in %.0f s, the first: %s",
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
    """The logger that every client of this process is made with."""
    logger = logging.getLogger(NAME)
    if not any(isinstance(one, OutageFilter) for one in logger.filters):
        logger.addFilter(OutageFilter())
    return logger
