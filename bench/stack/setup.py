"""Duration of `make setup` on a bare machine: a fresh clone with empty caches, then with full ones."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CHECKOUT: Final = Path(__file__).parents[2]
_SAID: Final = "setup: "
_STILL: Final = "…"


@dataclass
class _Run:
    """Output lines of one set-up, each with the time until the next one in seconds."""

    parts: list[tuple[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    processor_seconds: float = 0.0
    status: int = 0


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lines(clone: Path, environment: dict[str, str], run: _Run) -> Iterator[tuple[str, float]]:
    """Yield each output line with its time; an empty line marks the end."""
    before, began = _processor_seconds(), time.monotonic()
    command = [sys.executable, str(clone / "scripts" / "bootstrap.py"), "complete"]
    with subprocess.Popen(command, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip(), time.monotonic() - began
    run.seconds, run.status = time.monotonic() - began, process.returncode
    run.processor_seconds = _processor_seconds() - before
    yield "", run.seconds


def _measure(clone: Path, environment: dict[str, str]) -> _Run:
    run = _Run()
    last, since = "", 0.0
    for line, at in _lines(clone, environment, run):
        if _STILL in line:
            continue
        if last:
            run.parts.append((last.removeprefix(_SAID), at - since))
        last, since = line, at
    return run


def _print(title: str, run: _Run) -> None:
    print(f"{title}: {run.seconds:.0f} s, {run.processor_seconds:.0f} s of processor time")
    for part, seconds in run.parts:
        print(f"  {seconds:6.1f} s  {part[:90]}")
    if run.status != 0:
        print(f"  failed with status {run.status}")
    print()


def main() -> None:
    """Print the set-up with empty caches, with full caches, and with nothing to do."""
    with tempfile.TemporaryDirectory(prefix="headrace-setup-") as name:
        folder = Path(name)
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", str(_CHECKOUT), str(clone)], check=True)
        home = {"PIP_CACHE_DIR": str(folder / "pip"), "UV_CACHE_DIR": str(folder / "uv")}
        environment = {**os.environ, **home, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}
        _print("fresh clone, empty caches", _measure(clone, environment))
        shutil.rmtree(clone / ".venv")
        _print("no .venv, full caches", _measure(clone, environment))
        _print("nothing to do", _measure(clone, environment))
