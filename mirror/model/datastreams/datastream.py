"""A datastream: topics, source, destination, limits and state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from mirror.errors import IllegalTransition, InvalidRequest
from mirror.model import bounds
from mirror.model.capacity.knobs import PlacementKnobs, knobs_from
from mirror.model.clusters import checked_cluster
from mirror.model.datastreams.audit_mode import AuditMode, audit_mode_from, lateness_from
from mirror.model.datastreams.consumer_groups import FollowingGroups, groups_from
from mirror.model.datastreams.creation import Creation
from mirror.model.datastreams.metadata import (
    CREATED_MS,
    GROUP_ID,
    OWNER,
    TASK_PREFIX,
    TTL_MS,
    checked_metadata,
)
from mirror.model.datastreams.objectives import (
    LARGEST_OBJECTIVE_MS,
    Mode,
    Objective,
    mode_from,
    objectives_from,
)
from mirror.model.datastreams.policy import (
    ADOPT_EXISTING,
    CANARY,
    EXCLUDED_SETTINGS,
    GROW_EXISTING,
    SHARED_DESTINATION,
    CopyPolicy,
    excluded_settings,
    is_on,
    policy_from,
)
from mirror.model.datastreams.start_positions import StartPositions, positions_from
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.load import TaskLimits
from mirror.model.movement.exemptions import Resumption
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection, canary_topic, checked_topic
from mirror.wording import counted

_MOST_PAUSED_TOPICS: Final = 10_000
LATEST_START_MS: Final = 253_402_300_799_999
"""Latest possible start: the end of the year 9999."""
_NAME_ADVICE: Final = (
    f"use 1 to {bounds.LONGEST_NAME} printable characters: no slash, no surrounding blanks, not only dots"
)


class DatastreamStatus(StrEnum):
    """Status of a datastream, as in Brooklin.

    The leader changes INITIALIZING to READY, and removes datastreams in DELETING.
    """

    INITIALIZING = "INITIALIZING"
    READY = "READY"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    DELETING = "DELETING"

    @property
    def is_halted(self) -> bool:
        """True if the datastream is paused, stopping or stopped."""
        return self in {DatastreamStatus.PAUSED, DatastreamStatus.STOPPING, DatastreamStatus.STOPPED}

    @property
    def is_mirrored(self) -> bool:
        """True if a datastream with this status is copied."""
        return self is DatastreamStatus.READY

    @property
    def has_tasks(self) -> bool:
        """True if a datastream with this status has tasks, even if its partitions are paused."""
        return self in {DatastreamStatus.READY, DatastreamStatus.PAUSED}


class StartPosition(StrEnum):
    """Position at which a partition without a checkpoint starts."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    """Committed offset of the datastream's consumer group, or the earliest record if none is committed."""
    COMMITTED_OR_LATEST = "committed-or-latest"
    """Committed offset of the datastream's consumer group, or the end of the log if none is committed."""
    EARLIEST_LOCAL = "earliest-local"
    """First record on the local disks of the brokers (KIP-405). Records that are only in remote storage are
    skipped. Without tiered storage, this is the earliest record."""
    TIMESTAMP = "timestamp"
    """First record with a timestamp at or after a given time, or the end of the log if there is none."""

    @property
    def is_committed(self) -> bool:
        """True if copying starts at committed offsets of the datastream's consumer group."""
        return self in {StartPosition.COMMITTED, StartPosition.COMMITTED_OR_LATEST}

    @property
    def is_latest(self) -> bool:
        """True if a partition without a committed offset starts at the end of its log."""
        return self in {StartPosition.LATEST, StartPosition.COMMITTED_OR_LATEST}


@dataclass(frozen=True)
class LatencyObjective:
    """Latency objective in its short form: `percentile` of the records must arrive within `milliseconds`. See
    `Objective`."""

    milliseconds: int
    percentile: float = 99.0

    def __post_init__(self) -> None:
        bounds.integer("the latency objective in ms", self.milliseconds, 1, LARGEST_OBJECTIVE_MS)
        if not 0 < bounds.number("the percentile of a latency objective", self.percentile, 0, 100) < 100:
            raise InvalidRequest("the percentile of a latency objective must be between 0 and 100")


