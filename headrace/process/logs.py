"""Sets up logging to stderr, as text or as JSON.

A thread that processes a plan adds the field `plan` (the epoch) to every line, and the field `datastream` to
lines about one datastream. You can therefore find all lines about a change in the logs of the leader, the
instances and the workers. Lines about a REST request contain the `request_id` of the response. Values of
secret settings are never logged.

Records that libraries log with `logging` get the same format in a service. structlog is imported by the first
function that needs it (see `mirror.loggers`).
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

from headrace.console.escapes import visible, visible_lines
from mirror.loggers import set_threshold

if TYPE_CHECKING:
    import structlog

    from headrace.settings import LogSettings

_SECRET_WORDS: Final = ("password", "secret", "token", "credential")
_EXCEPTION: Final = "exception"


def configure_logs(settings: LogSettings, **context: Any) -> None:
    """Set up structlog and the standard library's loggers. `context`: fields to add to every line."""
    import structlog

    as_text = settings.format == "text" or (settings.format == "auto" and sys.stderr.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _mask_secrets,
    ]
    renderer: structlog.types.Processor = _text_renderer() if as_text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
    for noisy in ("kazoo", "httpx", "httpcore", "uvicorn.access", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    set_threshold(settings.level)
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**context)


def _mask_secrets(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    for key in event:
        if any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = "***"
    return event


def log_to_stderr() -> None:
    """Send log lines to stderr, for commands that print their result on stdout."""
    import structlog

    structlog.reset_defaults()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.set_exc_info,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            _mask_secrets,
            _text_renderer(),
        ],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


class VisibleFormatter(logging.Formatter):
    """Escapes control characters, because log messages may contain text from brokers."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as escaped lines."""
        return visible_lines(super().format(record))


def log_first_to_stderr() -> None:
    """Send warnings and errors, also from libraries, to stderr without importing structlog yet.

    For processes that rarely log anything: structlog is imported with the first line.
    """
    set_threshold("warning", log_to_stderr)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def silence_library(name: str) -> None:
    """Drop the log records of a library that raises an exception for everything that it logs."""
    logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def without_logs() -> Iterator[None]:
    """Turn logging off, for callers that report all failures themselves."""
    logging.disable(logging.CRITICAL)
    former = set_threshold("off")
    try:
        yield
    finally:
        set_threshold(*former)
        logging.disable(logging.NOTSET)


def _text_renderer() -> structlog.types.Processor:
    """Return a structlog renderer for lines of text.

    Tracebacks are plain, because structlog's tracebacks show local variables, which may contain passwords.
    """
    import structlog

    renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_plain_traceback)

    def render(logger: Any, method: str, event: structlog.types.EventDict) -> str:
        return renderer(logger, method, {key: _shown(key, value) for key, value in event.items()})

    return render


def _shown(key: str, value: Any) -> Any:
    """Escape a text for the terminal.

    Exceptions keep their line breaks. Other values are rendered with `repr`, which escapes.
    """
    if not isinstance(value, str):
        return value
    return visible_lines(value) if key == _EXCEPTION else visible(value)


def _plain_traceback(out: TextIO, trace: structlog.types.ExcInfo) -> None:
    import structlog

    text = io.StringIO()
    structlog.dev.plain_traceback(text, trace)
    out.write(visible_lines(text.getvalue()))
