"""Measures the memory and CPU use of a process and its children, from /proc (Linux)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from api.services import ProcessReport, ProcessUsage
from headrace.plug_ins.names import PlugInNames

_PROC: Final = Path("/proc")
_LEAST_SECONDS: Final = 2.0
"""Minimum seconds between two readings from which the CPU use is computed."""


class UsageMeter:
    """Measures the memory and CPU use of a process and its children. Thread-safe.

    `process_id`: id of the parent process. `now`: monotonic clock in seconds.
    """

    def __init__(self, process_id: int, now: Callable[[], float], proc: Path = _PROC) -> None:
        self._process_id = process_id
        self._now = now
        self._proc = proc
        self._lock = threading.Lock()
        self._before: tuple[float, dict[int, float]] | None = None
        self._cores: float | None = None

    def measure(self) -> ProcessUsage:
        """Return the current memory and CPU use of the process and its children."""
        found = dict(self._read())
        if not found:
            return ProcessUsage()
        spent = {process: seconds for process, (_, seconds) in found.items()}
        with self._lock:
            now = self._now()
            if self._before is None or now - self._before[0] >= _LEAST_SECONDS:
                self._note(now, spent)
            cores = self._cores
        return ProcessUsage(len(found), sum(memory for memory, _ in found.values()), cores)

    def _note(self, now: float, spent: dict[int, float]) -> None:
        if self._before is not None:
            at, before = self._before
            more = sum(seconds - before.get(process, 0.0) for process, seconds in spent.items())
            self._cores = round(max(more, 0.0) / (now - at), 3)
        self._before = now, spent

    def _read(self) -> Iterator[tuple[int, tuple[int, float]]]:
        """Yield process id, memory in bytes and CPU time in seconds of each process. Ended processes are
        omitted."""
        for process in (self._process_id, *self._children()):
            folder = self._proc / str(process)
            try:
                resident = int((folder / "statm").read_text(encoding="ascii").split()[1])
                behind_name = (
                    (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
                )
                user, system = behind_name.split()[11:13]
            except (OSError, ValueError, IndexError):
                continue
            seconds = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
            yield process, (resident * os.sysconf("SC_PAGE_SIZE"), seconds)

    def _children(self) -> Iterator[int]:
        try:
            for listed in (self._proc / str(self._process_id) / "task").glob("*/children"):
                yield from map(int, listed.read_text(encoding="ascii").split())
        except (OSError, ValueError):
            return


class ProcessReporter:
    """Reports the resource use of a process and its children, and the available plug-ins. Thread-safe."""

    def __init__(self, meter: UsageMeter, plug_ins: PlugInNames) -> None:
        self._meter = meter
        self._plug_ins = plug_ins

    def __call__(self) -> ProcessReport:
        """Return the current resource use, and the plug-ins that are available."""
        return ProcessReport(self._meter.measure(), self._plug_ins.strategies, self._plug_ins.load_providers)
