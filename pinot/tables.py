"""All Pinot tables of Headrace: names, columns, keys and retention.

Only this module defines names of tables and columns. Columns of tables that the mirror writes come from its
record classes. Tables that other packages write (`PartitionMetric` …) are declared here. `schemas.py`
converts a definition to Pinot's JSON and to the Avro schema of its topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror.errors import NotFound
from mirror.model.audit_window import AuditWindow
from mirror.model.metrics import MIRROR_METRIC_VERSION, MirrorMetric, PlacementEvent
from mirror.model.rows import Column, ColumnType, columns_of

UNKNOWN: Final = -1
"""Number that Pinot stores for null.

Rows also contain UNKNOWN in `bytes_out` if that rate is unknown, because the column was published as not
nullable and its Avro type cannot change. No real value in these tables is negative.
"""


@dataclass(frozen=True, slots=True)
class SampledPartition:
    """A partition, and the broker that leads it."""

    datacenter: str
    cluster: str
    topic: str
    kafka_partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class LogGrowth:
    """Number of bytes by which a partition's log has grown, and in how many ms; both are 0 if unknown."""

    growth_bytes: float
    growth_ms: int


@dataclass(frozen=True, slots=True)
class PartitionMetric:
    """One sample of one partition at `time_ms`. Rates per second, sizes in bytes.

    `bytes_in_per_second` and `messages_in_per_second` are as sampled: with Cruise Control an average over the
    topic's partitions on that broker. `bytes_out_per_second` is UNKNOWN if the sampler cannot measure it,
    such as Headrace's sampler. `growth` is the growth since the previous sample. `inflow_bytes_per_second` is
    the best known rate of the partition: the rate of its growth; if unknown, the last known rate; if there is
    none, the sampled rate. `shrunk` is 1 if the log was smaller than before. `source` names the sampler (see
    `pmp.settings`).
    """

    time_ms: int
    partition: SampledPartition
    source: str
    bytes_in_per_second: float
    bytes_out_per_second: float
    messages_in_per_second: float
    size_bytes: float
    growth: LogGrowth
    inflow_bytes_per_second: float
    shrunk: int


@dataclass(frozen=True, slots=True)
class PartitionMetricHourly:
    """Rollup of one partition's samples in the hour from `hour_ms`, in the units of `PartitionMetric`.

    `mean`, `p95` and `max` are statistics of the inflow. `sampled_…` is the mean of the sampled rate.
    `growth` is the sum over the hour. Rates of bytes out and of messages are UNKNOWN unless every sample has
    them.
    """

    hour_ms: int
    partition: SampledPartition
    samples: int
    mean_bytes_per_second: float
    p95_bytes_per_second: float
    max_bytes_per_second: float
    sampled_bytes_per_second: float
    mean_messages_per_second: float
    p95_messages_per_second: float
    max_messages_per_second: float
    mean_bytes_out_per_second: float
    size_bytes: float
    growth: LogGrowth
    shrunk: int


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """State of an incident at `changed_ms` (epoch ms).

    Unknown numbers are -1; so is `closed_ms` while the incident is open. `matters`: comma-separated names of
    alerts; `evidence` and `timeline` are JSON. `budget_spent`: largest share of an error budget that the
    incident used up. `is_late`: 1 if an objective is missed now, otherwise 0. `records_delivered`: number of
    records from the incident's start to its end. `records_late`: number of these records that were late, for
    the objective that the most records missed.
    """

    changed_ms: int
    id: str
    datastream: str
    cluster: str
    opened_ms: int
    closed_ms: int | None
    worst_ms: float | None
    is_late: int
    matters: str
    cause: str
    evidence: str
    bad_seconds: float
    unknown_seconds: float
    budget_spent: float | None
    timeline: str
    records_delivered: int | None
    records_late: float | None


class Statistic(StrEnum):
    """Statistic that represents a partition's load over a time range."""

    MEAN = "mean"
    P95 = "p95"
    MAX = "max"


