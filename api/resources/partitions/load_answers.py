"""Partition loads of a datastream, and loads of source clusters, on /v1."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from api.http.problems import AnswerModel
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.observations import ClusterLoads
from mirror.instance.loads.watch import LoadState, LoadStatus
from mirror.model.load import LoadSource, PartitionLoad, RateSource, hot_from
from mirror.model.plan import TaskPlacement
from mirror.model.topics import TopicPartition

_MEASURED: Final = (
    "bytes_per_second",
    "messages_per_second",
    "rate_source",
    "measured_at_ms",
    "age_ms",
    "is_lower_bound",
)


@dataclass(frozen=True)
class LeadersLoads:
    """Loads of one source as known to the leader.

    `standing`: state of the provider; None if there is no provider, or if the provider was not queried yet.
    """

    known: ClusterLoads
    standing: LoadStatus | None
    now_ms: int

    def of(self, place: TopicPartition) -> PartitionLoad | None:
        """Return the load of a partition; None if it was not measured in the last day. Without new
        measurements, the last measured load."""
        return self.known.of(place, self.now_ms)

    def is_held(self, load: PartitionLoad) -> bool:
        """Return whether a load is an old one, still in use because newer measurements are missing."""
        is_measuring = self.standing is None or self.standing.state is LoadState.KNOWN
        return load.rate_source is RateSource.HELD or (not is_measuring and not load.is_estimate)


class PartitionLoadAnswer(AnswerModel):
    """Load of one partition at the source. Unknown values are null, never 0."""

    topic: str
    partition: int
    task: str | None
    """Task of the partition; null if the plan does not contain the partition."""
    instance: str | None
    """Instance that runs the task; null if no instance runs it."""
    bytes_per_second: float | None
    messages_per_second: float | None
    """Messages per second; also null if the provider does not report them."""
    rate_source: str | None
    """Origin of the rate. `slope`: growth of the log over the whole time range. `partial`: growth over a part
    of the time range, or of a part of the topic. `mean`: mean of the topic's partitions. `mirror`: counted by
    lanes. `held`: measured before the measurements stopped. `seasonal`: load in the same hour of earlier
    weeks or days."""
    measured_at_ms: int | None
    """Time of the latest measurement used (epoch ms)."""
    age_ms: int | None
    """Time since the latest measurement used, in ms."""
    is_lower_bound: bool | None
    """True if the partition was possibly copied more slowly than records arrived, so that its load may be
    higher."""
    is_hot: bool | None = None
    """True if the load of the partition alone is at least half of the usable capacity of a task; null if the
    load is unknown or placement is not by load."""
    is_offending: bool | None
    """True if the load of the partition alone exceeded the usable capacity of a task in the latest planning
    run; null before the first planning run, or if the plan lists only some of many such partitions, without
    this partition."""

    @classmethod
    def from_load(
        cls,
        place: TopicPartition,
        owner: TaskPlacement | None,
        loads: LeadersLoads | None,
        assessment: Assessment | None,
        usable: int | None = None,
    ) -> PartitionLoadAnswer:
        """Return the load of a partition as a response.

        `loads`: None if the leader did not respond. `usable`: usable capacity of a task in bytes per second;
        None if placement is not by load.
        """
        load = loads.of(place) if loads is not None else None
        return cls(
            topic=place.topic,
            partition=place.partition,
            task=owner.task if owner else None,
            instance=owner.instance if owner else None,
            is_hot=None if load is None or usable is None else load.bytes_per_second >= hot_from(usable),
            is_offending=_is_offending(place, assessment),
            **(dict.fromkeys(_MEASURED) if load is None or loads is None else _measured(place, load, loads)),
        )


def _measured(place: TopicPartition, load: PartitionLoad, loads: LeadersLoads) -> dict[str, Any]:
    values = (
        load.bytes_per_second,
        load.messages_per_second,
        (RateSource.HELD if loads.is_held(load) else load.rate_source).value,
        load.measured_at_ms,
        load.age_ms(loads.now_ms),
        place in loads.known.at_least,
    )
    return dict(zip(_MEASURED, values, strict=True))


def _is_offending(place: TopicPartition, assessment: Assessment | None) -> bool | None:
    if assessment is None:
        return None
    if str(place) in assessment.offending_partitions:
        return True
    return False if assessment.offending <= len(assessment.offending_partitions) else None


class DatastreamLoads(AnswerModel):
    """Partition loads of a datastream as known to the leader; unknown values are null.

    Loads come from the datastream's latest planning run or the provider's latest response.
    """

    name: str
    cluster: str
    """Source cluster."""
    leader: str | None
    """Leader that was queried; null if the responding instance knows no leader."""
    no_answer: str
    """Reason why the leader did not respond and all loads are unknown; empty if the leader responded."""
    provider: str | None
    """Provider of the latest loads: `self`, `pinot` or the name of a plug-in; `kept` if the previous leader
    observed them; null if there was no response yet."""
    planned_ms: int | None
    """Time of the latest planning run of the datastream's tasks (epoch ms), even if it changed nothing; null
    if they were never planned."""
    bytes_per_second: float | None
    """Sum of the loads; null if a load is unknown."""
    known: int | None
    """Number of partitions with a known load; null if the leader did not respond."""
    held: int | None
    """Number of known loads that date from before the measurements stopped."""
    unknown: int | None
    """Number of partitions with unknown load."""
    partitions: list[PartitionLoadAnswer]
    """Heaviest partitions first, at most `limit`."""
    left_out: int
    """Number of partitions omitted."""


class ClusterLoadsAnswer(AnswerModel):
    """State of the loads of one source cluster from one load provider. Unknown values are null."""

    cluster: str
    chosen_provider: str | None = None
    """Load provider that datastreams choose; null for the service's default."""
    provider: str | None
    """Provider of the latest loads: `self`, `pinot` or the name of a plug-in; `kept` if the previous leader
    observed them; null if there was no response yet."""
    state: str | None
    """State of the loads: `known`; `stale` without new measurements; `unavailable` if the provider does not
    respond; `unknown` without any measurement; null if no provider is configured or it was not queried
    yet."""
    since_ms: int | None
    """Time at which this state began (epoch ms)."""
    reason: str | None
    """Reason for the state."""
    measured_at_ms: int | None
    """Time of the latest measurement (epoch ms)."""
    age_ms: int | None
    """Time since the latest measurement, in ms."""
    partitions: int | None
    """Number of partitions copied by tasks and planned with these loads."""
    known: int | None
    """Number of partitions with a known load."""
    held: int | None
    """Number of known loads that date from before the measurements stopped."""
    unknown: int | None
    """Number of partitions with unknown load."""

    @classmethod
    def unreported(cls, cluster: str) -> ClusterLoadsAnswer:
        """Return the response for a source cluster if the leader did not respond."""
        return cls.model_validate(dict.fromkeys(cls.model_fields) | {"cluster": cluster})

    @classmethod
    def from_loads(
        cls, source: LoadSource, loads: LeadersLoads, places: Collection[TopicPartition]
    ) -> ClusterLoadsAnswer:
        """Return the loads of a source as a response. `places`: partitions of the source that have a task."""
        status, counts = loads.standing, LoadCounts.of(places, loads)
        measured_ms = status.measured_at_ms if status else None
        return cls(
            cluster=source.cluster,
            chosen_provider=source.provider or None,
            provider=loads.known.provider or None,
            state=status.state.value if status else None,
            since_ms=status.since_ms if status else None,
            reason=status.reason if status else None,
            measured_at_ms=measured_ms,
            age_ms=max(loads.now_ms - measured_ms, 0) if measured_ms is not None else None,
            partitions=len(places),
            known=counts.known,
            held=counts.held,
            unknown=len(places) - counts.known,
        )


