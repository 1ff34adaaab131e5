"""Test loggers that import structlog with the first event that they write."""

from __future__ import annotations

import subprocess
import sys

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from mirror.loggers import Level, get_logger, set_threshold
from tests.patience import PATIENCE_SECONDS

_PROGRAM = """
import sys
from mirror.loggers import get_logger
log = get_logger("mirror")
log.info("below the threshold", reason="r")
print("structlog" in sys.modules)
log.warning("written", reason="r")
print("structlog" in sys.modules)
"""


def log_all_levels() -> list[EventDict]:
    log = get_logger("mirror")
    with capture_logs() as events:
        log.debug("a", topic="t")
        log.info("b")
        log.warning("c")
        log.error("d")
    return events


def test_structlog_is_imported_with_the_first_event_that_is_written() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == ("False", "True")


@pytest.mark.parametrize(
    ("level", "shown"), [("debug", "abcd"), ("info", "bcd"), ("warning", "cd"), ("error", "d"), ("off", "")]
)
def test_events_below_the_threshold_are_dropped(level: Level, shown: str) -> None:
    set_threshold(level)
    assert "".join(one["event"] for one in log_all_levels()) == shown


def test_events_keep_their_level_and_fields(logged: list[EventDict]) -> None:
    get_logger("mirror").debug("a", topic="t")
    get_logger("mirror").error("d", exc_info=None)
    assert logged == [
        {"event": "a", "topic": "t", "log_level": "debug"},
        {"event": "d", "exc_info": None, "log_level": "error"},
    ]


def test_the_first_event_configures_the_logs_once() -> None:
    calls: list[str] = []
    former = set_threshold("warning", lambda: calls.append("configured"))
    assert former == ("warning", None)
    get_logger("mirror").info("dropped")
    assert calls == []
    log_all_levels()
    assert calls == ["configured"]
