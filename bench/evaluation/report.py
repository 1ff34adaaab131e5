"""Figures of a run, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from bench.evaluation.deviation import (
    Deviation,
    by_instance,
    by_task,
    latency_counts,
    mean_deviation,
    task_seconds,
)
from bench.evaluation.records import PlanInForce, Recording
from mirror.model.metrics import percentile_ms

UNKNOWN: Final = "unknown"
_WAYS: Final = (("tasks", by_task), ("instances", by_instance))
_VALUES: Final = ("bytes", "records")


def lines(recording: Recording) -> list[str]:
    """Return a table with a column for each fleet."""
    fleets = recording.fleets
    rows = [("", fleets)]
    for kinds, way in _WAYS:
        for value in _VALUES:
            found = [mean_deviation(way(recording, fleet, attrgetter(value)).values()) for fleet in fleets]
            rows.append((f"{value} over {kinds}, deviation/mean", [_coefficient(one) for one in found]))
            rows.append((f"{value} over {kinds}, largest/mean", [_largest(one) for one in found]))
    for percent in (50, 99):
        found_ms = [percentile_ms(latency_counts(recording, fleet), percent) for fleet in fleets]
        rows.append(
            (
                f"latency p{percent}, ms",
                [UNKNOWN if found_m is None else f"{found_m:.0f}" for found_m in found_ms],
            )
        )
    rows.append(("task-hours", [f"{task_seconds(recording, fleet) / 3600:.2f}" for fleet in fleets]))
    rows.append(("tasks, fewest and most", [_span(recording, fleet) for fleet in fleets]))
    rows.append(("plans", [str(len(_plans(recording, fleet))) for fleet in fleets]))
    rows.append(
        ("partitions moved", [str(sum(o.moved for o in _plans(recording, fleet))) for fleet in fleets])
    )
    copied = [[o for o in recording.loads if o.fleet == fleet] for fleet in fleets]
    rows.append(("copied, MB", [f"{sum(o.bytes for o in own) / 1e6:.1f}" for own in copied]))
    rows.append(("copied, records", [str(sum(o.records for o in own)) for own in copied]))
    return [f"  {name:36}" + "".join(f"{value:>14}" for value in values) for name, values in rows]


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
