"""Reads the state of a cluster pair, and the records that would be lost if the active cluster failed now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.dr.acts import plan_of
from headrace.dr.pair_session import PairSession
from mirror.client.cluster import Cluster
from mirror.client.log_reader import fetch_once
from mirror.errors import HeadraceError
from mirror.jobs.dr.fork import Fork
from mirror.jobs.dr.operation import Kind, PairState, begin, operation_of
from mirror.jobs.dr.settings import PairSettings
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import scan
from mirror.wording import counted

_SHOWN: Final = ("kind", "identity", "origin", "target", "operator", "step", "reached", "failure", "begun_ms")
Lag = Sequence[Mapping[str, Any]] | HeadraceError
"""Partitions in the response of `GET /v1/datastreams/{name}/lag`, or the error of the request."""


def word_of(state: PairState, settings: PairSettings) -> str:
    """Return the state of a pair in one word: steady, failing-over, failed-over or failing-back."""
    operation = state.operation
    if state.fork is not None:
        return "failing-back" if operation is not None and operation.kind is Kind.FAILBACK else "failed-over"
    if operation is not None:
        return "failing-over" if operation.target == settings.standby else "failing-back"
    return "steady" if state.active == settings.primary else "failed-over"


def sums_by_topic(partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sum up the lag of each topic in records and seconds, and sort by lag, largest first.

    `unknown`: number of partitions with an unknown lag, which are not included.
    """
    found: dict[str, dict[str, Any]] = {}
    for partition in partitions:
        row = found.setdefault(
            partition["topic"], {"topic": partition["topic"], "records": 0, "seconds": 0.0, "unknown": 0}
        )
        if partition["lag_records"] is None:
            row["unknown"] += 1
            continue
        row["records"] += partition["lag_records"]
        row["seconds"] = max(row["seconds"], (partition["lag_ms"] or 0) / 1000)
    return sorted(found.values(), key=lambda row: (-row["unknown"], -row["seconds"], row["topic"]))


async def bytes_behind(cluster: Cluster, rows: Iterable[Mapping[str, Any]]) -> int | None:
    """Estimate the lag of one topic in stored bytes; return None if it is unknown.

    The estimate uses the mean size of the first uncopied records in the partition with the largest lag.
    `rows`: partitions as returned by `GET /v1/datastreams/{name}/lag`. Raises Unreachable.
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


def _fork_document(fork: Fork | None) -> dict[str, Any] | None:
    """Return a fork as a JSON document, without the offsets in it."""
    if fork is None:
        return None
    return {
        "cluster": fork.cluster,
        "at_ms": fork.at_ms,
        "figure": fork.loss.figure,
        "decisions": [decision.model_dump(mode="json", exclude={"ends"}) for decision in fork.decisions],
    }


@dataclass(frozen=True)
class PairView:
    """Stored state of a pair, without the lag of its datastreams. Implements `api.services.Pair`.

    `state`: None if the state is unknown. `problem`: reason.
    """

    name: str
    settings: PairSettings
    state: PairState | None
    problem: str = ""

    @property
    def datastreams(self) -> Collection[str]:
        """Names of the datastreams that copy to the inactive cluster; empty after a failover."""
        if self.state is None or self.state.fork is not None:
            return ()
        return self.state.datastreams.values()

    def document(
        self, lags: Mapping[str, Lag], sizes: Mapping[str, int | None] | None = None
    ) -> dict[str, Any]:
        """Return the JSON document of `headrace dr status`.

        `lags`: lag by name of datastream. `sizes`: lag in bytes by topic, None if unknown.

        The state is `degraded` if the lag exceeds the target `rpo_seconds` or is unknown.
        """
        state, settings = self.state, self.settings
        problems, topics = [self.problem] if self.problem else [], []
        for name in self.datastreams:
            lag = lags[name]
            if isinstance(lag, HeadraceError):
                problems.append(f"the lag of datastream {name} is unknown: {lag}")
            else:
                topics += [{**row, "bytes": (sizes or {}).get(row["topic"])} for row in sums_by_topic(lag)]
        problems += _lag_problems(topics, settings)
        if state is None:
            word, operation, fork = "unknown", None, None
        else:
            operation, fork = state.operation, state.fork
            is_degraded = problems and operation is None and fork is None
            word = "degraded" if is_degraded else word_of(state, settings)
        if fork is not None:
            problems.append(f"nothing is copied to {fork.cluster} since the failover: run a failback")
        return {
            "pair": self.name,
            "state": word,
            "active": state and state.active,
            "operation": operation and {key: getattr(operation, key) for key in _SHOWN},
            "fork": _fork_document(fork),
            "datastreams": {} if state is None else dict(state.datastreams),
            "topics": topics,
            "problems": problems,
            "plan": [] if state is None else _plan(state, settings),
            "failover": [] if state is None or operation or fork else _plan(state, settings, Kind.FAILOVER),
            "history": []
            if state is None
            else [past.abridged.model_dump(mode="json") for past in state.history],
        }


def _lag_problems(topics: Iterable[Mapping[str, Any]], settings: PairSettings) -> list[str]:
    problems = []
    for row in topics:
        if row["unknown"]:
            problems.append(f"topic {row['topic']}: lag unknown for {counted(row['unknown'], 'partition')}")
        if row["seconds"] > settings.rpo_seconds:
            problems.append(
                f"topic {row['topic']} is {row['seconds']:.1f} s behind, more than {settings.rpo_seconds:g} s"
            )
    return problems


def _plan(state: PairState, settings: PairSettings, kind: Kind = Kind.SWITCHOVER) -> list[dict[str, Any]]:
    """Return the remaining steps of the operation in progress. Without one, return the steps of a switch to
    the other cluster or, after a failover, of the failback."""
    if state.operation is None:
        kind = kind if state.fork is None else Kind.FAILBACK
        target = settings.other(state.active) if state.fork is None else state.active
        state = begin(state, target, "", 0, "", kind)
    return plan_of(state, operation_of(state), settings)


async def _sizes(cluster: Cluster, rows: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    """Map each topic to its estimated lag in bytes. Raises Unreachable."""
    topics = {str(row["topic"]) for row in rows}
    return {
        topic: await bytes_behind(cluster, [row for row in rows if row["topic"] == topic]) for topic in topics
    }


def status_of(session: PairSession) -> dict[str, Any]:
    """Read the state and the lag of a pair, and return the JSON document of `headrace dr status`."""
    state = session.state()
    view = PairView(session.name, session.settings, state)
    lags: dict[str, Lag] = {}
    sizes: dict[str, int | None] = {}
    for name in view.datastreams:
        try:
            partitions = session.acts.datastreams.lag(name)["partitions"]
        except HeadraceError as error:
            lags[name] = error
            continue
        lags[name] = partitions
        try:
            sizes |= session.bench.run(_sizes(session.bench.cluster(ClusterRef(state.active)), partitions))
        except HeadraceError as error:
            session.note(f"the number of uncopied bytes of {name} is unknown: {error}")
    return view.document(lags, sizes)
