"""The boards for Grafana, as code: `python -m deploy.grafana.boards` writes the JSON files in this folder.

Import them in Grafana (Dashboards, Import), or provision the folder. Data sources are variables of each
board: a Prometheus, and for the offending partitions a Pinot with the plugin `startree-pinot-datasource`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard as board_builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from deploy.grafana.offending_board import offending
from deploy.grafana.panels import PROMETHEUS, AxisLimits, PanelSeries, Row, board, lines, listing, number

FOLDER: Final = Path(__file__).parent
_BY_DATASTREAM: Final = "{{datastream}}"
_MINE: Final = '{datastream="$datastream"}'


def on_call() -> board_builder.Dashboard:
    """Return the board for on-call engineers: current problems, where and since when."""
    numbers = (
        number(
            "Leaders", "sum(headrace_leader)", "none", "1; plans stop while it is 0", AxisLimits(1, 0, True)
        ),
        number(
            "Objectives missed",
            'sum(headrace_objective_standing{standing="breached"})',
            "none",
            "datastreams that currently miss an objective",
            AxisLimits(1, 1),
        ),
        number(
            "Cannot be planned",
            "sum(max by (datastream) (headrace_datastream_problem)) or vector(0)",
            "none",
            "datastreams that cannot be prepared or planned: `headrace datastream get` shows the reason",
            AxisLimits(1, 1),
        ),
        number(
            "Longest wait",
            "max(headrace_lag_seconds)",
            "s",
            "age of the oldest record that is not copied",
            AxisLimits(60, 300),
        ),
        number(
            "First loss in",
            "min(headrace_time_to_loss_seconds)",
            "s",
            "time until a source deletes records that are not copied; no data while no partition lags",
            AxisLimits(86_400, 3_600, True),
        ),
        number(
            "Not copied",
            "sum(headrace_unplaced_partitions) + sum(headrace_paused_partitions)",
            "none",
            "partitions without a task, or paused (by an operator or automatically)",
            AxisLimits(1, 10),
        ),
    )
    late = (
        lines(
            "Age of the oldest waiting record",
            [PanelSeries("max by (datastream) (headrace_lag_seconds)", _BY_DATASTREAM)],
            "s",
            "maximum over the partitions of each datastream",
        ),
        lines(
            "Latency, 99th percentile",
            [
                PanelSeries(
                    "histogram_quantile(0.99, sum by (datastream, le) "
                    "(rate(headrace_latency_seconds_bucket[$__rate_interval])))",
                    _BY_DATASTREAM,
                )
            ],
            "s",
            "from a record's timestamp to its acknowledgement at the destination",
        ),
        lines(
            "Unhealthy partitions",
            [
                PanelSeries(
                    'sum by (datastream, state) (headrace_partitions{state!~"OK|CATCHING_UP"}) > 0',
                    "{{datastream}} {{state}}",
                )
            ],
            "none",
            "by copy state: docs/operate/states.md",
        ),
        listing(
            "Remaining error budget",
            "sort(min by (datastream, objective) (headrace_error_budget_left_ratio))",
            "percentunit",
            "of each objective over its period; below 0 if the objective was missed",
        ),
    )
    service = (
        lines(
            "Unhealthy components",
            [PanelSeries("headrace_part_healthy == 0", "{{instance}} {{part}}")],
            "none",
            "`GET /v1/health` of that instance shows the reason",
            8,
        ),
        lines(
            "Worker crashes",
            [PanelSeries("sum by (instance) (increase(headrace_worker_deaths_total[15m]))", "{{instance}}")],
            "none",
            "in 15 minutes; crashed workers are restarted",
            8,
        ),
        lines(
            "Undelivered alerts",
            [PanelSeries("max by (receiver) (headrace_alerts_waiting)", "{{receiver}}")],
            "none",
            "alerts whose latest state a receiver has not accepted",
            8,
        ),
    )
    rows: Sequence[Row] = (("Now", numbers), ("Latency by datastream", late), ("The service itself", service))
    return board("on-call", "Headrace: on call", "Current problems, where and since when", rows)


def capacity() -> board_builder.Dashboard:
    """Return the board on tasks, instances and quotas."""
    tasks = (
        lines(
            "Planned and required tasks",
            [
                PanelSeries("max by (datastream) (headrace_tasks)", "{{datastream}}: planned"),
                PanelSeries("max by (datastream) (headrace_tasks_required)", "{{datastream}}: required"),
            ],
            "none",
            "required above planned: `max_tasks` is too low, or a rebalance is pending",
        ),
        lines(
            "Tasks above their capacity, offending partitions",
            [
                PanelSeries(
                    "max by (datastream) (headrace_tasks_overloaded)", "{{datastream}}: overloaded tasks"
                ),
                PanelSeries(
                    "max by (datastream) (headrace_offending_partitions)",
                    "{{datastream}}: offending partitions",
                ),
            ],
            "none",
            "an offending partition exceeds the capacity of one task, so no placement helps",
        ),
        lines(
            "Bytes copied by task",
            [
                PanelSeries(
                    "topk(20, sum by (datastream, task) (rate(headrace_bytes_total[$__rate_interval])))",
                    "{{task}}",
                )
            ],
            "Bps",
            "the 20 tasks with the highest rates, as fetched",
        ),
        lines(
            "Unknown and stale loads",
            [
                PanelSeries(
                    "max by (datastream) (headrace_partitions_of_unknown_load)", "{{datastream}}: unknown"
                ),
                PanelSeries(
                    "time() - max by (source) (headrace_loads_measured_timestamp_seconds)",
                    "{{source}}: age in s",
                ),
            ],
            "none",
            "partitions planned with the default load, and age of the latest load of each source",
        ),
    )
    machines = (
        lines(
            "CPU time of workers",
            [
                PanelSeries(
                    "sum by (instance) (rate(headrace_cpu_seconds_total[$__rate_interval]))", "{{instance}}"
                )
            ],
            "none",
            "cores used by the tasks of each instance",
            8,
        ),
        lines(
            "Bytes per second of CPU time",
            [
                PanelSeries(
                    "sum by (instance) (rate(headrace_bytes_total[$__rate_interval])) / "
                    "sum by (instance) (rate(headrace_cpu_seconds_total[$__rate_interval]))",
                    "{{instance}}",
                )
            ],
            "Bps",
            "bytes copied per core; small batches and the interpreted data plane reduce it",
            8,
        ),
        lines(
            "Memory of the control process",
            [PanelSeries("process_resident_memory_bytes and on (instance) headrace_leader", "{{instance}}")],
            "bytes",
            "excludes workers: docs/sizing.md",
            8,
        ),
        lines(
            "Throttling by Kafka quotas",
            [
                PanelSeries(
                    "sum by (cluster) (rate(headrace_throttled_seconds_total[$__rate_interval]))",
                    "{{cluster}}",
                )
            ],
            "none",
            "seconds of throttling per second, summed over workers",
            8,
        ),
        lines(
            "Lanes held back by a Headrace quota",
            [PanelSeries("sum by (datastream) (headrace_held_back_lanes)", _BY_DATASTREAM)],
            "none",
            "`headrace lanes` shows the quota",
            8,
        ),
        lines(
            "Data plane",
            [PanelSeries("sum by (data_plane, version) (headrace_build_info)", "{{data_plane}} {{version}}")],
            "none",
            "instances by data plane and version",
            8,
        ),
    )
    rows: Sequence[Row] = (("Tasks", tasks), ("Instances", machines))
    return board("capacity", "Headrace: capacity", "Tasks, instances and quotas compared with the load", rows)


def datastream() -> board_builder.Dashboard:
    """Return the board of one datastream."""
    stages = f"sum by (stage) (rate(headrace_latency_stage_seconds_total{_MINE}[$__rate_interval]))"
    batches = f"sum(rate(headrace_batches_total{_MINE}[$__rate_interval]))"
    flow = (
        lines(
            "Bytes and records",
            [
                PanelSeries(f"sum(rate(headrace_bytes_total{_MINE}[$__rate_interval]))", "bytes/s"),
                PanelSeries(f"sum(rate(headrace_records_total{_MINE}[$__rate_interval]))", "records/s"),
            ],
            "short",
            "copied; bytes as fetched",
        ),
        lines(
            "Latency",
            [
                PanelSeries(
                    f"histogram_quantile({share}, sum by (le) "
                    f"(rate(headrace_latency_seconds_bucket{_MINE}[$__rate_interval])))",
                    legend,
                )
                for share, legend in ((0.5, "median"), (0.99, "99 %"), (0.999, "99.9 %"))
            ],
            "s",
            "from a record's timestamp to its acknowledgement; each bucket is twice the previous one",
        ),
        lines(
            "Latency of batches by stage",
            [PanelSeries(f"{stages} / scalar({batches})", "{{stage}}")],
            "s",
            "mean over all batches: at the source, fetch, queue in Headrace, acknowledgement",
        ),
        lines(
            "Waiting records and their age",
            [
                PanelSeries(f"sum(headrace_lag_records{_MINE})", "records"),
                PanelSeries(f"max(headrace_lag_seconds{_MINE})", "oldest record, age in s"),
            ],
            "short",
            "gaps where the lag is unknown",
        ),
    )
    parts = (
        lines(
            "Partitions by state",
            [PanelSeries(f"sum by (state) (headrace_partitions{_MINE})", "{{state}}")],
            "none",
            "by copy state: docs/operate/states.md",
        ),
        lines(
            "Batches passed through unopened",
            [
                PanelSeries(
                    'sum(rate(headrace_batches_total{datastream="$datastream",path="passthrough"}'
                    f"[$__rate_interval])) / {batches}",
                    "share",
                )
            ],
            "percentunit",
            "opened batches cost more: compaction, small batches, transforms, different timestamp types",
        ),
        listing(
            "Partitions with the longest wait",
            f"topk(20, headrace_partition_lag_seconds{_MINE})",
            "s",
            "only partitions with their own series: api.metrics.top_partitions",
        ),
        listing(
            "Busiest partitions",
            f"topk(20, headrace_partition_bytes_per_second{_MINE})",
            "Bps",
            "only partitions with their own series: api.metrics.top_partitions",
        ),
    )
    safety = (
        lines(
            "Time to loss and time to catch up",
            [
                PanelSeries(f"min(headrace_time_to_loss_seconds{_MINE})", "first loss in"),
                PanelSeries(f"max(headrace_catch_up_seconds{_MINE})", "caught up in"),
            ],
            "s",
            "the time to catch up must stay below the time to loss",
        ),
        lines(
            "Burn rates of error budgets",
            [
                PanelSeries(
                    f"max by (objective, window) (headrace_error_budget_burn_rate{_MINE})",
                    "{{objective}} {{window}}",
                )
            ],
            "none",
            "a rate of 1 uses up the budget in exactly its period",
        ),
    )
    rows: Sequence[Row] = (("Flow", flow), ("Partitions", parts), ("Safety", safety))
    names = (
        board_builder.QueryVariable("datastream")
        .label("Datastream")
        .datasource(PROMETHEUS)
        .query("label_values(headrace_lanes, datastream)")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )
    return board(
        "datastream", "Headrace: one datastream", "Flow, partitions and safety of one datastream", rows
    ).with_variable(names)


BOARDS: Final = {"on-call": on_call, "capacity": capacity, "datastream": datastream, "offending": offending}


def text_of(name: str) -> str:
    """Return the JSON text of a board."""
    found: Any = BOARDS[name]().build()
    return json.dumps(found, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    for known in BOARDS:
        (FOLDER / f"{known}.json").write_text(text_of(known), encoding="utf-8")
