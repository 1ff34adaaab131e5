"""Loggers that import structlog only when they write the first event.

All modules log through them, so one threshold and one set-up apply to every event of a process. structlog
and its imports need 8 MB of memory and 0.2 s of processor time; workers of a copy and short commands rarely
log anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Literal

Level = Literal["debug", "info", "warning", "error", "off"]
Configure = Callable[[], object] | None

_LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error", "off")
_DEBUG, _INFO, _WARNING, _ERROR = range(4)


class _Output:
    threshold = _WARNING
    configure: Configure = None
    lock = threading.Lock()

    @classmethod
    def set_up(cls) -> None:
        """Call `configure` once. Other threads that log meanwhile wait, so no event precedes the set-up."""
        with cls.lock:
            if cls.configure is not None:
                cls.configure()
                cls.configure = None


def set_threshold(level: Level, configure: Configure = None) -> tuple[Level, Configure]:
    """Set the lowest level that this process logs; `off` logs nothing. Return the previous arguments.

    `configure`: called before the first event is written; sets up structlog.
    """
    former = _LEVELS[_Output.threshold], _Output.configure
    _Output.threshold, _Output.configure = _LEVELS.index(level), configure
    return former


class Logger:
    """Logger of one module. Events are short constant phrases; everything variable is a field."""

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **fields: object) -> None:
        """Log a detail for developers."""
        if _Output.threshold <= _DEBUG:
            self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a change that needs no attention."""
        if _Output.threshold <= _INFO:
            self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log a problem that Headrace handles."""
        if _Output.threshold <= _WARNING:
            self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log a failure."""
        if _Output.threshold <= _ERROR:
            self._write("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log a failure with the traceback of the exception that is being handled."""
        if _Output.threshold <= _ERROR:
            self._write("exception", event, fields)

    def _write(self, method: str, event: str, fields: dict[str, object]) -> None:
        import structlog

        if _Output.configure is not None:
            _Output.set_up()
        getattr(structlog.get_logger(self._name), method)(event, **fields)


def get_logger(name: str) -> Logger:
    """Return the logger of the module with this name."""
    return Logger(name)
