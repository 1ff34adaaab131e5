"""Test `headrace plan`, with tables and with JSON."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.__main__ import main

DOCUMENT: dict[str, Any] = {
    "capacity": {"bytes_per_second": 100, "utilisation_percent": 100},
    "mode": "full",
    "partitions": [
        {"topic": "t", "partition": n, "bytes_per_second": rate}
        for n, rate in enumerate([60, 50, 40, 30, 20])
    ],
}


class CommandResult(NamedTuple):
    """Result of a run."""

    returncode: int
    stdout: str
    stderr: str


class Headrace:
    """Callable that runs `headrace plan …` in this process in a folder without settings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, text: str = "") -> CommandResult:
        self._monkeypatch.setattr(sys, "argv", ["headrace", "plan", *arguments])
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return CommandResult(int(ended.value.code or 0), out, err)


@pytest.fixture
def headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Headrace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return Headrace(monkeypatch, capsys)


def written(folder: Path, document: Any, name: str = "loads.json") -> str:
    (folder / name).write_text(json.dumps(document))
    return name


def test_a_program_gets_json(tmp_path: Path, headrace: Headrace) -> None:
    done = headrace("--input", written(tmp_path, DOCUMENT))
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert (answer["tasks"], answer["task_lower_bound"], answer["max_load_bytes_per_second"]) == (2, 2, 100)
    assert len(answer["placement"]) == 5


def test_a_person_gets_tables(tmp_path: Path, headrace: Headrace) -> None:
    name = written(tmp_path, DOCUMENT)
    reasons = json.loads(headrace("--input", name).stdout)["reasons"]
    done = headrace("--input", name, "--table")
    assert done.returncode == 0
    assert "2 tasks" in done.stdout
    assert reasons
    assert [one for one in reasons if one not in done.stdout] == []
    assert "100 B/s" in done.stdout
    assert "100.0 %" in done.stdout


def test_options_win_over_the_document(tmp_path: Path, headrace: Headrace) -> None:
    name = written(tmp_path, DOCUMENT)
    answer = json.loads(headrace("-i", name, "--max-tasks", "1", "--capacity", "50").stdout)
    assert (answer["tasks"], answer["required_tasks"], answer["overloaded_tasks"]) == (1, 4, [0])


def test_strict_turns_a_shortage_into_an_exit_code(tmp_path: Path, headrace: Headrace) -> None:
    name = written(tmp_path, DOCUMENT)
    assert headrace("-i", name, "--strict").returncode == 0
    short = headrace("-i", name, "--max-tasks", "1", "--strict")
    assert short.returncode == 1
    assert re.findall(r"\d+", short.stderr) == ["1", "0"]
    assert json.loads(short.stdout)["tasks"] == 1


def test_csv_and_standard_input(tmp_path: Path, headrace: Headrace) -> None:
    (tmp_path / "loads.csv").write_text("topic,partition,bytes_per_second\na,0,60\na,1,50\n")
    answer = json.loads(headrace("-i", "loads.csv", "--capacity", "100", "--utilisation", "100").stdout)
    assert answer["tasks"] == 2
    assert json.loads(headrace("-i", "-", text=json.dumps(DOCUMENT)).stdout)["tasks"] == 2


