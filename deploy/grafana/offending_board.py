"""The board of offending partitions, which exceed the capacity of one task, from the samples in Pinot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard as board_builder

from deploy.grafana.panels import PINOT, PanelSeries, PinotQuery, Row, board, lines, pinot_lines, pinot_table

_WHEN: Final = "time_ms >= ${__from} and time_ms < ${__to}"
_CLUSTER: Final = "cluster = '${cluster}'"
_P95: Final = "percentile(inflow_bytes_per_second, 95)"
_MINUTE: Final = "datetrunc('minute', time_ms)"
_NAME: Final = "concat(topic, cast(kafka_partition as string), '-')"


def offending() -> board_builder.Dashboard:
    """Return the board of partitions that exceed the capacity of one task, from the samples in Pinot."""
    share = f"{_P95} / ${{usable}}"
    worst = (
        "select topic, kafka_partition, "
        f"{_P95} as p95, max(inflow_bytes_per_second) as largest, {share} as share_of_a_task, "
        "max(case when inflow_bytes_per_second <= ${usable} then time_ms else 0 end) as last_time_below "
        f"from partitionMetrics where {_CLUSTER} and {_WHEN} "
        f"group by topic, kafka_partition having {share} >= 0.5 order by {_P95} desc limit 100"
    )
    topics = (
        "select topic, distinctcount(kafka_partition) as partitions, avg(inflow_bytes_per_second) as mean, "
        "max(inflow_bytes_per_second) as largest, "
        "max(inflow_bytes_per_second) / avg(inflow_bytes_per_second) as skew "
        f"from partitionMetrics where {_CLUSTER} and {_WHEN} and inflow_bytes_per_second > 0 "
        "group by topic order by max(inflow_bytes_per_second) desc limit 50"
    )
    history = (
        f"select {_MINUTE} as minute_ms, {_NAME} as name, max(inflow_bytes_per_second) as value "
        f"from partitionMetrics where {_CLUSTER} and {_WHEN} "
        "and inflow_bytes_per_second >= 0.5 * ${usable} "
        f"group by {_MINUTE}, {_NAME} order by {_MINUTE} limit 20000"
    )
    fresh = (
        "select cluster, source, max(time_ms) as newest, count(*) as samples "
        f"from partitionMetrics where {_WHEN} group by cluster, source order by cluster, source limit 100"
    )
    rates = {"p95": "Bps", "largest": "Bps", "mean": "Bps", "share_of_a_task": "percentunit"}
    times = {"last_time_below": "dateTimeAsIso", "newest": "dateTimeAsIso"}
    found: Sequence[Row] = (
        (
            "Partitions",
            (
                pinot_table(
                    "Partitions that use at least half of a task",
                    PinotQuery("partitionMetrics", worst),
                    "above 100 % no placement helps: spread the keys, add partitions, or raise the capacity",
                    {**rates, **times},
                ),
                pinot_lines(
                    "Their load",
                    PinotQuery("partitionMetrics", history, "minute_ms"),
                    "Bps",
                    "largest sample of each minute",
                    24,
                ),
            ),
        ),
        (
            "Topics and samples",
            (
                pinot_table(
                    "Topics by their busiest partition",
                    PinotQuery("partitionMetrics", topics),
                    "a skew far above 1 is caused by the keys; more partitions do not help",
                    rates,
                    14,
                ),
                pinot_table(
                    "Time of the latest samples",
                    PinotQuery("partitionMetrics", fresh),
                    "by cluster and sampler",
                    times,
                    10,
                ),
                lines(
                    "Offending partitions in the plan",
                    [PanelSeries("max by (datastream) (headrace_offending_partitions)", "{{datastream}}")],
                    "none",
                    "of each datastream, in its latest planning run",
                    24,
                ),
            ),
        ),
    )
    made = board(
        "offending", "Headrace: offending partitions", "Partitions that exceed the capacity of a task", found
    )
    return (
        made.with_variable(board_builder.DatasourceVariable("pinot").label("Pinot").type(str(PINOT.type_val)))
        .with_variable(
            board_builder.TextBoxVariable("cluster").label("Source cluster").default_value("source")
        )
        .with_variable(
            board_builder.TextBoxVariable("usable").label("Usable bytes/s of a task").default_value("8000000")
        )
    )
