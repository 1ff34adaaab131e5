"""Prints the figures of an evaluation run, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from bench.evaluation.deviation import (
    Deviation,
    by_host,
    by_task,
    latency_counts,
    line_through,
    mean_deviation,
    mean_rate_by_tasks,
    rate_by_tasks,
    task_seconds,
)
from bench.evaluation.records import PlanInForce, Recording
from mirror.model.latency import percentile_ms

UNKNOWN: Final = "unknown"
_VALUES: Final = ("bytes", "records")
_OF_HOSTS: Final = {
    "inbound network": "inbound_bytes",
    "bytes processed": "bytes",
    "records processed": "records",
}
"""The three metrics of the article, by instance and divided by its weight."""


def lines(recording: Recording) -> list[str]:
    """Return a table of figures with a column for each fleet."""
    fleets = recording.fleets
    rows: list[tuple[str, Sequence[str]]] = [("", fleets)]
    for value in _VALUES:
        over_tasks = [by_task(recording, fleet, attrgetter(value)) for fleet in fleets]
        rows += _deviations(f"{value} over tasks", over_tasks)
    for name, value in _OF_HOSTS.items():
        over_hosts = [by_host(recording, fleet, attrgetter(value)) for fleet in fleets]
        rows += _deviations(f"{name} over instances", over_hosts)
    rows += _of_lines(recording)
    for percent in (50, 99):
        found_ms = [percentile_ms(latency_counts(recording, fleet), percent) for fleet in fleets]
        rows.append(
            (
                f"latency p{percent}, ms",
                [UNKNOWN if one is None else f"{one:.0f}" for one in found_ms],
            )
        )
    rows.append(("task-hours", [f"{task_seconds(recording, fleet) / 3600:.2f}" for fleet in fleets]))
    rows.append(("number of tasks, minimum and maximum", [_span(recording, fleet) for fleet in fleets]))
    rows.append(("plans", [str(len(_plans(recording, fleet))) for fleet in fleets]))
    rows.append(
        ("partitions moved", [str(sum(o.moved for o in _plans(recording, fleet))) for fleet in fleets])
    )
    copied = [[o for o in recording.loads if o.fleet == fleet] for fleet in fleets]
    rows.append(("copied, MB", [f"{sum(o.bytes for o in own) / 1e6:.1f}" for own in copied]))
    rows.append(("copied, records", [str(sum(o.records for o in own)) for own in copied]))
    return [f"  {name:42}" + "".join(f"{value:>14}" for value in values) for name, values in rows]


def _deviations(
    label: str, found: Sequence[Mapping[int, Sequence[float]]]
) -> Iterator[tuple[str, Sequence[str]]]:
    means = [mean_deviation(windows.values()) for windows in found]
    yield f"{label}, deviation/mean", [_coefficient(mean) for mean in means]
    yield f"{label}, largest/mean", [_largest(mean) for mean in means]


def _of_lines(recording: Recording) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield rows that show how well the number of an instance's tasks explains its records per second."""
    for label, way in (("", mean_rate_by_tasks), (", windows", rate_by_tasks)):
        found = [line_through(way(recording, fleet)) for fleet in recording.fleets]
        yield (
            f"additional records/s per additional task{label}",
            [UNKNOWN if one is None else f"{one.slope:.0f}" for one in found],
        )
        yield (
            f"R\N{SUPERSCRIPT TWO} of that line{label}",
            [UNKNOWN if one is None else f"{one.r_squared:.2f}" for one in found],
        )


def audit_lines(audits: Mapping[str, Sequence[Mapping[str, Any]]], written: int) -> list[str]:
    """Return the `headrace audit` figures of each fleet, summed over topics."""
    found = [f"  audit of {written} records written"]
    for key in ("source_records", "destination_records", "missing", "duplicates", "foreign", "unjudged"):
        values = [sum(row[key] for row in audits[name]) for name in sorted(audits)]
        found.append(f"  {key.replace('_', ' '):36}" + "".join(f"{value:>14}" for value in values))
    return found


def _coefficient(found: Deviation | None) -> str:
    return UNKNOWN if found is None else f"{found.coefficient:.2f}"


def _largest(found: Deviation | None) -> str:
    return UNKNOWN if found is None else f"{found.largest:.2f}"


def _plans(recording: Recording, fleet: str) -> list[PlanInForce]:
    return [plan for plan in recording.plans if plan.fleet == fleet]


def _span(recording: Recording, fleet: str) -> str:
    counts = [len(plan.tasks) for plan in _plans(recording, fleet)]
    return f"{min(counts)} to {max(counts)}"
