"""Set-up of the demonstration: topics, their loads, limits, objective and settings."""

from __future__ import annotations

from typing import Final

DATASTREAM: Final = "shop"
TOPICS: Final = {"orders": 12, "clicks": 16, "audit-log": 8}
KEPT: Final = {"retention.bytes": "268435456", "segment.bytes": "67108864"}
"""Retention of a partition: enough for the whole demonstration, and bounded if it is left running for
days."""

HOT: Final = (("orders", 0), ("orders", 2))
SHIFTED: Final = (("orders", 4), ("orders", 5), ("orders", 6), ("orders", 7))

TASK_CAPACITY: Final = 400_000
"""Capacity of a task in bytes per second. The demonstration enforces this capacity as a quota of each task,
so that an overloaded task falls behind as on an overloaded host."""

UTILISATION_PERCENT: Final = 60
USABLE: Final = TASK_CAPACITY * UTILISATION_PERCENT // 100
OBJECTIVE_MS: Final = 2_500
INSTANCES: Final = ("headrace-1", "headrace-2")

Rates = dict[str, dict[str, float]]


def usual_rates() -> Rates:
    """Return the initial rates in bytes per second, which are heavy-tailed: two hot partitions in one topic,
    many quiet ones, some idle."""
    orders = dict.fromkeys(map(str, range(TOPICS["orders"])), 7_000.0)
    for _, number in HOT:
        orders[str(number)] = 200_000.0 - 5_000 * number
    clicks = {str(number): 40_000.0 / (number + 1) for number in range(TOPICS["clicks"])}
    log = {"0": 1_000.0}
    return {"orders": orders, "clicks": clicks, "audit-log": log}


def shifted_rates() -> Rates:
    """Return the rates after four quiet partitions have become busy."""
    rates = usual_rates()
    for topic, number in SHIFTED:
        rates[topic][str(number)] = 110_000.0
    return rates


_LOADS_AND_MONITOR: Final = """\
[pmp.clusters.source]
datacenter = "here"
sampled_by = "sampler"

[pmp.sampler]
interval_seconds = 3.0

[pmp.job]
checkpoint_folder = "pmp-checkpoint"
trigger_interval_seconds = 1.0
reload_interval_seconds = 2.0

[pmp.provider]
window_seconds = 15.0

[pmp.rollup]
interval_seconds = 15.0

[assigner.advice]
interval_seconds = 60.0
tasks_per_instance = 3

[monitor]
interval_seconds = 2.0
window_seconds = 8.0
cooldown_seconds = 20.0

[monitor.alerts]
loss_within_seconds = 600.0

[logging]
format = "json"
"""
"""Settings without addresses: sampler, job and monitor. The retention of the source (`KEPT`) is only twenty
minutes for the busiest partitions, so the alert on imminent data loss would fire whenever such a partition
waits."""


def settings_text(addresses: dict[str, str]) -> str:
    """Return the TOML file of all processes. `addresses`: in the form of `headrace-dev stack env --json`."""
    return f"""# Settings of the demonstration; `headrace config example` explains every key
[clusters.source]
bootstrap_servers = "{addresses["source"]}"

[clusters.destination]
bootstrap_servers = "{addresses["destination"]}"

[coordination]
cluster = "destination"

[mirror.worker]
processes = 1
metrics_interval_seconds = 1.0
checkpoint_interval_seconds = 1.0
task_bytes_per_second_limit = {TASK_CAPACITY}

[mirror.leader]
load_provider = "pinot"
task_capacity_bytes_per_second = {TASK_CAPACITY}
task_utilisation_percent = {UTILISATION_PERCENT}

[pinot]
controller = "{addresses["pinot_controller"]}"
broker = "{addresses["pinot_broker"]}"

{_LOADS_AND_MONITOR}"""
