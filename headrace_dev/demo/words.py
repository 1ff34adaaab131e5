"""Texts of the demonstration for first-time users."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace_dev.demo.scenario import DATASTREAM

INTRODUCTION: Final = (
    "Headrace copies the topics of one Kafka cluster to another and balances that work by measured load.",
    "This demonstration takes about two minutes, longer the first time, as it downloads jars and compiles",
    "code. It runs real servers on loopback, writes uneven traffic, shifts it, kills an instance and finally",
    "compares every record. Every claim is measured. Press Ctrl-C to stop everything.",
)

PARTS: Final[Mapping[str, str]] = {
    "start_stack": "starting two Kafka clusters and Pinot",
    "start_service": "starting a Spark job for measurements, two instances of Headrace, and the traffic",
    "create_datastream": "creating a mirror of three topics; loads are unknown: placement by count",
    "by_count": "starting the sampler, which measures every partition; a Pinot query finds the hot ones",
    "by_load": "rebalancing by load: as many tasks as required, none above its capacity",
    "settled": "measuring the latency in normal operation against the objective of the datastream",
    "shift": "moving traffic to other partitions: a task falls behind, the monitor must detect it and act",
    "kill": "killing one of the two instances: the other must take over its partitions",
    "audit": "stopping the traffic and comparing every record of source and destination",
}
"""Announcement of each part, by the name of the part's function."""

_PAGES: Final = (
    ("/ui/", "web pages: all datastreams, worst first"),
    (f"/ui/#/offending?datastream={DATASTREAM}", "hot partitions with duration and remedies"),
    (f"/ui/#/datastreams/{DATASTREAM}", "latency, task loads and events of the datastream"),
    ("/v1/docs", "REST interface, to try in the browser"),
    ("/v1/plan", "partitions of each task, with reasons"),
    (f"/v1/datastreams/{DATASTREAM}", "state, objective and problems of the datastream"),
    (f"/v1/datastreams/{DATASTREAM}/lag", "lag of each partition, and whether it is progressing"),
    ("/v1/events", "changes, with reasons"),
    ("/metrics", "metrics for Prometheus"),
)


def title(part: str) -> str:
    """Return the line that announces a part of the demonstration, with its number."""
    return f"part {list(PARTS).index(part) + 1} of {len(PARTS)}: {PARTS[part]}"


def pages(address: str) -> list[str]:
    """Return recommended pages of an instance, with descriptions."""
    return [f"http://{address}{path}  {description}" for path, description in _PAGES]


def next_steps(report: Path, home: Path, *, kept: bool, stopped: bool) -> list[str]:
    """Return the last lines that the demonstration prints. `kept`: processes are left running; `stopped`: it
    stopped early."""
    lines = [
        (str(report), "report with charts, to open in a browser"),
        (f"{home}/*.log", "logs of the processes"),
    ]
    if kept:
        lines += [
            (
                f".venv/bin/headrace datastream list --config {home}/headrace.toml",
                "or any other command",
            ),
            (".venv/bin/headrace-dev demo --stop", "stop everything"),
        ]
    elif not stopped:
        lines += [("make demo KEEP=1", "repeat, and leave everything running")]
    lines += [
        ("docs/quickstart.md", "create your own datastream"),
        ("docs/concepts.md", "terms and the control loop"),
    ]
    width = max(len(where) for where, _ in lines)
    return ["next steps:", *(f"  {where:{width}}  {description}" for where, description in lines)]
