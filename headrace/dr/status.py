"""State of a pair, and the records that a failure would lose now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.dr.session import PairSession
from mirror.client.cluster import Cluster
from mirror.client.log_reader import fetch_once
from mirror.errors import HeadraceError
from mirror.jobs.dr.fork import Fork
from mirror.jobs.dr.operation import Kind, PairState
from mirror.jobs.dr.settings import PairSettings
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import scan
from mirror.wording import counted


def word_of(state: PairState, settings: PairSettings) -> str:
    """Return the state of a pair: steady, failing-over, failed-over or failing-back."""
    operation = state.operation
    if state.fork is not None:
        return "failing-back" if operation is not None and operation.kind is Kind.FAILBACK else "failed-over"
    if operation is not None:
        return "failing-over" if operation.target == settings.standby else "failing-back"
    return "steady" if state.active == settings.primary else "failed-over"


def sums_by_topic(partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records and age that are not copied by topic, the oldest first. `unknown`: number of partitions
    whose lag is unknown; the sums do not include them."""
    found: dict[str, dict[str, Any]] = {}
    for one in partitions:
        row = found.setdefault(
            one["topic"], {"topic": one["topic"], "records": 0, "seconds": 0.0, "unknown": 0}
        )
        if one["lag_records"] is None:
            row["unknown"] += 1
            continue
        row["records"] += one["lag_records"]
        row["seconds"] = max(row["seconds"], (one["lag_ms"] or 0) / 1000)
    return sorted(found.values(), key=lambda row: (-row["unknown"], -row["seconds"], row["topic"]))


async def bytes_behind(cluster: Cluster, rows: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the number of bytes, as stored, that partitions of one topic have not copied; None if unknown.

    The mean size is that of the first records that wait in the partition with the largest backlog. `rows`:
    partitions as in the lag of a datastream. Raises Unreachable.
    """
    records = [row["lag_records"] for row in rows]
    if any(number is None for number in records):
        return None
    worst = max(rows, key=lambda row: row["lag_records"], default=None)
    if worst is None or worst["lag_records"] == 0:
        return 0
    if worst["position"] is None:
        return None
    place = TopicPartition(worst["topic"], worst["partition"])
    part = await fetch_once(cluster, place, worst["position"], committed=False)
    sizes = [(end - start, header.record_count) for start, end, header in scan(part.records) if header]
    count = sum(number for _, number in sizes)
    return round(sum(size for size, _ in sizes) * sum(records) / count) if count else None


def _with_bytes(
    session: PairSession, active: str, partitions: list[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the sums by topic, with the bytes."""
    cluster = session.bench.cluster(ClusterRef(active))
    found = sums_by_topic(partitions)
    for row in found:
        mine = [one for one in partitions if one["topic"] == row["topic"]]
        try:
            row["bytes"] = session.bench.run(bytes_behind(cluster, mine))
        except HeadraceError as error:
            row["bytes"] = None
            session.note(f"the size of the records of {row['topic']} is unknown: {error}")
    return found


def _fork_document(fork: Fork | None) -> dict[str, Any] | None:
    """Return a fork without its offsets."""
    if fork is None:
        return None
    return {
        "cluster": fork.cluster,
        "at_ms": fork.at_ms,
        "figure": fork.loss.figure,
        "decisions": [one.model_dump(mode="json", exclude={"ends"}) for one in fork.decisions],
    }


def status_of(session: PairSession) -> dict[str, Any]:
    """Return the document of `headrace dr status`. It is degraded if the loss of a failure now would exceed
    the target, or is unknown."""
    state, settings = session.state(), session.settings
    problems, topics = [], []
    if state.fork is not None:
        problems.append(f"nothing is copied to {state.fork.cluster} since the failover: run a failback")
    for name in state.datastreams.values() if state.fork is None else ():
        try:
            partitions = session.acts.datastreams.lag(name)["partitions"]
            topics += _with_bytes(session, state.active, partitions)
        except HeadraceError as error:
            problems.append(f"the lag of datastream {name} is unknown: {error}")
    for row in topics:
        if row["unknown"]:
            problems.append(f"topic {row['topic']}: lag unknown for {counted(row['unknown'], 'partition')}")
        if row["seconds"] > settings.rpo_seconds:
            problems.append(
                f"topic {row['topic']} is {row['seconds']:.1f} s behind, more than {settings.rpo_seconds:g} s"
            )
    operation = state.operation
    return {
        "pair": session.name,
        "state": "degraded"
        if problems and operation is None and not state.fork
        else word_of(state, settings),
        "active": state.active,
        "operation": operation
        and {
            key: getattr(operation, key)
            for key in (
                "kind",
                "identity",
                "origin",
                "target",
                "operator",
                "step",
                "reached",
                "failure",
                "begun_ms",
            )
        },
        "fork": _fork_document(state.fork),
        "datastreams": dict(state.datastreams),
        "topics": topics,
        "problems": problems,
        "history": [past.model_dump(mode="json") for past in state.history],
    }
