"""Test the output of commands, for any content and any destination."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click import unstyle
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from headrace.console.files import write_file
from headrace.console.terminal import StatusLine, console, fitting, print_table
from headrace.copy.report import ProgressLine
from headrace.copy.run import CopyProgress
from headrace.errors import explain
from tests.patience import PATIENCE_SECONDS

FULL = Path("/dev/full")


class FullDisk(io.StringIO):
    """A stderr on a full disk."""

    tried = False

    def write(self, _text: str) -> int:
        self.tried = True
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("of [a-z]+", ["topics"], [{"topics": "team-[a-z]+"}, {"topics": "ends with [/x]"}])
    console().print("one [b] two [/]")
    shown = capsys.readouterr().out
    for text in ("of [a-z]+", "team-[a-z]+", "ends with [/x]", "one [b] two [/]"):
        assert text in shown


COLUMNS = ("partition", "instance", "reason")
ROWS: list[dict[str, Any]] = [
    {
        "partition": "orders-7",
        "instance": "host-a.example.net:32311",
        "reason": "the broker refuses it: " * 6,
    },
    {"partition": "orders-8", "instance": None, "reason": ["first line", "second line"]},
]


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Set the variables that Rich prefers to the properties of the output file."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))


@pytest.mark.parametrize("columns", [200, 80, 41, 12])
def test_a_terminal_of_any_width_shows_all_of_a_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    on_a_terminal(monkeypatch, columns)
    print_table("lanes", COLUMNS, ROWS)
    shown = "".join(unstyle(capsys.readouterr().out).split())
    assert shown.count("refusesit:") == 6 or columns < 200
    letters = Counter(shown)
    wanted = Counter("".join(f"{ROWS[0]['reason']}{ROWS[0]['instance']}orders-8second line".split()))
    assert wanted <= letters
    assert "…" not in shown


def test_a_table_that_would_be_folded_to_nothing_is_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch, 30)
    print_table("lanes", COLUMNS, ROWS[1:])
    lines = [line.rstrip() for line in unstyle(capsys.readouterr().out).splitlines()]
    assert lines == [
        "lanes",
        "---------",
        "partition  orders-8",
        "reason     first line",
        "reason     second line",
    ]


def test_a_pipe_gets_a_line_for_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table("lanes", COLUMNS, [*ROWS, {"partition": "日本-0", "instance": "b", "reason": "a\nb"}])
    console().print("word " * 30)
    title, heading, first, second, third, text = capsys.readouterr().out.splitlines()
    assert (title, heading.split()) == ("lanes", ["PARTITION", "INSTANCE", "REASON"])
    assert first.endswith(ROWS[0]["reason"].rstrip())
    assert second.split(maxsplit=2) == ["orders-8", "-", ", ".join(ROWS[1]["reason"])]
    assert third.split() == ["日本-0", "b", r"a\nb"]
    assert text.rstrip() == ("word " * 30).rstrip()


def test_a_file_without_room_is_named_with_what_to_do() -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        write_file(FULL, "text")
    explained = explain(raised.value) or ""
    assert explained.startswith(f"{FULL}: {os.strerror(errno.ENOSPC)}: ")
    assert "choose" in explained


@pytest.mark.parametrize("command", ["config check", "config example", "--help"])
def test_an_answer_that_has_no_room_is_one_line_and_exit_1(command: str) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"headrace: {os.strerror(errno.ENOSPC)}: ")


def test_progress_that_cannot_be_shown_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    full = FullDisk()
    monkeypatch.setattr(sys, "stderr", full)
    line = ProgressLine()
    line.show(CopyProgress(reasons={"it stands still": ("t-0", "it stands still")}), 0.0)
    line.end()
    assert full.tried


class Narrow(io.StringIO):
    """A terminal with 40 columns."""

    def isatty(self) -> bool:
        return True


def test_a_status_line_is_rewritten_on_a_terminal_and_never_wider_than_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Narrow()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    line = StatusLine()
    line.show(["123,456 records copied", "lag 7,890", "12 s to go", "3 partitions left"])
    line.show(["5 records copied"])
    line.end()
    first, second, rest = screen.getvalue().split("\r")
    assert first == "123,456 records copied, lag 7,890".ljust(39)
    assert second == "5 records copied".ljust(39), "the longer line must be erased"
    assert rest == "\n"


def test_a_status_line_is_left_where_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Narrow()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")

    def work() -> None:
        with StatusLine() as line:
            line.show(["half done"])
            raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        work()
    assert screen.getvalue().endswith("\r\n")


def test_a_status_line_in_a_pipe_is_whole_and_comes_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine(since=100.0)
    assert not line.is_due(101.0), "short work shows no status"
    assert line.is_due(106.0)
    assert not line.is_due(107.0)
    parts = [f"part {number}" for number in range(40)]
    line.show(parts)
    line.end()
    assert capsys.readouterr().err == ", ".join(parts) + "\n"


@given(st.lists(st.text(alphabet="ab \u65e5", min_size=1, max_size=30), min_size=1), st.integers(1, 120))
def test_what_fits_is_a_beginning_of_the_parts(parts: list[str], room: int) -> None:
    text = fitting(parts, room)
    assert cell_len(text) <= room
    whole = [", ".join(parts[:count]) for count in range(1, len(parts) + 1)]
    assert text in whole or cell_len(parts[0]) > room
