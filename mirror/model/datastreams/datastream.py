"""A datastream: which topics go from where to where, under which limits, in which state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.clusters import checked_cluster
from mirror.model.datastreams.creation import Creation
from mirror.model.datastreams.metadata import CREATED_MS, GROUP_ID, TASK_PREFIX, TTL_MS, checked_metadata
from mirror.model.datastreams.objectives.lines import objectives_from
from mirror.model.datastreams.objectives.mode import Mode, mode_from
from mirror.model.datastreams.objectives.objective import LARGEST_OBJECTIVE_MS, Objective
from mirror.model.datastreams.policy import (
    ADOPT_EXISTING,
    GROW_EXISTING,
    SHARED_DESTINATION,
    CopyPolicy,
    excluded_settings,
    is_on,
    policy_from,
)
from mirror.model.datastreams.positions.start_positions import StartPositions, positions_from
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.load import TaskLimits
from mirror.model.movement.excuses import Resumption
from mirror.model.sizing.knobs import PlacementKnobs, knobs_from
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection, checked_topic
from mirror.wording import counted

_MOST_PAUSED_TOPICS: Final = 10_000
LATEST_START_MS: Final = 253_402_300_799_999
"""The last moment to begin at: the end of the year 9999."""
_NAME_ADVICE: Final = (
    f"use 1 to {bounds.LONGEST_NAME} printable characters: no slash, no blanks around, not only dots"
)


class DatastreamStatus(StrEnum):
    """Life cycle as in Brooklin: the leader makes INITIALIZING into READY and removes DELETING."""

    INITIALIZING = "INITIALIZING"
    READY = "READY"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    DELETING = "DELETING"

    @property
    def is_halted(self) -> bool:
        """Whether somebody has paused or stopped it, or is about to."""
        return self in {DatastreamStatus.PAUSED, DatastreamStatus.STOPPING, DatastreamStatus.STOPPED}

    @property
    def is_mirrored(self) -> bool:
        """Whether partitions of a datastream in this state are copied."""
        return self is DatastreamStatus.READY

    @property
    def has_tasks(self) -> bool:
        """Whether the plan holds partitions of a datastream in this state; those of a paused one stay."""
        return self in {DatastreamStatus.READY, DatastreamStatus.PAUSED}


class StartPosition(StrEnum):
    """Where a partition without a checkpoint begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    """Where the datastream's consumer group has committed; elsewhere the earliest record."""
    COMMITTED_OR_LATEST = "committed-or-latest"
    """Where the datastream's consumer group has committed; elsewhere only what comes from now on."""
    EARLIEST_LOCAL = "earliest-local"
    """The first record that the brokers have on their own disks (KIP-405); what lies in a remote tier only
    is left out. Brokers that know no remote tier have all of a log there."""
    TIMESTAMP = "timestamp"
    """The first record whose timestamp is not older than a moment; where there is none, the end."""

    @property
    def is_committed(self) -> bool:
        """Whether another mirror's committed offsets are taken over."""
        return self in {StartPosition.COMMITTED, StartPosition.COMMITTED_OR_LATEST}

    @property
    def is_latest(self) -> bool:
        """Whether a partition of which nothing is committed begins at its end."""
        return self in {StartPosition.LATEST, StartPosition.COMMITTED_OR_LATEST}


@dataclass(frozen=True)
class LatencyObjective:
    """The SLA in short: `percentile` of the records must arrive within `milliseconds`. See `Objective`."""

    milliseconds: int
    percentile: float = 99.0

    def __post_init__(self) -> None:
        bounds.integer("the latency objective in ms", self.milliseconds, 1, LARGEST_OBJECTIVE_MS)
        if not 0 < bounds.number("the percentile of a latency objective", self.percentile, 0, 100) < 100:
            raise InvalidRequest("the percentile of a latency objective lies between 0 and 100")


