"""Loads of a datastream's partitions, and of source clusters, on /v1."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.newest import ClusterLoads
from mirror.instance.loads.watch import LoadStanding, LoadState
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


class _LoadModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True)
class LeadersLoads:
    """What the leader knows of one source. `standing`: where the provider is; None: there is none to
    ask, or it has not been asked yet."""

    known: ClusterLoads
    standing: LoadStanding | None
    now_ms: int

    def of(self, place: TopicPartition) -> PartitionLoad | None:
        """Held where the provider measures nothing now; None where nothing was measured in the last day."""
        return self.known.of(place, self.now_ms)

    def is_held(self, load: PartitionLoad) -> bool:
        """Whether it was measured before the measurements stopped."""
        is_measuring = self.standing is None or self.standing.state is LoadState.KNOWN
        return load.rate_source is RateSource.HELD or (not is_measuring and not load.is_estimate)


class PartitionLoadAnswer(_LoadModel):
    """What arrives in one partition at the source. What is not known is null, and never 0."""

    topic: str
    partition: int
    task: str | None
    """Null: the plan gives it to none."""
    instance: str | None
    """The one that runs the task; null: none does."""
    bytes_per_second: float | None
    messages_per_second: float | None
    """Null also where the provider does not know it."""
    rate_source: str | None
    """slope: of the log size, over the whole range; partial: over a part of the range, or of the topic; mean:
    of the topic's partitions; mirror: what lanes have counted; held: measured before the measurements
    stopped; seasonal: the same hour of earlier weeks or days."""
    measured_at_ms: int | None
    """The newest measurement that it rests on (epoch ms)."""
    age_ms: int | None
    """How long ago that was."""
    is_lower_bound: bool | None
    """Whether it was copied more slowly than records may arrive, so that it may carry more."""
    is_hot: bool | None = None
    """Whether its load alone is half of what a task may carry or more; null: the load is unknown, or
    placement is not by load."""
    is_offending: bool | None
    """Whether its load alone was more than a task may carry in the last planning; null: nothing was planned,
    or more partitions were offending than are named."""

    @classmethod
    def from_load(
        cls,
        place: TopicPartition,
        owner: TaskPlacement | None,
        loads: LeadersLoads | None,
        assessment: Assessment | None,
        usable: int | None = None,
    ) -> PartitionLoadAnswer:
        """The JSON form. `loads` None: the leader was not heard. `usable`: bytes per second that a task may
        carry; None: placement is not by load."""
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


class DatastreamLoads(_LoadModel):
    """What arrives in the partitions of a datastream, as its leader knows it: by its planning, or by the
    provider's last answer. What is not known is null."""

    name: str
    cluster: str
    """The source."""
    leader: str | None
    """The instance that was asked; null: nobody leads, as far as the instance knows that has answered."""
    no_answer: str
    """Why the leader has not answered, so that no load is known; empty where it has."""
    provider: str | None
    """Whose answer came last: self, pinot, a plug-in; kept: what the leader before has observed; null: none
    has come."""
    planned_ms: int | None
    """When its tasks were planned last (epoch ms), also where that has changed nothing; null: never."""
    bytes_per_second: float | None
    """The sum; null unless the load of every partition is known."""
    known: int | None
    """Partitions with a load; the counts are null where the leader has not answered."""
    held: int | None
    """Those of them whose load was measured before the measurements stopped."""
    unknown: int | None
    """Partitions of which no load is known."""
    partitions: list[PartitionLoadAnswer]
    """The heaviest first, at most `limit`."""
    left_out: int
    """How many more there are."""


class ClusterLoadsAnswer(_LoadModel):
    """What is known of the loads of one source cluster, by one load provider. What is not known is null."""

    cluster: str
    chosen_provider: str | None = None
    """The load provider that datastreams choose for these loads; null: they are by that of the service."""
    provider: str | None
    """Whose answer came last: self, pinot, a plug-in; kept: what the leader before has observed; null: none
    has come."""
    state: str | None
    """known; stale: nothing new is measured; unavailable: the provider does not answer; unknown: nothing is
    measured now; null: no provider is configured, or it has not been asked yet."""
    since_ms: int | None
    """Since when it is in this state (epoch ms)."""
    reason: str | None
    """Why."""
    measured_at_ms: int | None
    """The newest measurement (epoch ms)."""
    age_ms: int | None
    """How long ago that was."""
    partitions: int | None
    """That tasks have of it; those that are planned by these loads."""
    known: int | None
    """Those of them with a load."""
    held: int | None
    """Those of `known` whose load was measured before the measurements stopped."""
    unknown: int | None
    """Partitions of which no load is known."""

    @classmethod
    def unheard(cls, cluster: str) -> ClusterLoadsAnswer:
        """Where the leader has not answered."""
        return cls.model_validate(dict.fromkeys(cls.model_fields) | {"cluster": cluster})

    @classmethod
    def from_loads(
        cls, source: LoadSource, loads: LeadersLoads, places: Collection[TopicPartition]
    ) -> ClusterLoadsAnswer:
        """The JSON form. `places`: what tasks have of the source."""
        standing, counts = loads.standing, LoadCounts.of(places, loads)
        measured_ms = standing.measured_at_ms if standing else None
        return cls(
            cluster=source.cluster,
            chosen_provider=source.provider or None,
            provider=loads.known.provider or None,
            state=standing.state.value if standing else None,
            since_ms=standing.since_ms if standing else None,
            reason=standing.reason if standing else None,
            measured_at_ms=measured_ms,
            age_ms=max(loads.now_ms - measured_ms, 0) if measured_ms is not None else None,
            partitions=len(places),
            known=counts.known,
            held=counts.held,
            unknown=len(places) - counts.known,
        )


class LoadsAnswer(_LoadModel):
    """What is known of the loads of every source cluster, by each load provider that plans by them. The
    leader knows it."""

    leader: str | None
    """The instance that was asked; null: nobody leads, as far as the instance knows that has answered."""
    no_answer: str
    """Why the leader has not answered, so that nothing is known; empty where it has."""
    clusters: list[ClusterLoadsAnswer]


@dataclass(frozen=True)
class LoadCounts:
    """How many loads are known, how many of these are held, and their sum."""

    known: int
    held: int
    bytes_per_second: float

    @classmethod
    def of(cls, places: Iterable[TopicPartition], loads: LeadersLoads) -> LoadCounts:
        """Of some partitions."""
        found = [load for load in map(loads.of, places) if load is not None]
        return cls(
            len(found), sum(map(loads.is_held, found)), float(sum(one.bytes_per_second for one in found))
        )


def heaviest_first(places: Iterable[TopicPartition], loads: LeadersLoads | None) -> Sequence[TopicPartition]:
    """Those of which nothing is known last; by name where they carry the same."""
    carried = {place: loads.of(place) if loads is not None else None for place in places}

    def rank(place: TopicPartition) -> tuple[float, TopicPartition]:
        load = carried[place]
        return (1.0 if load is None else -load.bytes_per_second), place

    return sorted(carried, key=rank)
