"""What the demonstration says to somebody who sees Headrace for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.demo.scenario import DATASTREAM

INTRODUCTION: Final = (
    "Headrace copies the topics of one Kafka cluster to another and keeps that work balanced by measured",
    "load. This shows it on this machine in about four minutes (the first time more: jars are fetched, code",
    "is compiled): real servers, on loopback only; traffic that is uneven, and then moves; an instance that",
    "is killed; and in the end a comparison of every record. What it claims is measured. Ctrl-C ends it all.",
)

PARTS: Final[Mapping[str, str]] = {
    "start_stack": "starting ZooKeeper, two Kafka clusters and Pinot",
    "start_service": "starting a Spark job for measurements, two instances of Headrace, and the traffic",
    "create_datastream": "asking for a mirror of three topics; no load is known yet: partitions by count",
    "by_count": "starting the sampler, which measures every partition; a query of Pinot finds the hot ones",
    "by_load": "rebalancing by load: as many tasks as it needs, none with more than it can bear",
    "settled": "measuring the latency while all is well, against the objective that the datastream has",
    "shift": "moving traffic to other partitions: a task falls behind, and the monitor has to see it and act",
    "kill": "killing one of the two instances: the other has to take over what it copied",
    "audit": "stopping the traffic and comparing every record at both ends",
}
"""What is announced before each part, by the name of its function."""

_PAGES: Final = (
    ("/ui/", "the web pages: every datastream, the worst first"),
    (f"/ui/#/offending?datastream={DATASTREAM}", "the hot partitions, since when, and what helps"),
    (f"/ui/#/datastreams/{DATASTREAM}", "how late records are, what its tasks carry, what happened"),
    ("/v1/docs", "every call of the service, to try out in the browser"),
    ("/v1/plan", "which task owns which partitions, and why"),
    (f"/v1/datastreams/{DATASTREAM}", "the datastream: state, objective, problems"),
    (f"/v1/datastreams/{DATASTREAM}/lag", "the lag of every partition, and whether it moves"),
    ("/v1/events", "what changed, and for which reason"),
    ("/metrics", "the same for Prometheus"),
)


def title(part: str) -> str:
    """The announcement of a part, with its place among all."""
    return f"part {list(PARTS).index(part) + 1} of {len(PARTS)}: {PARTS[part]}"


def pages(address: str) -> list[str]:
    """Addresses of one instance that are worth opening, and what is seen there."""
    return [f"http://{address}{path}  {what}" for path, what in _PAGES]


def what_next(report: Path, home: Path, *, kept: bool, stopped: bool) -> list[str]:
    """The last lines. `kept`: it runs; `stopped`: it did not come to its end."""
    lines = [
        (str(report), "to open in a browser: pictures of what happened"),
        (f"{home}/*.log", "what each process has logged"),
    ]
    if kept:
        lines += [
            (
                f".venv/bin/headrace datastream list --config {home}/headrace.toml",
                "or any other command",
            ),
            (".venv/bin/headrace demo --stop", "ends it"),
        ]
    elif not stopped:
        lines += [("make demo KEEP=1", "the same, left running, with addresses to open")]
    lines += [
        ("docs/quickstart.md", "a datastream of your own, by hand"),
        ("docs/concepts.md", "the words, and the loop explained"),
    ]
    width = max(len(where) for where, _ in lines)
    return ["where to look next:", *(f"  {where:{width}}  {what}" for where, what in lines)]
