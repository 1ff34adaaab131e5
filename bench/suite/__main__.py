"""Wall and CPU time of `make test` in fresh clones, with every second run beside a busy core.

`RUNS=10` sets the number of runs, `TARGETS="test test-all demo"` the targets. Packages come from the usual
caches unless `EMPTY=1`.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_CHECKOUT: Final = Path(__file__).parents[2]
_SUMMARY: Final = re.compile(r"^=*\s*(\d+ (?:passed|failed|error).* in [\d.]+s.*?)\s*=*$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of a make target in a clone."""

    target: str
    is_beside_busy_core: bool
    status: int
    seconds: float
    processor_seconds: float
    """CPU seconds of all processes of the machine except the busy one."""
    summary: str

    def __str__(self) -> str:
        beside = "beside a busy core" if self.is_beside_busy_core else "alone"
        ended = "passed" if self.status == 0 else f"FAILED with status {self.status}"
        return (
            f"make {self.target:9} {beside:18} {self.seconds:6.0f} s "
            f"{self.processor_seconds / 60:6.1f} min of processor time  {ended}  {self.summary}"
        )


def machine_seconds() -> float:
    """Return the CPU seconds that the machine has spent since boot."""
    spent = psutil.cpu_times()
    return float(spent.user + spent.nice + spent.system + spent.irq + spent.softirq)


def spin() -> None:
    """Compute until the process is killed."""
    while True:
        pass


@contextmanager
def busy_core(wanted: bool) -> Iterator[Callable[[], float]]:
    """Keep one core busy for the context; yield a function that returns the CPU seconds that this has
    used."""
    if not wanted:
        yield lambda: 0.0
        return
    process = multiprocessing.get_context("spawn").Process(target=spin)
    process.start()
    try:
        yield lambda: sum(psutil.Process(process.pid).cpu_times()[:2])
    finally:
        process.kill()
        process.join()


def run(target: str, folder: Path, is_beside_busy_core: bool) -> Run:
    """Run a make target in a fresh clone; its output is in `make.log` of the folder."""
    clone, log = folder / "clone", folder / "make.log"
    subprocess.run(["git", "clone", "--quiet", str(_CHECKOUT), str(clone)], check=True)
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}
    if "EMPTY" in os.environ:
        environment |= {"PIP_CACHE_DIR": str(folder / "pip"), "UV_CACHE_DIR": str(folder / "uv")}
    with busy_core(is_beside_busy_core) as spinning, log.open("wb") as output:
        before, began = machine_seconds(), time.monotonic()
        status = subprocess.run(
            ["make", target], cwd=clone, env=environment, stdout=output, stderr=output, check=False
        ).returncode
        seconds, spent = time.monotonic() - began, machine_seconds() - before - spinning()
    text = log.read_text(encoding="utf-8", errors="replace")
    if status != 0:
        print(text[-10_000:])
    summary = (_SUMMARY.findall(text) or [""])[-1]
    return Run(target, is_beside_busy_core, status, seconds, spent, summary)


def lines_of(folder: Path) -> int:
    """Return the number of lines of all Python files below a folder."""
    return sum(len(file.read_bytes().splitlines()) for file in folder.rglob("*.py"))


def main() -> None:
    """Print each run, and the number of lines of the tests."""
    targets = os.environ.get("TARGETS", "test").split()
    count = int(os.environ.get("RUNS", "2"))
    print(f"tests: {lines_of(_CHECKOUT / 'tests'):,} lines of Python\n")
    for target in targets:
        for number in range(count if target == "test" else 1):
            with tempfile.TemporaryDirectory(prefix="headrace-suite-") as name:
                print(run(target, Path(name), number % 2 == 1), flush=True)


if __name__ == "__main__":
    main()
