"""Test malformed options and files of `headrace plan`, `loads`, `slo import` and others.

The command prints one sentence that names the problem, without a traceback, exits with code 2, and leaves no
partial file.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.console.durations import HOUR_MS, milliseconds
from headrace.console.files import write_file
from mirror.errors import InvalidRequest
from tests.unit.headrace.conftest import Headrace

HUGE = "9" * 400
LOADS = json.dumps({"partitions": [{"topic": "a", "partition": 0, "bytes_per_second": 100}]})
PAST = [
    {"hour_ms": hour * HOUR_MS, "topic": "a", "partition": 0, "bytes_per_second": 100}
    for hour in range(400_000, 400_060)
]
FAR = [{**PAST[0], "hour_ms": 253_402_300_800_000}]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    for name, content in {
        "loads.json": LOADS.encode(),
        "past.json": json.dumps(PAST).encode(),
        "far.json": json.dumps(FAR).encode(),
        "far.csv": b"hour_ms,topic,partition,bytes_per_second\n253402300800000,a,0,5\n",
        "part.json": gzip.compress(LOADS.encode() * 100)[:20],
        "part.csv": gzip.compress(LOADS.encode() * 100)[:20],
        "text.json": b'{"capacity": "x"}',
        "list.json": b'{"capacity": []}',
        "digits.json": b"9" * 5_000,
        "twice.json": b'{"limits": {"min_tasks": 2, "min_tasks": 3}}',
        "wide.csv": b"x" * 200_000,
        "long.csv": b"topic,partition\n" + b"x" * 200_000 + b",0\n",
        "slo.json": json.dumps([{"kind": "SLO"}] * 2_000).encode(),
    }.items():
        (tmp_path / name).write_bytes(content)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"plan -i loads.json --capacity {HUGE}", "in bytes"),
        (f"plan -i loads.json --messages {HUGE}", "in messages"),
        (f"plan -i loads.json --capacity {2**63}", "in bytes"),
        ("plan -i loads.json --capacity ٣", "valid integer"),
        ("plan -i loads.json --capacity nan", "valid integer"),
        ("plan -i text.json --capacity 5", "capacity: "),
        ("plan -i text.json", "capacity: "),
        ("plan -i list.json", "capacity: "),
        ("plan -i digits.json", "not JSON"),
        ("plan -i twice.json", "'min_tasks'"),
        ("plan -i part.json", "UTF-8"),
        ("plan -i part.csv", "UTF-8"),
        ("plan -i wide.csv", "line 1"),
        ("plan -i long.csv", "line 2"),
        ("plan --history part.csv", "UTF-8"),
        ("plan --history digits.json", "not JSON"),
        ("plan --history far.json --table", "hour_ms"),
        ("plan --history far.csv --plot a.png", "hour_ms"),
        ("plan --history past.json --growth inf", "is inf"),
        ("plan --history past.json --growth nan", "is nan"),
        ("plan --history past.json --growth -0", "is -0.0"),
        ("plan --history past.json --growth 1e308", "is 1e+308"),
        ("plan --history past.json --ahead 2h --growth 1e308", "is 1e+308"),
        (f"plan --history past.json --ahead {HUGE}h", "invalid duration"),
        ("plan --history past.json --ahead 0.0001ms", "invalid duration"),
        ("plan --history past.json --ahead ٣h", "invalid duration"),
        ("plan --since 9999999d", "1,825 days"),
        (f"plan --since {HUGE}d", "invalid duration"),
        ("plan --since ٣h", "invalid duration"),
        ("plan --since 1h --cluster a\udcff", "cluster 'a\\udcff'"),
        ("plan --since 1h --cluster a\x1b[31m", "cluster 'a\\x1b[31m'"),
        ("loads export a.csv --since 9999999d", "is too long"),
        (f"loads export a.csv --since {HUGE}d", "invalid duration"),
        (f"doctor --patience {HUGE}d", "invalid duration"),
        ("doctor --patience 2h", "1 hour"),
        (f"datastream pause a --for {HUGE}h", "invalid duration"),
        (f"pinot query freshness --last {HUGE}h", "invalid duration"),
        ("slo import digits.json", "cannot parse"),
        ("slo import slo.json", "1990 more"),
    ],
)
def test_wrong_use_is_one_sentence(line: str, said: str, headrace: Headrace, tmp_path: Path) -> None:
    before = {file.name for file in tmp_path.iterdir()}
    shown = headrace(*line.split())
    assert shown.code == 2, shown
    assert said in " ".join(shown.err.replace("│", " ").split())
    assert "Traceback" not in shown.err
    assert len(shown.err) < 20_000
    assert not shown.out
    assert {file.name for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("path", ["", "nowhere/../"])
def test_nothing_is_no_file_of_objectives(path: str, headrace: Headrace) -> None:
    shown = headrace("slo", "import", path)
    assert shown.code in (1, 2), shown
    assert "Traceback" not in shown.err
    assert len(shown.err.splitlines()) == 1


def test_marks_and_line_ends_of_other_systems_are_read(headrace: Headrace, tmp_path: Path) -> None:
    for number, end in enumerate((b"\n", b"\r\n", b"\r")):
        file = tmp_path / f"{number}.csv"
        file.write_bytes(b"\xef\xbb\xbf" + end.join([b"topic,partition,bytes_per_second", b"a,0,5", b""]))
        assert json.loads(headrace("plan", "-i", str(file)).out)["tasks"] == 1


def test_a_picture_on_a_full_disk_is_said_by_its_name(headrace: Headrace, tmp_path: Path) -> None:
    (tmp_path / "a.png").symlink_to("/dev/full")
    shown = headrace("plan", "--history", "past.json", "--plot", "a.png")
    assert shown.code == 1
    assert f"a.png: {os.strerror(errno.ENOSPC)}" in shown.err


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """The permissions are kept, and a link remains a link."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    write_file(link, "after")
    assert (file.read_text(), link.is_symlink()) == ("after", True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    with files_up_to(1_000), pytest.raises(OSError, match="link"):
        write_file(link, b"x" * 2_000)
    assert file.read_text() == "after"
    assert not list(tmp_path.glob(".headrace*"))


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Limit the size of files that the process can write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, "through")
        assert os.read(reading, 100) == b"through"
    finally:
        os.close(reading)
    assert pipe.is_fifo()


@given(st.text(max_size=30) | st.from_regex(r"\A[0-9٣².eE-]{1,40} ?(ms|s|m|h|d)?\Z"))
def test_any_text_is_a_length_of_time_or_refused(text: str) -> None:
    found = -1
    with suppress(InvalidRequest):
        found = milliseconds(text)
    if found < 0:
        return
    assert 1 <= found <= 36_500 * 24 * HOUR_MS
    assert text.isascii()
