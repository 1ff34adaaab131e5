"""Table of metrics of MirrorMaker 2 and Brooklin with their equivalents in Headrace."""

from __future__ import annotations

from typing import Final, NamedTuple


class MetricEquivalent(NamedTuple):
    """Metrics of another mirror (`theirs`), and their equivalent. `ours`: PromQL expression, empty if there
    is none; `note`: differences."""

    theirs: str
    ours: str
    note: str


MIRROR_MAKER: Final = (
    MetricEquivalent("record-count", "headrace_records_total", "by task; theirs by partition"),
    MetricEquivalent("record-rate", "rate(headrace_records_total[1m])", ""),
    MetricEquivalent(
        "byte-count", "headrace_bytes_total", "as fetched, compressed; theirs after decompression"
    ),
    MetricEquivalent("byte-rate", "rate(headrace_bytes_total[1m])", "likewise"),
    MetricEquivalent(
        "replication-latency-ms, …-avg, …-min, …-max",
        "histogram_quantile(0.99, sum by (datastream, le) (rate(headrace_latency_seconds_bucket[5m])))",
        "up to the acknowledgement, any percentile; theirs has no percentiles",
    ),
    MetricEquivalent(
        "record-age-ms, …-avg, …-min, …-max",
        'rate(headrace_latency_stage_seconds_total{stage="source"}[5m])',
        "latency before a record is fetched; divide by the rate of `headrace_batches_total`",
    ),
    MetricEquivalent("(no lag)", "headrace_lag_records", "MirrorMaker 2 has none"),
    MetricEquivalent("(no lag in time)", "headrace_lag_seconds", "MirrorMaker 2 has none"),
    MetricEquivalent("checkpoint-latency-ms", "", "positions are translated on request"),
    MetricEquivalent(
        "connector-failed-task-count", "headrace_part_healthy", "and `headrace_datastream_problem`"
    ),
    MetricEquivalent("task-startup-failure-total", "headrace_worker_deaths_total", ""),
    MetricEquivalent("source-record-active-count", "headrace_lanes", "in-flight data is limited in bytes"),
)
"""Metrics of `MirrorSourceConnector`, `MirrorCheckpointConnector` and their Connect worker."""

BROOKLIN: Final = (
    MetricEquivalent("totalEventsProduced", "headrace_records_total", ""),
    MetricEquivalent("eventProduceRate, eventsProcessedRate", "rate(headrace_records_total[1m])", ""),
    MetricEquivalent(
        "bytesProducedRate, eventsByteProcessedRate", "rate(headrace_bytes_total[1m])", "compressed"
    ),
    MetricEquivalent(
        "eventsLatencyMs",
        "histogram_quantile(0.99, sum by (datastream, le) (rate(headrace_latency_seconds_bucket[5m])))",
        "",
    ),
    MetricEquivalent(
        "eventsSendLatencyMs",
        'rate(headrace_latency_stage_seconds_total{stage="produce"}[5m])',
        "divide by the rate of `headrace_batches_total`",
    ),
    MetricEquivalent(
        "eventsProducedWithinSla, eventsProducedOutsideSla",
        "headrace_error_budget_left_ratio",
        "for the objective of each datastream, over its period; the buckets of "
        "`headrace_latency_seconds` cover any threshold",
    ),
    MetricEquivalent("droppedSentFromSerializationError", "headrace_lanes", "no drops: the lane pauses"),
    MetricEquivalent("isLeader", "headrace_leader", ""),
    MetricEquivalent("zkSessionExpired", "headrace_part_healthy", "/v1/health has the problem of each part"),
    MetricEquivalent("numDatastreamTasks, numTasks", "headrace_tasks", ""),
    MetricEquivalent(
        "elasticTaskParametersNeedAdjustment", "headrace_tasks_required", "see `headrace_tasks`"
    ),
    MetricEquivalent("numPartitions", "sum by (datastream) (headrace_lanes)", ""),
    MetricEquivalent("numConfigPausedPartitions", 'headrace_paused_partitions{by="person"}', ""),
    MetricEquivalent("numAutoPausedPartitionsOnError", 'headrace_paused_partitions{by="itself"}', ""),
    MetricEquivalent(
        "numAutoPausedPartitionsOnInFlightMessages",
        "headrace_held_back_lanes",
        "lanes do not pause for it; counts lanes that a quota slows down",
    ),
    MetricEquivalent("stuckPartitions", 'headrace_partitions{state="STALL"}', ""),
    MetricEquivalent("consumerLiclosestDataLossEstimation", "headrace_time_to_loss_seconds", "in seconds"),
    MetricEquivalent("numTaskRestarts", "headrace_worker_deaths_total", ""),
    MetricEquivalent(
        "numPausedDatastreamsGroups", "headrace_paused_partitions", "as partitions, by datastream"
    ),
    MetricEquivalent(
        "minPartitionsAcrossTasks, maxPartitionsAcrossTasks",
        "headrace_tasks_overloaded",
        "partition counts differ on purpose, because placement is by load",
    ),
    MetricEquivalent(
        "throughputInfoFetchRate", "headrace_loads", "and `headrace_loads_measured_timestamp_seconds`"
    ),
    MetricEquivalent(
        "numRebalances, numPartitionMovements", "changes(headrace_plan_epoch[1h])", "and the events"
    ),
)
"""Metrics of Brooklin's coordinator, connector, tasks, producer and assignment, by the last part of their JMX
names."""
