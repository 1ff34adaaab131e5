"""Plans a copy without a service. The set of partitions is fixed when the copy is planned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror.client.cluster import Cluster
from mirror.coordination.partition_selection import unmatched_exclude
from mirror.errors import HeadraceError, InvalidRequest, TopicMissing, Unreachable
from mirror.jobs.destination_topics import CreationRules, TopicChanges, prepare_destination
from mirror.model import bounds
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.datastreams.policy import DEFAULT_POLICY, CopyPolicy, Isolation
from mirror.model.datastreams.start_positions import NO_POSITIONS, StartPositions
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.topics import PLACEHOLDER, TopicNaming, TopicPartition, TopicSelection
from mirror.protocol.codes import TRANSIENT
from mirror.protocol.control.offsets import LATEST
from mirror.replication.connector import is_connector
from mirror.replication.context import EngineContext
from mirror.replication.progress_log import ProgressLog


@dataclass(frozen=True)
class CopyJob:
    """Scope and options of a copy without a service.

    `state`: name under which the progress is stored, so that a later run can resume.

    `until_end`: stop each partition at its current end (the last stable offset if only committed records are
    copied). `needs_checkpoint`: fail if a partition has no checkpoint. `own`: names of internal topics that
    are set in the configuration. `excluded_settings`: topic settings that new topics do not inherit.
    `positions`: start positions of partitions without a checkpoint, instead of `start`. `ignores_settings`:
    create topics even if their source settings cannot be read.
    """

    state: str
    source: ClusterRef
    destination: ClusterRef
    selection: TopicSelection
    naming: TopicNaming = field(default_factory=TopicNaming)
    policy: CopyPolicy = DEFAULT_POLICY
    start: StartPosition = StartPosition.EARLIEST
    start_ms: int | None = None
    until_end: bool = False
    needs_checkpoint: bool = False
    own: frozenset[str] = frozenset()
    excluded_settings: frozenset[str] = frozenset()
    positions: StartPositions = NO_POSITIONS
    ignores_settings: bool = False

    def __post_init__(self) -> None:
        if "/" in bounds.line("the state", self.state):
            raise InvalidRequest("the name of a state must not contain a slash")
        self.selection.require_topic_characters()
        if self.source == self.destination and self.naming.is_identity:
            raise _onto_themselves()

    @property
    def uses_connector(self) -> bool:
        """True if source or destination is not a Kafka cluster."""
        return is_connector(self.source) or is_connector(self.destination)


@dataclass(frozen=True)
class CopyPlan:
    """Result of planning a copy: partitions to copy, and topics created or changed at the destination.

    `remarks`: warnings about likely mistakes in the parameters. `unknown_ends`: partitions whose end offset
    is unknown, with the error.
    """

    specs: tuple[LaneSpec, ...]
    changes: TopicChanges
    remarks: tuple[str, ...] = ()
    unknown_ends: Mapping[TopicPartition, HeadraceError] = field(default_factory=dict)

    def followed_by(self, later: CopyPlan) -> CopyPlan:
        """Return this plan merged with a later plan for partitions that this plan lacks."""
        before, after = self.changes, later.changes
        changes = replace(
            after,
            created=[*before.created, *after.created],
            grown=[*before.grown, *after.grown],
            drift=[*before.drift, *(sentence for sentence in after.drift if sentence not in before.drift)],
            adjusted=[*before.adjusted, *after.adjusted],
            supplied={**before.supplied, **after.supplied},
            not_carried={**before.not_carried, **after.not_carried},
        )
        return CopyPlan((*self.specs, *later.specs), changes, self.remarks, later.unknown_ends)

    @property
    def failures(self) -> dict[str, str]:
        """Topics and partitions that are not copied, with the error of each."""
        topics = {topic: str(error) for topic, error in sorted(self.changes.failures.items())}
        return topics | {str(place): str(error) for place, error in sorted(self.unknown_ends.items())}


async def plan_copy(bench: EngineContext, job: CopyJob) -> CopyPlan:
    """Create the destination topics, and read the end offset of each source partition.

    Raises UnsafeProgressTopic, UnexpectedCluster, Unreachable, Refused; TopicMissing if no topic matches;
    InvalidRequest if a required checkpoint is missing.
    """
    source, target = bench.cluster(job.source), bench.cluster(job.destination)
    topics = await source.patiently(source.all_topics)
    await target.patiently(lambda: target.refresh(()))
    usable = [name for name, topic in topics.items() if not topic.error and not topic.internal]
    is_one_cluster = source.cluster_id != "" and source.cluster_id == target.cluster_id
    chosen = topics_to_copy(job, usable, is_one_cluster=is_one_cluster)
    if not chosen:
        raise TopicMissing(
            f"no topic of {job.source} matches {job.selection.include}",
            advice="the expression must match the whole name; topics need the DESCRIBE right",
        )
    await _require_same_cluster(bench, job, chosen)
    identity = bench.identity
    rules = CreationRules(
        identity.replication_factor, identity.progress_topic, job.excluded_settings, job.ignores_settings
    )
    changes = await prepare_destination(source, target, chosen, job.naming, rules)
    if changes.failures.keys() >= set(chosen):
        raise next(iter(changes.failures.values()))
    names = [topic for topic in chosen if topic not in changes.failures]
    places = [place for topic in names for place in source.topics[topic].partitions]
    ends, unknown = await _ends(bench, job, places) if job.until_end else ({}, {})
    places = [place for place in places if place not in unknown]
    if job.needs_checkpoint:
        await _require_checkpoints(bench, job, places)
    specs = tuple(_spec(job, place, ends.get(place)) for place in places)
    if job.start is StartPosition.LATEST:
        specs = _with_later_lanes(bench.progress(job.destination), specs)
    return CopyPlan(specs, changes, _remarks(job, usable), unknown)


def _spec(job: CopyJob, place: TopicPartition, end: int | None) -> LaneSpec:
    return LaneSpec(
        key=LaneKey(GroupName(job.state), place),
        task=TaskName(f"{job.state}-0"),
        source=job.source,
        destination=job.destination,
        destination_topic=job.naming.destination(place.topic),
        start=job.start,
        policy=job.policy,
        start_ms=job.start_ms,
        end_offset=end,
        start_offset=job.positions.of(place),
    )


def _with_later_lanes(log: ProgressLog, specs: tuple[LaneSpec, ...]) -> tuple[LaneSpec, ...]:
    """Set the start positions of new partitions to the earliest offset if the copy has run before.

    The copy has run before if any partition has stored progress. All records of a partition without progress
    may be newer than that run. Requires that stored progress was read.
    """
    stored = {spec.key: log.stored(spec.key) for spec in specs} if log.exists else {}
    if log.is_damaged or all(progress is None for progress in stored.values()):
        return specs
    return tuple(
        replace(spec, start=StartPosition.EARLIEST) if stored[spec.key] is None else spec for spec in specs
    )


async def plan_left_out(bench: EngineContext, job: CopyJob, plan: CopyPlan) -> CopyPlan:
    """Plan the copy of partitions that a plan lacks. Raises the errors of `plan_copy`."""
    topics = {*plan.changes.failures, *(place.topic for place in plan.unknown_ends)}
    selection = TopicSelection("|".join(re.escape(topic) for topic in sorted(topics)))
    found = await plan_copy(bench, replace(job, selection=selection))
    known = {spec.key.partition for spec in plan.specs}
    specs = tuple(spec for spec in found.specs if spec.key.partition not in known)
    unknown = {place: error for place, error in found.unknown_ends.items() if place not in known}
    return replace(found, specs=specs, unknown_ends=unknown)


def _remarks(job: CopyJob, topics: Iterable[str]) -> tuple[str, ...]:
    if not job.selection.excludes_none(topics):
        return ()
    return (unmatched_exclude(job.source, job.selection),)


def topics_to_copy(job: CopyJob, topics: Iterable[str], *, is_one_cluster: bool) -> tuple[str, ...]:
    """Return the source topics that the job selects, sorted.

    Raises InvalidRequest if a topic would be copied onto itself, if a topic is a copy made by an earlier run,
    or if a destination topic is internal.
    """
    chosen = job.selection.choose(topics, job.own)
    if is_one_cluster and job.naming.is_identity:
        raise _onto_themselves()
    for topic in chosen:
        before = job.naming.source(topic)
        if is_one_cluster and before is not None and job.selection.matches(before):
            copies = ".*".join(map(re.escape, job.naming.template.split(PLACEHOLDER)))
            raise InvalidRequest(
                f"topic {topic} may be a copy of {before}; each further run would copy it again",
                advice=f"exclude the copies with --exclude '{copies}'",
            )
        if job.naming.destination(topic) in job.own:
            raise InvalidRequest(
                f"topic {topic} would be copied to an internal topic of Headrace",
                advice="use another --rename",
            )
    return chosen


def _onto_themselves() -> InvalidRequest:
    return InvalidRequest("this would copy topics onto themselves", advice="use --rename, such as copy-*")


async def _ends(
    bench: EngineContext, job: CopyJob, places: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, HeadraceError]]:
    """Return the end offset of each partition, and the error of each partition whose end is unknown.

    Raises Unreachable if no end offset can be read.
    """
    committed = job.policy.isolation is Isolation.READ_COMMITTED
    source = bench.cluster(job.source)
    ends: dict[TopicPartition, int] = {}
    unknown: dict[TopicPartition, HeadraceError] = {}
    for place, answer in (await source.offsets(dict.fromkeys(places, LATEST), committed=committed)).items():
        if answer.error:
            unknown[place] = _unknown_end(source, place, answer.error)
        else:
            ends[place] = answer.offset
    return ends, unknown


def _unknown_end(source: Cluster, place: TopicPartition, code: int) -> HeadraceError:
    if code not in TRANSIENT:
        doing, right = f"cannot read the end of {place} on {source.name}", f"Read on topic {place.topic}"
        return source.error(code, doing, right)
    leader = source.leader(place)
    if leader is None:
        return Unreachable(f"{place} on {source.name} has no leader")
    host, port = source.brokers[leader[0]]
    return Unreachable(f"broker {leader[0]} of {source.name} ({host}:{port}) returned no end of {place}")


async def _require_same_cluster(bench: EngineContext, job: CopyJob, topics: Sequence[str]) -> None:
    """Check that the stored progress belongs to the destination cluster, before any write."""
    log, source, target = bench.progress(job.destination), bench.cluster(job.source), job.destination
    await log.require_safe()
    if not log.exists:
        return
    keys = [
        LaneKey(GroupName(job.state), place) for topic in topics for place in source.topics[topic].partitions
    ]
    for progress in (await log.load(keys)).values():
        if progress is not None:
            progress.require_cluster(target, bench.cluster(target).cluster_id)


async def _require_checkpoints(bench: EngineContext, job: CopyJob, places: Sequence[TopicPartition]) -> None:
    keys = [LaneKey(GroupName(job.state), place) for place in places]
    stored = await bench.progress(job.destination).load(keys)
    missing = [str(key.partition) for key in keys if stored[key] is None]
    if missing:
        some = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        raise InvalidRequest(
            f"state {job.state} has no checkpoint of {some}",
            advice="use --start earliest to copy these partitions from the beginning",
        )


async def forget_progress(bench: EngineContext, job: CopyJob, specs: Sequence[LaneSpec]) -> None:
    """Delete the stored progress of a finished copy. Raises Unreachable."""
    log = bench.progress(job.destination)
    await log.load([])
    await log.forget([spec.key for spec in specs], bench.clock.now_ms())


def shares(specs: Sequence[LaneSpec], workers: int) -> list[list[LaneSpec]]:
    """Distribute lanes over workers round-robin, and divide the quota among them.

    The partitions of each topic are spread over the workers.
    """
    dealt: list[list[LaneSpec]] = [[] for _ in range(min(workers, max(len(specs), 1)))]
    for number, spec in enumerate(specs):
        quota = -(-spec.policy.bytes_per_second // len(dealt))
        share = replace(spec, policy=replace(spec.policy, bytes_per_second=quota))
        dealt[number % len(dealt)].append(share)
    return dealt
