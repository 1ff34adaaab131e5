"""What a run leaves behind: three small CSV files, which the report, the plots and the notebook read."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WINDOW_SECONDS: Final = 15
"""Over which loads are summed before they are compared."""
_BETWEEN: Final = " "


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """What a task copied on an instance in the window that begins at `second` of the measured time."""

    second: int
    fleet: str
    instance: str
    task: str
    bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class WindowLatency:
    """How late the records of a window were: `counts` by the buckets of `mirror.model.metrics`."""

    second: int
    fleet: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanInForce:
    """The plan of a fleet from `second` on, and how many partitions changed their task by it."""

    second: float
    fleet: str
    epoch: int
    tasks: tuple[str, ...]
    moved: int


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything of one run. `seconds`: of its measured time."""

    loads: Sequence[TaskLoad]
    latencies: Sequence[WindowLatency]
    plans: Sequence[PlanInForce]

    @property
    def seconds(self) -> int:
        """The end of the last window."""
        return max(one.second for one in self.loads) + WINDOW_SECONDS

    @property
    def fleets(self) -> list[str]:
        """Names, sorted: the candidate first."""
        return sorted({one.fleet for one in self.loads})


def write(recording: Recording, folder: Path) -> None:
    """`tasks.csv`, `latency.csv` and `plans.csv` in the folder, which is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    loads = [(o.second, o.fleet, o.instance, o.task, o.bytes, o.records) for o in recording.loads]
    _write(folder / "tasks.csv", ("second", "fleet", "instance", "task", "bytes", "records"), loads)
    latencies = [(o.second, o.fleet, _BETWEEN.join(map(str, o.counts))) for o in recording.latencies]
    _write(folder / "latency.csv", ("second", "fleet", "counts"), latencies)
    plans = [(o.second, o.fleet, o.epoch, _BETWEEN.join(o.tasks), o.moved) for o in recording.plans]
    _write(folder / "plans.csv", ("second", "fleet", "epoch", "tasks", "moved"), plans)


def read(folder: Path) -> Recording:
    """The same again."""
    loads = [
        TaskLoad(int(second), fleet, instance, task, int(size), int(records))
        for second, fleet, instance, task, size, records in _rows(folder / "tasks.csv")
    ]
    latencies = [
        WindowLatency(int(second), fleet, tuple(map(int, counts.split(_BETWEEN))))
        for second, fleet, counts in _rows(folder / "latency.csv")
    ]
    plans = [
        PlanInForce(float(second), fleet, int(epoch), tuple(tasks.split(_BETWEEN)), int(moved))
        for second, fleet, epoch, tasks, moved in _rows(folder / "plans.csv")
    ]
    return Recording(loads, latencies, plans)


def _write(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(header)
        lines.writerows(rows)


def _rows(file: Path) -> list[list[str]]:
    with file.open(newline="") as stream:
        return list(csv.reader(stream))[1:]