@dataclass(frozen=True, slots=True)
class PartitionPause:
    """Partitions of one topic that somebody paused, and why. `numbers` None: all of them, also those that
    come later. It lasts until `until_ms` (epoch), or else until somebody resumes them. `requested_by`: as far
    as it was given."""

    numbers: frozenset[int] | None
    reason: str
    since_ms: int
    requested_by: str = ""
    until_ms: int | None = None

    def __post_init__(self) -> None:
        _check_cause("a pause", self.reason, self.since_ms, self.requested_by, self.until_ms)
        if self.numbers and not 0 <= min(self.numbers) <= max(self.numbers) <= bounds.LARGEST_PARTITION:
            raise InvalidRequest(f"paused partitions lie between 0 and {bounds.LARGEST_PARTITION}")

    def covers(self, number: int) -> bool:
        """Whether a partition is paused."""
        return self.numbers is None or number in self.numbers


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a whole datastream is paused, stopped or deleted, since when (epoch ms), and who asked for it, as
    far as that was given. `until_ms`: when a pause ends by itself (epoch); None: when somebody resumes it."""

    reason: str
    since_ms: int
    requested_by: str = ""
    until_ms: int | None = None

    def __post_init__(self) -> None:
        _check_cause("a halt", self.reason, self.since_ms, self.requested_by, self.until_ms)


def _check_cause(what: str, reason: object, since_ms: object, requested_by: object, until_ms: object) -> None:
    bounds.text(f"the reason of {what}", reason, bounds.LONGEST_REASON)
    bounds.integer(f"the moment of {what}", since_ms, 0, bounds.LARGEST_MS)
    bounds.text(f"who asked for {what}", requested_by, bounds.LONGEST_NAME)
    if until_ms is not None:
        bounds.integer(f"the end of {what}", until_ms, 0, bounds.LARGEST_MS)


def check_name(value: object, role: str = "a datastream") -> None:
    """A name that can be a znode and part of a consumer group id. Raises InvalidRequest."""
    try:
        name = bounds.line("the name", value)
    except InvalidRequest as error:
        name, why = "", f": {error.message}"
    else:
        why = ""
    if "/" in name or not name.strip("."):
        raise InvalidRequest(f"{bounds.shown(value)} cannot name {role}{why}", advice=_NAME_ADVICE)


@dataclass(frozen=True)
class Datastream:
    """One definition. `metadata` keeps every key its creator gave, known to us or not. `pauses`: by topic.
    `halt`: why it is paused or stopped, if somebody said so. `start_ms`: the moment where it begins, of the
    start `timestamp` and no other. `creation`: which call has created it, as far as that call has a name of
    its own. `resumptions`: by topic, or `WHOLE`, the last pause that is over.

    There is none that cannot be stored, shown and run: raises InvalidRequest that names the first field of
    which `mirror.model.bounds`, `clusters`, `metadata`, `policy` or `topics` does not approve.
    """

    name: DatastreamName
    source: ClusterRef
    selection: TopicSelection
    destination: ClusterRef
    naming: TopicNaming = field(default_factory=TopicNaming)
    status: DatastreamStatus = DatastreamStatus.INITIALIZING
    start: StartPosition = StartPosition.EARLIEST
    start_ms: int | None = None
    limits: TaskLimits = field(default_factory=TaskLimits)
    objective: LatencyObjective | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    pauses: Mapping[str, PartitionPause] = field(default_factory=dict)
    halt: Halt | None = None
    creation: Creation | None = None
    resumptions: Mapping[str, Resumption] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name)
        checked_cluster("the source cluster", self.source)
        checked_cluster("the destination cluster", self.destination)
        if self.source == self.destination and self.naming.is_identity:
            raise InvalidRequest(
                f"datastream {self.name} would copy topics onto themselves",
                advice="choose another destination cluster or a destination name such as copy.*",
            )
        if self.start_ms is not None:
            bounds.integer("the moment of the start", self.start_ms, 0, LATEST_START_MS)
        if (self.start is StartPosition.TIMESTAMP) != (self.start_ms is not None):
            raise InvalidRequest(f"the start {self.start} and its moment do not fit together")
        checked_metadata(self.metadata)
        if self.metadata.get(TASK_PREFIX):
            check_name(self.metadata[TASK_PREFIX], f"the group of metadata {TASK_PREFIX}")
        policy_from(self.metadata)
        if len(self.pauses) > _MOST_PAUSED_TOPICS:
            raise InvalidRequest(
                f"{counted(len(self.pauses), 'topic is', 'topics are')} paused one by one",
                advice="pause it whole",
            )
        for topic in self.pauses:
            checked_topic("a paused topic", topic)

    @cached_property
    def policy(self) -> CopyPolicy:
        """How it is copied, as its metadata says."""
        return policy_from(self.metadata)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """Those that its metadata has, beside `objective`."""
        return objectives_from(self.metadata)

    @cached_property
    def placement(self) -> PlacementKnobs:
        """What it chooses about its placement."""
        return knobs_from(self.metadata)

    @cached_property
    def start_positions(self) -> StartPositions:
        """Offsets at which partitions begin that have no checkpoint."""
        return positions_from(self.metadata)

    @property
    def monitor_mode(self) -> Mode | None:
        """What the monitor does about a breach; None: as its settings say."""
        return mode_from(self.metadata)

    @cached_property
    def group(self) -> GroupName:
        """Datastreams with the same group share tasks."""
        return GroupName(self.metadata.get(TASK_PREFIX) or self.name)

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether somebody paused this partition; the datastream as a whole may be paused besides."""
        pause = self.pauses.get(partition.topic)
        return pause is not None and pause.covers(partition.partition)

    @property
    def created_ms(self) -> int | None:
        """When it was created (epoch ms), as far as its definition says."""
        return int(self.metadata[CREATED_MS]) if CREATED_MS in self.metadata else None

    @property
    def shares_destination(self) -> bool:
        """Whether other datastreams may write its destination topics too, if they allow it as well."""
        return is_on(self.metadata, SHARED_DESTINATION)

    @property
    def excluded_settings(self) -> frozenset[str]:
        """Topic settings that are not carried to topics that are created for the datastream."""
        return excluded_settings(self.metadata)

    @property
    def grows_existing(self) -> bool:
        """Whether destination topics that were there before it may get more partitions."""
        return is_on(self.metadata, GROW_EXISTING)

    @property
    def adopts(self) -> bool | None:
        """Whether it writes into destination topics that were there before it; None: it does not say. What
        may grow is written too."""
        if ADOPT_EXISTING in self.metadata:
            return is_on(self.metadata, ADOPT_EXISTING)
        return True if self.grows_existing else None

    @property
    def expires_ms(self) -> int | None:
        """When its time to live is over; None: never. Brooklin's keys, epoch ms and ms."""
        if self.created_ms is None or TTL_MS not in self.metadata:
            return None
        return self.created_ms + int(self.metadata[TTL_MS])

    @property
    def consumer_group(self) -> str:
        """The source consumer group that shows this datastream's positions (Brooklin's rule)."""
        return self.metadata.get(GROUP_ID) or self.name