@dataclass(frozen=True, slots=True)
class PartitionPause:
    """A pause of partitions of one topic.

    `numbers`: paused partitions; None for all, including partitions that are added later. `until_ms`: end of
    the pause (epoch ms), None until resumed. `requested_by`: empty if unknown.
    """

    numbers: frozenset[int] | None
    reason: str
    since_ms: int
    requested_by: str = ""
    until_ms: int | None = None

    def __post_init__(self) -> None:
        _check_cause("a pause", self.reason, self.since_ms, self.requested_by, self.until_ms)
        if self.numbers and not 0 <= min(self.numbers) <= max(self.numbers) <= bounds.LARGEST_PARTITION:
            raise InvalidRequest(f"paused partitions must be between 0 and {bounds.LARGEST_PARTITION}")

    def covers(self, number: int) -> bool:
        """Return whether the pause includes a partition number."""
        return self.numbers is None or number in self.numbers


@dataclass(frozen=True, slots=True)
class Halt:
    """The pause, stop or deletion of a whole datastream, with its reason.

    Contains its reason, its start (epoch ms) and the requester. `until_ms`: end of a pause (epoch ms), None
    until resumed.
    """

    reason: str
    since_ms: int
    requested_by: str = ""
    until_ms: int | None = None

    def __post_init__(self) -> None:
        _check_cause("a halt", self.reason, self.since_ms, self.requested_by, self.until_ms)


def _check_cause(
    label: str, reason: object, since_ms: object, requested_by: object, until_ms: object
) -> None:
    bounds.text(f"the reason of {label}", reason, bounds.LONGEST_REASON)
    bounds.integer(f"the time of {label}", since_ms, 0, bounds.LARGEST_MS)
    bounds.text(f"the requester of {label}", requested_by, bounds.LONGEST_NAME)
    if until_ms is not None:
        bounds.integer(f"the end of {label}", until_ms, 0, bounds.LARGEST_MS)


def check_name(value: object, role: str = "a datastream") -> None:
    """Raise InvalidRequest for a name that cannot be part of a node path or a consumer group id."""
    try:
        name = bounds.line("the name", value)
    except InvalidRequest as error:
        name, why = "", f": {error.message}"
    else:
        why = ""
    if "/" in name or not name.strip("."):
        raise InvalidRequest(f"{bounds.shown(value)} cannot be the name of {role}{why}", advice=_NAME_ADVICE)


