"""What commands show, whatever is in it and wherever it goes."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.console.files import write_file
from headrace.console.terminal import console, print_table
from headrace.copy.report import ProgressLine
from headrace.copy.run import CopyProgress
from headrace.errors import explain
from tests.patience import PATIENCE_SECONDS

FULL = Path("/dev/full")


class FullDisk(io.StringIO):
    """What stderr is when its disk is full."""

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


def test_a_file_without_room_is_named_with_what_to_do() -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        write_file(FULL, "text")
    assert explain(raised.value) == (
        "/dev/full: No space left on device: make room there, or have it written elsewhere"
    )


@pytest.mark.parametrize("command", ["config check", "config reference", "--help"])
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
    assert done.stderr.splitlines() == [
        "headrace: No space left on device: make room there, or have it written elsewhere"
    ]


def test_progress_that_cannot_be_shown_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    full = FullDisk()
    monkeypatch.setattr(sys, "stderr", full)
    line = ProgressLine()
    line.show(CopyProgress(reasons={"it stands still": "t-0"}), 0.0)
    line.end()
    assert full.tried
