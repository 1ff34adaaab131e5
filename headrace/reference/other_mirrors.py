"""What metrics of MirrorMaker 2 and Brooklin are called here."""

from __future__ import annotations

from typing import Final, NamedTuple


class Renamed(NamedTuple):
    """`theirs`: names that say the same thing; `ours`: an expression in Prometheus' language, empty where
    there is none; `note`: what differs."""

    theirs: str
    ours: str
    note: str


MIRROR_MAKER: Final = (
    Renamed("record-count", "headrace_records_total", "by task; theirs by partition"),
    Renamed("record-rate", "rate(headrace_records_total[1m])", ""),
    Renamed("byte-count", "headrace_bytes_total", "as fetched, compressed; theirs after decompression"),
    Renamed("byte-rate", "rate(headrace_bytes_total[1m])", "likewise"),
    Renamed(
        "replication-latency-ms, …-avg, …-min, …-max",
        "histogram_quantile(0.99, sum by (datastream, le) (rate(headrace_latency_seconds_bucket[5m])))",
        "any percentile, to the acknowledgement; theirs has no percentile",
    ),
    Renamed(
        "record-age-ms, …-avg, …-min, …-max",
        'rate(headrace_latency_stage_seconds_total{stage="source"}[5m])',
        "the part of the latency before a record is fetched; divide by the rate of `headrace_batches_total`",
    ),
    Renamed("(no lag)", "headrace_lag_records", "MirrorMaker 2 has none"),
    Renamed("(no age of what waits)", "headrace_lag_seconds", "MirrorMaker 2 has none"),
    Renamed("checkpoint-latency-ms", "", "positions are translated when somebody asks"),
    Renamed("connector-failed-task-count", "headrace_part_healthy", "and `headrace_datastream_problem`"),
    Renamed("task-startup-failure-total", "headrace_worker_deaths_total", ""),
    Renamed("source-record-active-count", "headrace_lanes", "what is in flight is bounded in bytes"),
)
"""Of `MirrorSourceConnector`, `MirrorCheckpointConnector` and the Connect worker that runs them."""

BROOKLIN: Final = (
    Renamed("totalEventsProduced", "headrace_records_total", ""),
    Renamed("eventProduceRate, eventsProcessedRate", "rate(headrace_records_total[1m])", ""),
    Renamed("bytesProducedRate, eventsByteProcessedRate", "rate(headrace_bytes_total[1m])", "compressed"),
    Renamed(
        "eventsLatencyMs",
        "histogram_quantile(0.99, sum by (datastream, le) (rate(headrace_latency_seconds_bucket[5m])))",
        "",
    ),
    Renamed(
        "eventsSendLatencyMs",
        'rate(headrace_latency_stage_seconds_total{stage="produce"}[5m])',
        "divide by the rate of `headrace_batches_total`",
    ),
    Renamed(
        "eventsProducedWithinSla, eventsProducedOutsideSla",
        "headrace_error_budget_left_ratio",
        "of the objective that each datastream has, over its period; the buckets of "
        "`headrace_latency_seconds` count for any threshold",
    ),
    Renamed("droppedSentFromSerializationError", "headrace_lanes", "nothing is dropped: its lane pauses"),
    Renamed("isLeader", "headrace_leader", ""),
    Renamed("zkSessionExpired", "headrace_part_healthy", "each part says in /v1/health what is wrong"),
    Renamed("numDatastreamTasks, numTasks", "headrace_tasks", ""),
    Renamed("elasticTaskParametersNeedAdjustment", "headrace_tasks_required", "beside `headrace_tasks`"),
    Renamed("numPartitions", "sum by (datastream) (headrace_lanes)", ""),
    Renamed("numConfigPausedPartitions", 'headrace_paused_partitions{by="person"}', ""),
    Renamed("numAutoPausedPartitionsOnError", 'headrace_paused_partitions{by="itself"}', ""),
    Renamed(
        "numAutoPausedPartitionsOnInFlightMessages",
        "headrace_held_back_lanes",
        "lanes do not pause for it; those that a quota holds back are counted",
    ),
    Renamed("stuckPartitions", 'headrace_partitions{state="STALL"}', ""),
    Renamed("consumerLiclosestDataLossEstimation", "headrace_time_to_loss_seconds", "in seconds"),
    Renamed("numTaskRestarts", "headrace_worker_deaths_total", ""),
    Renamed("numPausedDatastreamsGroups", "headrace_paused_partitions", "as partitions, by datastream"),
    Renamed(
        "minPartitionsAcrossTasks, maxPartitionsAcrossTasks",
        "headrace_tasks_overloaded",
        "counts of partitions differ on purpose; what counts is the load",
    ),
    Renamed("throughputInfoFetchRate", "headrace_loads", "and `headrace_loads_measured_timestamp_seconds`"),
    Renamed("numRebalances, numPartitionMovements", "changes(headrace_plan_epoch[1h])", "and the events"),
)
"""Of its coordinator, connector, tasks, producer and assignment, by the last part of their JMX names."""