@pytest.mark.parametrize(
    ("arguments", "text", "culprit"),
    [
        (
            ["-i", "-"],
            '{"partitions": [{"topic": "a", "partition": 0, "bytes_per_second": NaN}]}',
            "a-0: nan",
        ),
        (["-i", "-"], "{", "line 1"),
        (["-i", "-"], '{"capacity": {"bytes_per_second": 0}}', "in bytes"),
        ([], "", "--input FILE"),
        (["-i", "-", "--since", "1h"], "{}", "one of"),
        (["--since", "soon"], "", "'soon'"),
        (["-i", "-", "--growth", "2"], "{}", "--growth "),
        (["-i", "-", "--plot", "a.png"], "{}", "--plot "),
        (["--history", "a.csv", "--mode", "full"], "", "--mode "),
        (["--history", "a.csv", "--strict"], "", "--strict "),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    headrace: Headrace, arguments: list[str], text: str, culprit: str
) -> None:
    done = headrace(*arguments, text=text)
    assert done.returncode == 2
    assert culprit in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


def test_a_missing_file_is_named(headrace: Headrace) -> None:
    done = headrace("-i", "nowhere.json")
    assert done.returncode == 1
    assert f"nowhere.json: {os.strerror(errno.ENOENT)}" in done.stderr


@pytest.mark.parametrize("option", ["--input", "--history"])
@pytest.mark.parametrize("name", ["loads.csv", "loads.json"])
def test_a_file_that_is_no_text_is_named(tmp_path: Path, headrace: Headrace, option: str, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x89PNG\r\n")
    done = headrace(option, name)
    assert done.returncode == 2
    assert all(fact in done.stderr for fact in (name, "UTF-8", "byte 0"))


def test_a_picture_of_no_known_format_is_refused(tmp_path: Path, headrace: Headrace) -> None:
    row = {"hour_ms": 0, "topic": "t", "partition": 0, "bytes_per_second": 9}
    done = headrace("--history", written(tmp_path, [row], "day.json"), "--plot", "day.xyz")
    assert done.returncode == 2
    assert "day.xyz" in done.stderr
    assert "png" in done.stderr


def test_a_day_is_replayed_and_drawn(tmp_path: Path, headrace: Headrace) -> None:
    rows = [
        {"hour_ms": hour * 3_600_000, "topic": "t", "partition": n, "bytes_per_second": 9 if hour < 2 else 30}
        for hour in range(6)
        for n in range(10)
    ]
    name = written(tmp_path, rows, "day.json")
    done = headrace(
        "--history",
        name,
        "--growth",
        "1.3",
        "--capacity",
        "100",
        "--utilisation",
        "100",
        "--plot",
        "day.png",
    )
    assert (done.returncode, done.stderr) == (0, "")
    hours = json.loads(done.stdout)["hours"]
    assert [hour["required_tasks"] for hour in hours] == [2, 2, 5, 5, 5, 5]
    assert [hour["tasks"] for hour in hours] == [2, 2, 2, 2, 5, 5]
    assert (tmp_path / "day.png").read_bytes().startswith(b"\x89PNG")
    table = headrace("--history", name, "--table")
    assert "1970-01-01 05:00" in table.stdout
    assert "at 1970-01-01 02:00 UTC: " in table.stdout


def test_a_replay_names_the_hours_that_are_missing_and_its_peak(
    tmp_path: Path, headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {
            "hour_ms": hour * 3_600_000,
            "topic": "t",
            "partition": n,
            "bytes_per_second": 30 if hour == 9 else 9,
        }
        for hour in range(24)
        if hour not in (5, 6, 17)
        for n in range(10)
    ]
    name = written(tmp_path, rows, "day.json")
    monkeypatch.setenv("HEADRACE_ASSIGNER__ADVICE__TASKS_PER_INSTANCE", "2")
    done = headrace("--history", name, "--capacity", "100", "--utilisation", "100")
    answer = json.loads(done.stdout)
    (note,) = answer["notes"]
    assert note.startswith("21 of 24 hours")
    assert re.findall(r"1970-01-01 (\d\d:\d\d)", note) == ["05:00", "07:00", "17:00", "18:00"]
    assert note.endswith("UTC")
    assert note in done.stderr
    assert answer["peak"] == {"hour_ms": 9 * 3_600_000, "required_tasks": 4, "tasks": 1, "instances": 2}


def three_days(folder: Path) -> str:
    rows = [
        {
            "hour_ms": hour * 3_600_000,
            "topic": "t",
            "partition": n,
            "bytes_per_second": 30 if hour % 24 == 9 else 9,
        }
        for hour in range(72)
        for n in range(10)
    ]
    return written(folder, rows, "days.json")


def test_the_next_day_is_forecast_and_drawn(tmp_path: Path, headrace: Headrace) -> None:
    name = three_days(tmp_path)
    options = ["--capacity", "100", "--utilisation", "100", "--ahead", "12h"]
    done = headrace("--history", name, *options, "--growth", "1.1", "--plot", "next.png")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert [hour["tasks"] for hour in answer["hours"]] == [1] * 9 + [4] + [1] * 2
    assert answer["hours"][9]["bytes_per_second"] == pytest.approx(330)
    assert answer["grade"]["covered"] > 0.9
    assert (tmp_path / "next.png").read_bytes().startswith(b"\x89PNG")
    table = headrace("--history", name, *options, "--table")
    assert "1970-01-04 09:00" in table.stdout
    assert "100% covered" in table.stdout


def test_what_cannot_be_forecast_is_one_line(tmp_path: Path, headrace: Headrace) -> None:
    name = three_days(tmp_path)
    done = headrace("--history", name, "--ahead", "8d")
    assert done.returncode == 2
    assert "168 hours ahead" in done.stderr
    done = headrace("--input", written(tmp_path, DOCUMENT), "--ahead", "8h")
    assert done.returncode == 2
    assert all(option in done.stderr for option in ("--ahead", "--history", "--since"))
