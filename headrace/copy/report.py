"""Prints the progress of `headrace copy`, and its report as a table or JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from headrace.console.terminal import StatusLine, note, print_json, print_table
from headrace.copy.run import CopyOutcome, CopyProgress
from mirror.jobs.copy_job import CopyJob, CopyPlan
from mirror.repeats import common_text
from mirror.wording import counted, duration_text, rate_text, size_text

_MOST_ROWS: Final = 40


class ProgressLine:
    """Prints the progress of a copy on one line that is overwritten, and each reason of a pause once."""

    def __init__(self) -> None:
        self._line = StatusLine()
        self._before: tuple[float, int, int] | None = None
        self._throttled: dict[str, float] = {}
        self._reported = 0

    def show(self, progress: CopyProgress, now: float) -> None:
        """Show the progress of the copy if a progress line is due."""
        if len(progress.reasons) > self._reported:
            causes = Counter(common_text(reason, name) for name, reason in progress.paused.items())
            for cause, (partition, reason) in list(progress.reasons.items())[self._reported :]:
                others = causes[cause] - 1
                more = f" and {counted(others, 'other partition')} pause" if others > 0 else " pauses"
                note(f"{partition}{more}: {reason}", soft_wrap=True)
            self._reported = len(progress.reasons)
        if not self._line.is_due(now):
            return
        then, records, size = self._before or (now, progress.records, progress.bytes)
        seconds = now - then
        rate = (progress.records - records) / seconds if seconds else 0.0
        speed = (progress.bytes - size) / seconds if seconds else 0.0
        if self._before is None or seconds >= 1.0:
            self._before = (now, progress.records, progress.bytes)
        parts = [f"{counted(progress.records, 'record', form=',')} copied", lag_text(progress)]
        if progress.paused:
            parts.append(f"{len(progress.paused)} paused")
        if rate > 0 and progress.lag and not progress.unknown:
            parts.append(f"{duration_text(progress.lag / rate)} remaining")
        parts += self._slowed(progress.throttled)
        parts.append(f"{rate_text(speed)} ({rate:,.0f} records/s)")
        parts += [
            f"{counted(progress.remaining, 'partition')} remaining",
            f"{size_text(progress.bytes)} total",
        ]
        self._line.show(parts)

    def _slowed(self, throttled: Mapping[str, float]) -> list[str]:
        """Return a text for each cluster whose quotas have throttled the copy since the last progress
        line."""
        before, self._throttled = self._throttled, dict(throttled)
        return [
            f"throttled by the broker quota of {name}"
            for name, seconds in throttled.items()
            if seconds > before.get(name, 0.0)
        ]

    def end(self) -> None:
        """End the progress line."""
        self._line.end()


def lag_text(progress: CopyProgress) -> str:
    """Format the lag of a copy: a number of records, or that it is unknown."""
    if not progress.unknown:
        return f"lag {progress.lag:,}"
    if progress.unknown >= progress.remaining:
        return "lag unknown"
    return f"lag {progress.lag:,} or more, unknown for {counted(progress.unknown, 'partition')}"


def print_plan(plan: CopyPlan) -> None:
    """Print the changes to destination topics, and settings in which they differ from the source."""
    for names, word in ((plan.changes.created, "created"), (plan.changes.grown, "grown")):
        if names:
            note(f"{counted(len(names), 'topic')} {word} at the destination: {_some(names)}")
    for sentence in plan.changes.drift[:10]:
        note(f"note: {sentence}")
    kept = sorted(
        {f"{key}={value}" for entry in plan.changes.supplied.values() for key, value in entry.items()}
    )
    if kept:
        note(f"new topics get these broker defaults of the source: {', '.join(kept)}", soft_wrap=True)
    for sentence in plan.changes.adjusted[:10]:
        note(f"warning: {sentence}", soft_wrap=True)
    unread = [name for name, keys in plan.changes.not_carried.items() if "*" in keys]
    if unread:
        note(f"warning: created without the settings of the source: {_some(unread)}", soft_wrap=True)
    for name, reason in plan.failures.items():
        note(f"error: cannot copy {name}: {reason}", soft_wrap=True)
    for remark in plan.remarks:
        note(f"warning: {remark}", soft_wrap=True)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def document_of(
    job: CopyJob, plan: CopyPlan, outcome: CopyOutcome, throttled: Mapping[str, float], seconds: float
) -> dict[str, Any]:
    """Return the report of a copy as a JSON document.

    `complete`: every partition has reached its end offset, and nothing is in flight. `cpu_seconds` of a
    partition: its estimated share of the CPU time.
    """
    ends = {(spec.key.partition.topic, spec.key.partition.partition): spec.end_offset for spec in plan.specs}
    lanes = sorted(outcome.lanes, key=lambda lane: (lane["topic"], lane["partition"]))
    costs = [lane.pop("cost_us") for lane in lanes]
    all_costs = max(sum(costs), 1)
    for lane, cost in zip(lanes, costs, strict=True):
        lane["end_offset"] = ends.get((lane["topic"], lane["partition"]))
        lane["cpu_seconds"] = round(outcome.cpu_seconds * cost / all_costs, 4)
    copied = sum(lane["bytes"] for lane in lanes)
    return {
        "state": job.state,
        "source": job.source,
        "destination": job.destination,
        "guarantee": job.policy.guarantee,
        "isolation": job.policy.isolation,
        "complete": not plan.failures
        and len(lanes) == len(ends)
        and all(_is_complete(lane) for lane in lanes),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        "peak_rss_bytes": outcome.peak_rss_bytes,
        "records": sum(lane["records"] for lane in lanes),
        "bytes": copied,
        "cpu_seconds_per_gb": round(outcome.cpu_seconds / (copied / 1e9), 3) if copied else None,
        "created_topics": plan.changes.created,
        "grown_topics": plan.changes.grown,
        "drift": plan.changes.drift,
        "supplied_settings": plan.changes.supplied,
        "adjusted_settings": plan.changes.adjusted,
        "settings_not_carried": plan.changes.not_carried,
        "remarks": list(plan.remarks),
        "left_out": plan.failures,
        "throttled_seconds": {name: round(seconds, 3) for name, seconds in sorted(throttled.items())},
        "restarts": outcome.restarts,
        "failures": [
            *(f"cannot copy {name}: {reason}" for name, reason in plan.failures.items()),
            *outcome.failures,
        ],
        "partitions": lanes,
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _is_complete(lane: dict[str, Any]) -> bool:
    end = lane["end_offset"]
    return end is not None and lane["next_offset"] >= end and not lane["reason"]


def print_outcome(document: dict[str, Any], *, as_json: bool) -> None:
    """Print the report of a copy as JSON, or a summary as a table."""
    if as_json:
        print_json(document)
        return
    rows = [
        {
            "partition": f"{lane['topic']}-{lane['partition']}",
            "offsets": f"{lane['start_offset']} … {lane['next_offset']}",
            **{name: count for name, count in lane["offsets"].items() if count},
            "batches": sum(lane["batches"].values()),
            "passthrough": lane["batches"]["passthrough"],
            "map_runs": lane["map_runs"],
            "state": lane["reason"] or lane["state"],
        }
        for lane in document["partitions"]
    ]
    rows += [
        {"partition": name, "offsets": "-", "state": f"not copied: {reason}"}
        for name, reason in document["left_out"].items()
    ]
    interesting = [
        row for row in rows if row["state"] not in ("stopped", "draining", "checkpointing")
    ] or rows
    columns = ["partition", "offsets", *_classes(rows), "batches", "passthrough", "map_runs", "state"]
    print_table(_title(document), columns, interesting[:_MOST_ROWS])


def _classes(rows: list[dict[str, Any]]) -> list[str]:
    offset_classes = ("mirrored", "control", "aborted", "filtered", "compacted", "lost", "dead_lettered")
    return [offset_class for offset_class in offset_classes if any(offset_class in row for row in rows)]


def _title(document: dict[str, Any]) -> str:
    rate = document["bytes"] / document["seconds"] if document["seconds"] else 0.0
    return (
        f"{counted(document['records'], 'record', form=',')}, {size_text(document['bytes'])} "
        f"in {duration_text(document['seconds'])}"
        f" ({rate_text(rate)}), {document['cpu_seconds']:.1f} CPU seconds"
        f"{slowed(document)}"
        f"{'' if document['complete'] else ', incomplete'}"
    )


def slowed(document: Mapping[str, Any]) -> str:
    """Return the end of a table title that names the clusters whose quotas throttled the copy."""
    return "".join(
        f", throttled by the broker quota of {name} for {duration_text(seconds)}"
        for name, seconds in document["throttled_seconds"].items()
    )
