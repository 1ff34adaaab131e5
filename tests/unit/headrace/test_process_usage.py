"""Test the memory and CPU use reported by an instance."""

from __future__ import annotations

import os
from pathlib import Path

from api.services import ProcessUsage
from headrace.process.process_usage import UsageMeter

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def say(proc: Path, process: int, pages: int, seconds: int) -> None:
    folder = proc / str(process)
    folder.mkdir(exist_ok=True)
    (folder / "statm").write_text(f"99 {pages} 3 4\n")
    fields = ["S", *["0"] * 10, str(seconds * TICKS), "0", "0"]
    (folder / "stat").write_text(f"{process} (a (name) b) {' '.join(fields)}\n")


def test_memory_is_that_of_all_processes_and_cores_those_since_the_look_before(
    tmp_path: Path,
) -> None:
    say(tmp_path, 7, 100, 10)
    say(tmp_path, 8, 200, 20)
    (tmp_path / "7/task/7").mkdir(parents=True)
    (tmp_path / "7/task/7/children").write_text("8 9 ")
    moment = 100.0
    meter = UsageMeter(7, lambda: moment, tmp_path)
    assert meter.measure() == ProcessUsage(2, 300 * PAGE, None)
    moment = 110.0
    say(tmp_path, 8, 250, 25)
    assert meter.measure() == ProcessUsage(2, 350 * PAGE, 0.5)
    moment = 110.5
    assert meter.measure().cpu_cores == 0.5, "too soon for another measurement"
    moment = 120.0
    (tmp_path / "8/stat").unlink()
    assert meter.measure() == ProcessUsage(1, 100 * PAGE, 0.0)


def test_where_the_system_does_not_say_it_nothing_is_known(tmp_path: Path) -> None:
    assert UsageMeter(7, lambda: 1.0, tmp_path).measure() == ProcessUsage()


def test_this_process_has_memory() -> None:
    found = UsageMeter(os.getpid(), lambda: 1.0).measure()
    assert (found.processes or 0) >= 1
    assert (found.memory_bytes or 0) > 1_000_000