@dataclass(frozen=True)
class Table:
    """Definition of a realtime table of Pinot.

    `key` must be a function of the Kafka message key, so that equal keys are in one partition. `inverted`:
    columns that queries filter on. `long`: texts of more than 512 characters.
    """

    name: str
    topic: str
    columns: tuple[Column, ...]
    time_column: str
    retention_days: int
    key: tuple[str, ...] = ()
    nullable: frozenset[str] = frozenset()
    inverted: tuple[str, ...] = ()
    long: frozenset[str] = frozenset()
    version: int = 1

    @property
    def dimensions(self) -> tuple[Column, ...]:
        """Columns by which queries select and group: texts, and numbers that identify something."""
        named = {*self.key, "kafka_partition", "broker", "plan_epoch", "bucket_start_ms", "bucket_end_ms"}
        return tuple(
            c
            for c in self.columns
            if c.name != self.time_column and (c.type is ColumnType.STRING or c.name in named)
        )

    @property
    def metrics(self) -> tuple[Column, ...]:
        """Columns that queries aggregate."""
        dimensions = set(self.dimensions)
        return tuple(c for c in self.columns if c.name != self.time_column and c not in dimensions)


PARTITION_METRICS: Final = Table(
    name="partitionMetrics",
    topic="headrace-partition-metrics",
    columns=columns_of(PartitionMetric),
    time_column="time_ms",
    retention_days=3,
    key=("cluster", "topic", "kafka_partition", "time_ms"),
    nullable=frozenset({"messages_in_per_second"}),
    inverted=("cluster", "topic"),
)

PARTITION_METRICS_HOURLY: Final = Table(
    name="partitionMetricsHourly",
    topic="headrace-partition-metrics-hourly",
    columns=columns_of(PartitionMetricHourly),
    time_column="hour_ms",
    retention_days=42,
    key=("cluster", "topic", "kafka_partition", "hour_ms"),
    nullable=frozenset({"mean_messages_per_second", "p95_messages_per_second", "max_messages_per_second"}),
    inverted=("cluster", "topic"),
)

MIRROR_METRICS: Final = Table(
    name="mirrorMetrics",
    topic="headrace-mirror-metrics",
    columns=columns_of(MirrorMetric),
    version=MIRROR_METRIC_VERSION,
    time_column="time_ms",
    retention_days=14,
    inverted=("datastream", "topic"),
)

PLACEMENT_EVENTS: Final = Table(
    name="placementEvents",
    topic="headrace-placement-events",
    columns=columns_of(PlacementEvent),
    time_column="time_ms",
    retention_days=90,
    key=("event_key",),
    inverted=("datastream", "kind"),
)

AUDIT_WINDOWS: Final = Table(
    name="auditWindows",
    topic="headrace-audit-windows",
    columns=columns_of(AuditWindow),
    time_column="time_ms",
    retention_days=14,
    key=("id",),
    inverted=("datastream", "topic"),
    long=frozenset({"findings"}),
    version=2,
)

INCIDENTS: Final = Table(
    name="incidents",
    topic="headrace-incident-rows",
    columns=columns_of(IncidentRow),
    time_column="changed_ms",
    retention_days=90,
    key=("id",),
    inverted=("datastream",),
    long=frozenset({"evidence", "timeline"}),
    version=2,
)

TABLES: Final = (
    PARTITION_METRICS,
    PARTITION_METRICS_HOURLY,
    MIRROR_METRICS,
    PLACEMENT_EVENTS,
    AUDIT_WINDOWS,
    INCIDENTS,
)


def table_named(name: str) -> Table:
    """Return the definition of the table with that name. Raises NotFound."""
    for table in TABLES:
        if table.name == name:
            return table
    raise NotFound(f"unknown table {name}", advice=f"known: {', '.join(t.name for t in TABLES)}")
