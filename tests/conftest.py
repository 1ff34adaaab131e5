"""Fixtures for all tests; fixtures of real servers come from tests/servers.py."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from mirror.loggers import set_threshold
from tests.examples import register_profiles
from tests.promtool import known_promtool

pytest_plugins = [
    "tests.shared_servers",
    "tests.servers",
    "tests.loops_left",
    "tests.collecting",
    "tests.failures_at_once",
    "tests.scheduler",
]


def pytest_report_header() -> str:
    """Return the promtool that checks the Prometheus rules."""
    return f"promtool: {known_promtool()}"


# A shell makes background processes ignore SIGINT, which the tests' children would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

register_profiles()


def _show_plain_tracebacks() -> None:
    """Restore the defaults of structlog on stderr with plain tracebacks; rich ones take half a second."""
    structlog.reset_defaults()
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[*structlog.get_config()["processors"][:-1], renderer],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


_show_plain_tracebacks()


@pytest.fixture(autouse=True)
def _logs_set_up_by_no_other_test() -> Iterator[None]:
    """Undo the logging set-up of a command that was called in this process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    _show_plain_tracebacks()
    set_threshold("warning")
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    """Return the list of the events that the test logs, at any level."""
    set_threshold("debug")
    with capture_logs() as events:
        yield events
