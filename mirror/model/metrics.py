"""Measurements of lanes, and placement events.

Headrace writes these records to topics, Pinot stores them, and the monitor evaluates them. `rows.py` derives
the columns and the Avro schema from these classes. Field names are not SQL keywords. Histograms
(`latency.py`) contain counts per bucket, so they can be added over partitions, tasks and time.

`MirrorMetric` is the single definition of the measurements of a lane: its fields and their `Series` define
the columns in Pinot, the task sums that workers report, the counters of /metrics and the rates of /v1/lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple

WAIT_SLOT_MS: Final = 10_000
"""Length of the time slots in which Headrace records whether records waited, in ms. Lanes are measured at
least once per slot."""
LATENCY_SERIES: Final = "headrace_latency_stage_seconds"
"""Counter whose stages add up to the total latency of all batches."""
_LATENCY_TEXT: Final = "latency of all batches by stage; divide by headrace_batches"
_SERIES: Final = "series"


@dataclass(frozen=True, slots=True)
class Series:
    """Describes how a summable field of measurements is shown as a counter of each task.

    `divisor`: converts the field to the unit in the name of the counter. `label`, `value`: distinguish fields
    that share a counter. `less`: field to subtract, because another label already counts it. `of_lanes`:
    whether /v1/lanes shows the rate for each lane.
    """

    name: str
    text: str
    divisor: float = 1.0
    label: Mapping[str, str] = field(default_factory=dict)
    less: str = ""
    of_lanes: bool = False


def _counter(name: str, text: str, **more: Any) -> Mapping[str, Series]:
    return {_SERIES: Series(name, text, **more)}


def _stage(name: str) -> Mapping[str, Series]:
    return _counter(LATENCY_SERIES, _LATENCY_TEXT, divisor=1000.0, label={"stage": name}, of_lanes=True)


@dataclass(frozen=True, slots=True)
class LaneInterval:
    """The lane that was measured, and the interval: `interval_ms` long, up to `time_ms` (epoch ms)."""

    time_ms: int
    interval_ms: int
    instance: str
    task: str
    datastream: str
    source_cluster: str
    topic: str
    kafka_partition: int


@dataclass(frozen=True, slots=True)
class MirrorMetric(LaneInterval):
    """Measurements of one partition during an interval.

    `bytes_copied`: bytes as fetched, usually compressed. `lag_records`: end of the source log minus position,
    at `time_ms`. `lag_ms`: age of the oldest readable source record that is not acknowledged, 0 if there is
    none, None if unknown, for example while the source does not respond. Records hidden by an open
    transaction are not readable and do not count. The published value excludes records that do not count
    against an objective (`mirror.model.movement.exemptions`). `latency_counts`: number of records per latency
    bucket, without the excluded records. The latency is the time of the acknowledgement minus the timestamp
    of the batch's newest record. `uncompressed_bytes`: uncompressed size of the batches where it is known
    without decompression. `wait_ms` … `produce_ms`: sums of the latency of all batches by stage: waiting at
    the source, fetch, queue in the mirror, produce until acknowledged. `cpu_ms`: share of the worker's CPU
    time attributed to the lane; `spare_cpu_ms`: part of `cpu_ms` spent on small responses and small batches,
    which the same bytes would not cost in a backlog. Fields that add up over partitions and time, except
    `latency_counts`, have a `Series`. Append new fields at the end and increment `MIRROR_METRIC_VERSION`.
    """

    records_copied: int = field(metadata=_counter("headrace_records", "records copied", of_lanes=True))
    bytes_copied: int = field(metadata=_counter("headrace_bytes", "bytes copied, as fetched"))
    batches: int = field(
        metadata=_counter(
            "headrace_batches",
            "batches written",
            label={"path": "opened"},
            less="passthrough_batches",
            of_lanes=True,
        )
    )
    passthrough_batches: int = field(
        metadata=_counter("headrace_batches", "batches written", label={"path": "passthrough"}, of_lanes=True)
    )
    lag_records: int
    lag_ms: int | None
    latency_counts: tuple[int, ...]
    uncompressed_bytes: int = field(
        default=0,
        metadata=_counter(
            "headrace_uncompressed_bytes", "bytes before compression, for batches with a known size"
        ),
    )
    wait_ms: float = field(default=0.0, metadata=_stage("source"))
    fetch_ms: float = field(default=0.0, metadata=_stage("fetch"))
    queue_ms: float = field(default=0.0, metadata=_stage("queue"))
    produce_ms: float = field(default=0.0, metadata=_stage("produce"))
    cpu_ms: float = field(
        default=0.0,
        metadata=_counter(
            "headrace_cpu_seconds", "CPU time of the worker, by its tasks", divisor=1000.0, of_lanes=True
        ),
    )
    spare_cpu_ms: float = field(
        default=0.0,
        metadata=_counter(
            "headrace_spare_cpu_seconds",
            "part of headrace_cpu_seconds that copying the same bytes from a backlog would save",
            divisor=1000.0,
        ),
    )


MIRROR_METRIC_VERSION: Final = 3
"""Version of the columns of `MirrorMetric`."""

SUMMED: Final[Mapping[str, Series]] = {
    field.name: field.metadata[_SERIES] for field in fields(MirrorMetric) if _SERIES in field.metadata
}
"""Fields of `MirrorMetric` that can be added over partitions and time, except `latency_counts`."""

LATENCY_STAGES: Final = tuple(name for name, series in SUMMED.items() if series.name == LATENCY_SERIES)
"""Fields whose sum is the total latency of all batches."""

SHOWN_OF_LANES: Final = tuple(name for name, series in SUMMED.items() if series.of_lanes)
"""Fields of `MirrorMetric` whose rates /v1/lanes shows."""


class ChangeKind(StrEnum):
    """Kind of placement event.

    PROBLEM: a datastream is excluded from the plan, or included again. REQUEST: a request failed. LOADS: the
    loads of a source cluster are stale or unavailable, or available again. COMMAND: an operator's action on a
    datastream. INSTANCE: an instance lost its session. WORKER: an instance lost a worker process and replaces
    it.
    """

    PLAN = "plan"
    DATASTREAM = "datastream"
    MOVE = "move"
    PROBLEM = "problem"
    REQUEST = "request"
    LOADS = "loads"
    COMMAND = "command"
    INSTANCE = "instance"
    WORKER = "worker"
    OTHER = "other"
    """Kind that a newer version has written and this version does not know."""

    @classmethod
    def _missing_(cls, _value: object) -> ChangeKind:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class PlacementEvent:
    """A published change of the plan, or of one partition if `topic` is not empty.

    `event_key`: unique key, so that an event that is published twice counts once. `sentence`: decision and
    reason. `bytes_per_second`: load of the moved partition, None if unknown or not a move.
    """

    time_ms: int
    event_key: str
    kind: ChangeKind
    plan_epoch: int
    instance: str
    datastream: str
    topic: str
    kafka_partition: int
    from_task: str
    to_task: str
    from_instance: str
    to_instance: str
    bytes_per_second: float | None
    sentence: str


class EventHistory(NamedTuple):
    """Content of an event log.

    `first`: number of the log's first publication. Each log starts at a random number, so that a position in
    a lost log is recognized. `publications`: stored publications by number, oldest first; dropped ones are
    missing.
    """

    first: int
    publications: Mapping[int, tuple[PlacementEvent, ...]]


NO_EVENTS: Final = EventHistory(0, {})
"""Content of an event log without any publication."""


class WorkerLoss(NamedTuple):
    """Unexpected end of a worker process. `time_ms`: time of the event (epoch ms). `how`: exit code or
    signal. `lanes`: number of partitions that the process copied."""

    time_ms: int
    worker: int
    how: str
    lanes: int


@dataclass(frozen=True, slots=True)
class Drops:
    """Records of metrics or events that were dropped before delivery. `count`: number of drops since the
    start. `reason`: reason of the first drop while records are being dropped, otherwise empty."""

    count: int = 0
    reason: str = ""


def total_of(drops: Iterable[Drops]) -> Drops:
    """Return the sum of several `Drops`, with the first reason that is not empty."""
    every = tuple(drops)
    return Drops(sum(part.count for part in every), next((part.reason for part in every if part.reason), ""))