class LoadsAnswer(AnswerModel):
    """State of the loads of each source cluster from each load provider, as known to the leader."""

    leader: str | None
    """Leader that was queried; null if the responding instance knows no leader."""
    no_answer: str
    """Reason why the leader did not respond and all values are unknown; empty if the leader responded."""
    clusters: list[ClusterLoadsAnswer]


@dataclass(frozen=True)
class LoadCounts:
    """Number of known loads, number of old loads among them (`held`), and the sum of the loads."""

    known: int
    held: int
    bytes_per_second: float

    @classmethod
    def of(cls, places: Iterable[TopicPartition], loads: LeadersLoads) -> LoadCounts:
        """Count some partitions with a known and with an old load, and add up their loads."""
        found = [load for load in map(loads.of, places) if load is not None]
        return cls(
            len(found), sum(map(loads.is_held, found)), float(sum(load.bytes_per_second for load in found))
        )


def heaviest_first(places: Iterable[TopicPartition], loads: LeadersLoads | None) -> Sequence[TopicPartition]:
    """Sort partitions by decreasing load, then by name. Partitions with unknown load come last."""
    carried = {place: loads.of(place) if loads is not None else None for place in places}

    def rank(place: TopicPartition) -> tuple[float, TopicPartition]:
        load = carried[place]
        return (1.0 if load is None else -load.bytes_per_second), place

    return sorted(carried, key=rank)
