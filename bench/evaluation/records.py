"""Results of a run in four small CSV files, read by the report, the plots and the notebook."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final

WINDOW_SECONDS: Final = 15
"""Window over which loads are summed before comparison."""
_BETWEEN: Final = " "


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """Load of a task on an instance in the window that starts at `second` of the measured period."""

    second: int
    fleet: str
    instance: str
    task: str
    bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class WindowLatency:
    """Latency histogram of a window: `counts` by the buckets of `mirror.model.metrics`."""

    second: int
    fleet: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanInForce:
    """Plan of a fleet that applies from `second`, and the number of partitions it moved to another task."""

    second: float
    fleet: str
    epoch: int
    tasks: tuple[str, ...]
    moved: int


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Work of an instance in the window that starts at `second`.

    `tasks`: mean number of its tasks with partitions. `inbound_bytes`: received from the source cluster.
    """

    second: int
    fleet: str
    instance: str
    weight: float
    tasks: float
    inbound_bytes: int
    bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class Recording:
    """Complete results of a run. `seconds`: length of the measured period. `hosts`: empty in older runs."""

    loads: Sequence[TaskLoad]
    latencies: Sequence[WindowLatency]
    plans: Sequence[PlanInForce]
    hosts: Sequence[HostLoad] = ()

    @property
    def seconds(self) -> int:
        """End of the last window, in seconds of the measured period."""
        return max(load.second for load in self.loads) + WINDOW_SECONDS

    @property
    def fleets(self) -> list[str]:
        """Names of the fleets, sorted, so the candidate comes first."""
        return sorted({load.fleet for load in self.loads})


def write(recording: Recording, folder: Path) -> None:
    """Write the results to `tasks.csv`, `latency.csv`, `plans.csv` and `hosts.csv` in the folder, which is
    created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    loads = [(o.second, o.fleet, o.instance, o.task, o.bytes, o.records) for o in recording.loads]
    _write(folder / "tasks.csv", ("second", "fleet", "instance", "task", "bytes", "records"), loads)
    latencies = [(o.second, o.fleet, _BETWEEN.join(map(str, o.counts))) for o in recording.latencies]
    _write(folder / "latency.csv", ("second", "fleet", "counts"), latencies)
    plans = [(o.second, o.fleet, o.epoch, _BETWEEN.join(o.tasks), o.moved) for o in recording.plans]
    _write(folder / "plans.csv", ("second", "fleet", "epoch", "tasks", "moved"), plans)
    _write(folder / "hosts.csv", [field.name for field in fields(HostLoad)], map(astuple, recording.hosts))


def read(folder: Path) -> Recording:
    """Read the results written by `write`."""
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
    hosts = [
        HostLoad(int(second), fleet, instance, float(weight), float(tasks), *map(int, sizes))
        for second, fleet, instance, weight, tasks, *sizes in _rows(folder / "hosts.csv")
    ]
    return Recording(loads, latencies, plans, hosts)


def _write(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(header)
        lines.writerows(rows)


def _rows(file: Path) -> list[list[str]]:
    """Return the lines of a result file without the header; empty for runs recorded before the file
    existed."""
    if not file.exists():
        return []
    with file.open(newline="") as stream:
        return list(csv.reader(stream))[1:]