@dataclass(frozen=True)
class Datastream:
    """A datastream: its definition and its status.

    `metadata`: all keys of the creation, including unknown keys. `pauses`: pauses by topic. `halt`: pause or
    stop of the whole datastream, if it has a reason. `start_ms`: start time for the start position
    `timestamp`, otherwise None. `creation`: idempotency record of the call that created the datastream, if
    any. `resumptions`: last finished pause of each topic, or of the datastream under the key `WHOLE`.

    Raises InvalidRequest with the first invalid field.
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
            bounds.integer("the time of the start", self.start_ms, 0, LATEST_START_MS)
        if (self.start is StartPosition.TIMESTAMP) != (self.start_ms is not None):
            raise InvalidRequest(
                f"the start {self.start} does not match start_ms; give start_ms only with timestamp"
            )
        checked_metadata(self.metadata)
        if self.metadata.get(TASK_PREFIX):
            check_name(self.metadata[TASK_PREFIX], f"the group of metadata {TASK_PREFIX}")
        policy_from(self.metadata)
        self._select_canary()
        if len(self.pauses) > _MOST_PAUSED_TOPICS:
            raise InvalidRequest(
                f"{counted(len(self.pauses), 'topic')} cannot be paused individually",
                advice="pause the whole datastream",
            )
        for topic in self.pauses:
            checked_topic("a paused topic", topic)

    def _select_canary(self) -> None:
        """Add the canary topic to the topic selection if the option is on, otherwise remove it."""
        topic = canary_topic(self.name) if is_on(self.metadata, CANARY) else ""
        if self.selection.canary != topic:
            object.__setattr__(self, "selection", replace(self.selection, canary=topic))

    @cached_property
    def policy(self) -> CopyPolicy:
        """Copy policy from the metadata of the datastream."""
        return policy_from(self.metadata)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """Latency objectives in the metadata, in addition to the short form."""
        return objectives_from(self.metadata)

    @cached_property
    def placement(self) -> PlacementKnobs:
        """Placement options of this datastream."""
        return knobs_from(self.metadata)

    @cached_property
    def start_positions(self) -> StartPositions:
        """Offsets at which partitions without a checkpoint start."""
        return positions_from(self.metadata)

    @property
    def monitor_mode(self) -> Mode | None:
        """Reaction of the monitor to a breach, or None for the monitor's default."""
        return mode_from(self.metadata)

    @property
    def audit_mode(self) -> AuditMode:
        """Mode of the datastream's continuous audit."""
        return audit_mode_from(self.metadata)

    @property
    def audit_lateness_seconds(self) -> int | None:
        """Maximum seconds from a record's timestamp to its arrival at the source, or None for the value in
        the settings."""
        return lateness_from(self.metadata)

    @cached_property
    def following_groups(self) -> FollowingGroups:
        """Consumer groups whose committed offsets are synchronised to the destination."""
        return groups_from(self.metadata)

    @cached_property
    def group(self) -> GroupName:
        """Group of datastreams that share tasks with this one."""
        return GroupName(self.metadata.get(TASK_PREFIX) or self.name)

    def is_paused(self, partition: TopicPartition) -> bool:
        """Return whether the partition is paused, either itself or as part of its topic.

        Pauses of the whole datastream are ignored.
        """
        pause = self.pauses.get(partition.topic)
        return pause is not None and pause.covers(partition.partition)

    @property
    def owner(self) -> str:
        """Owner of the datastream; empty if the definition has none."""
        return self.metadata.get(OWNER, "")

    @property
    def created_ms(self) -> int | None:
        """Creation time (epoch ms); None if the definition lacks it."""
        return int(self.metadata[CREATED_MS]) if CREATED_MS in self.metadata else None

    @property
    def shares_destination(self) -> bool:
        """True if the datastream shares its destination topics with other datastreams that set this
        option."""
        return is_on(self.metadata, SHARED_DESTINATION)

    @property
    def excluded_settings(self) -> frozenset[str]:
        """Topic settings that are not copied to topics created for the datastream."""
        return excluded_settings(self.metadata) if EXCLUDED_SETTINGS in self.metadata else frozenset()

    @property
    def grows_existing(self) -> bool:
        """True if partitions may be added to destination topics that are older than the datastream."""
        return is_on(self.metadata, GROW_EXISTING)

    @property
    def adopts(self) -> bool | None:
        """True if the datastream may write to older destination topics; None if not configured.
        `grows_existing`, the permission to add partitions to older topics, implies this permission."""
        if ADOPT_EXISTING in self.metadata:
            return is_on(self.metadata, ADOPT_EXISTING)
        return True if self.grows_existing else None

    @property
    def expires_ms(self) -> int | None:
        """Time at which the datastream expires (epoch ms), None for never. Set by metadata keys of
        Brooklin."""
        if self.created_ms is None or TTL_MS not in self.metadata:
            return None
        return self.created_ms + int(self.metadata[TTL_MS])

    @property
    def consumer_group(self) -> str:
        """Consumer group at the source under which the datastream commits its positions, as in Brooklin."""
        return self.metadata.get(GROUP_ID) or self.name


_S = DatastreamStatus

TRANSITIONS: Final = {
    "activate": ({_S.INITIALIZING}, _S.READY),
    "pause": ({_S.READY}, _S.PAUSED),
    "resume": ({_S.PAUSED, _S.STOPPED}, _S.READY),
    "stop": ({_S.READY, _S.PAUSED, _S.STOPPING}, _S.STOPPING),
    "settle": ({_S.STOPPING}, _S.STOPPED),
    "delete": (set(_S) - {_S.DELETING}, _S.DELETING),
}
"""Actions, the statuses in which they are permitted, and the resulting status."""
_ALREADY: Final = {("stop", _S.STOPPED), ("delete", _S.DELETING)}
"""Actions without an effect, by status of the datastream, because they were already performed."""


def next_status(datastream: Datastream, action: str) -> DatastreamStatus:
    """Return the status of a datastream after an action. Raises IllegalTransition."""
    if (action, datastream.status) in _ALREADY:
        return datastream.status
    allowed, target = TRANSITIONS[action]
    if datastream.status not in allowed:
        states = ", ".join(sorted(allowed))
        raise IllegalTransition(
            f"datastream {datastream.name} is {datastream.status}; {action} is allowed from {states}"
        )
    return target


def clusters_of(datastreams: Iterable[Datastream]) -> set[ClusterRef]:
    """Return the sources and destinations of datastreams."""
    return {cluster for datastream in datastreams for cluster in (datastream.source, datastream.destination)}


def activated(datastream: Datastream) -> Datastream:
    """Return the datastream with the status READY if it was INITIALIZING."""
    if datastream.status is not DatastreamStatus.INITIALIZING:
        return datastream
    return replace(datastream, status=next_status(datastream, "activate"))
