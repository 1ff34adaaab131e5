"""Test log output: JSON for machines, context in every line, no secrets, nothing on stdout."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from headrace.process.logs import configure_logs, log_first_to_stderr, log_to_stderr, without_logs
from headrace.settings import LogSettings
from mirror.loggers import get_logger
from tests.patience import PATIENCE_SECONDS

_COMMAND = """
import sys
from pathlib import Path
import click
from headrace.__main__ import run_command

@click.command()
def recall():
    print("structlog" in sys.modules)
    from pmp.loads.last_known import LastKnown
    LastKnown(folder).recall("west")
    print("the result")

folder = Path(sys.argv.pop())
run_command(recall, "headrace")
"""


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_every_line_carries_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json"), instance="one")
    structlog.contextvars.bind_contextvars(plan=7, datastream="orders")
    structlog.get_logger("mirror").info("lanes start", lanes=3)
    logging.getLogger("somebody.else").warning("theirs")
    ours, theirs = lines(capsys)
    assert ours["event"] == "lanes start"
    assert (ours["instance"], ours["plan"], ours["datastream"], ours["lanes"]) == ("one", 7, "orders", 3)
    assert theirs["event"] == "theirs"
    assert (theirs["instance"], theirs["plan"]) == ("one", 7)


def test_events_of_both_kinds_of_loggers_are_the_same_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json", level="warning"), instance="one")
    for log in (structlog.get_logger("mirror"), get_logger("mirror")):
        log.info("not shown")
        try:
            int("x")
        except ValueError:
            log.exception("died", topic="t", token="abc")
    first, second = ({key: line[key] for key in line if key != "timestamp"} for line in lines(capsys))
    assert first.pop("exception") == second.pop("exception")
    assert first == second
    assert first == {"event": "died", "level": "error", "instance": "one", "topic": "t", "token": "***"}


def test_nothing_is_logged_while_the_caller_reports_the_failures(capsys: pytest.CaptureFixture[str]) -> None:
    log_first_to_stderr()
    with without_logs():
        get_logger("mirror").error("first")
        logging.getLogger("somebody.else").error("first")
    get_logger("mirror").error("second")
    seen = capsys.readouterr()
    assert ("first" in seen.err, "second" in seen.err, seen.out) == (False, True, "")


def test_secrets_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json"))
    structlog.get_logger("mirror").info("connecting", sasl_password="hunter2", token="abc", user="me")
    text = capsys.readouterr().err
    assert "hunter2" not in text
    assert "abc" not in text
    assert json.loads(text)["user"] == "me"


def test_an_exception_is_part_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json"))
    try:
        int("what went wrong")
    except ValueError:
        structlog.get_logger("mirror").exception("died")
    (line,) = lines(capsys)
    assert "what went wrong" in str(line["exception"])


@pytest.mark.parametrize(
    "set_up", [log_to_stderr, lambda: configure_logs(LogSettings(format="text"))], ids=["a command", "serve"]
)
def test_no_exception_shows_local_variables(
    capsys: pytest.CaptureFixture[str], set_up: Callable[[], None]
) -> None:
    set_up()
    sasl_password = "-".join(["hunter", "2"])
    try:
        int(f"what went wrong {len(sasl_password)}")
    except ValueError:
        structlog.get_logger("mirror").exception("died", sasl_password=sasl_password)
    text = capsys.readouterr().err
    assert "what went wrong 8" in text
    assert sasl_password not in text


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="text", level="warning"))
    structlog.get_logger("mirror").info("not shown")
    structlog.get_logger("mirror").warning("shown", partition="orders-1")
    text = capsys.readouterr().err
    assert "not shown" not in text
    assert "shown" in text
    assert "partition=orders-1" in text


def test_a_command_that_sets_up_no_log_may_follow_one_that_does(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json"))
    structlog.get_logger("mirror").info("first")
    log_to_stderr()
    structlog.get_logger("mirror").info("second", lanes=3)
    seen = capsys.readouterr()
    assert ("first" in seen.err, "second" in seen.err, seen.out) == (True, True, "")


def test_a_command_that_sets_up_no_log_prints_only_its_result(tmp_path: Path) -> None:
    (tmp_path / "west.loads.json.gz").write_bytes(b"damaged")
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout.splitlines() == ["False", "the result"]
    assert "cannot read the stored loads" in done.stderr
