"""A datastream: which topics go from where to where, under which limits, in which state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.load import TaskLimits
from mirror.model.policy import GROW_EXISTING, SHARED_DESTINATION, CopyPolicy, is_on, policy_from
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection

OWNER: Final = "owner"
TASK_PREFIX: Final = "system.taskPrefix"
GROUP_ID: Final = "group.id"
CREATED_MS: Final = "system.creation.ms"
TTL_MS: Final = "system.ttl.ms"

_LONGEST_NAME: Final = 200
_LONGEST_NUMBER: Final = 18
"""Digits of a number of milliseconds that is taken for one."""


class DatastreamStatus(StrEnum):
    """Life cycle as in Brooklin: the leader makes INITIALIZING into READY and removes DELETING."""

    INITIALIZING = "INITIALIZING"
    READY = "READY"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    DELETING = "DELETING"

    @property
    def is_mirrored(self) -> bool:
        """Whether partitions of a datastream in this state are copied."""
        return self is DatastreamStatus.READY


class StartPosition(StrEnum):
    """Where a partition without a checkpoint begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    """Where the datastream's consumer group has committed; elsewhere the earliest record."""
    COMMITTED_OR_LATEST = "committed-or-latest"
    """Where the datastream's consumer group has committed; elsewhere only what comes from now on."""

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
    """The SLA: `percentile` of the records must arrive within `milliseconds`."""

    milliseconds: int
    percentile: float = 99.0

    def __post_init__(self) -> None:
        if self.milliseconds <= 0:
            raise InvalidRequest("the latency objective must be above 0 ms")
        if not 0 < self.percentile < 100:
            raise InvalidRequest("the percentile of a latency objective lies between 0 and 100")


@dataclass(frozen=True, slots=True)
class Pause:
    """Partitions of one topic that somebody paused, and why. `numbers` None: all of them, also those that
    come later. It lasts until somebody resumes them."""

    numbers: frozenset[int] | None
    reason: str
    since_ms: int

    def covers(self, number: int) -> bool:
        """Whether a partition is paused."""
        return self.numbers is None or number in self.numbers


@dataclass(frozen=True)
class Datastream:
    """One definition. `metadata` keeps every key its creator gave, known to us or not. `pauses`: by topic.

    Raises InvalidRequest when the name cannot be a znode and part of a consumer group id, and for a policy
    that the metadata cannot ask for.
    """

    name: DatastreamName
    source: ClusterRef
    selection: TopicSelection
    destination: ClusterRef
    naming: TopicNaming = field(default_factory=TopicNaming)
    status: DatastreamStatus = DatastreamStatus.INITIALIZING
    start: StartPosition = StartPosition.EARLIEST
    limits: TaskLimits = field(default_factory=TaskLimits)
    objective: LatencyObjective | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)

    def __post_init__(self) -> None:
        name = self.name
        is_plain = name.isprintable() and name == name.strip() and "/" not in name and name.strip(".")
        if not is_plain or not 0 < len(name) <= _LONGEST_NAME:
            raise InvalidRequest(
                f"{name!r} cannot name a datastream",
                advice=f"use 1 to {_LONGEST_NAME} printable characters: no slash, no blanks around, "
                "not only dots",
            )
        if self.source == self.destination and self.naming.is_identity:
            raise InvalidRequest(
                f"datastream {name} would copy topics onto themselves",
                advice="choose another destination cluster or a destination name such as copy.*",
            )
        policy_from(self.metadata)

    @cached_property
    def policy(self) -> CopyPolicy:
        """How it is copied, as its metadata says."""
        return policy_from(self.metadata)

    @property
    def group(self) -> GroupName:
        """Datastreams with the same group share tasks."""
        return GroupName(self.metadata.get(TASK_PREFIX) or self.name)

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether somebody paused this partition; the datastream as a whole may be paused besides."""
        pause = self.pauses.get(partition.topic)
        return pause is not None and pause.covers(partition.partition)

    @property
    def created_ms(self) -> int | None:
        """When it was created (epoch ms), as far as its definition tells."""
        text = self.metadata.get(CREATED_MS, "")
        return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None

    @property
    def shares_destination(self) -> bool:
        """Whether other datastreams may write its destination topics too, if they allow it as well."""
        return is_on(self.metadata, SHARED_DESTINATION)

    @property
    def grows_existing(self) -> bool:
        """Whether destination topics that were there before it may get more partitions."""
        return is_on(self.metadata, GROW_EXISTING)

    @property
    def expires_ms(self) -> int | None:
        """When its time to live is over; None: never. Brooklin's keys, epoch ms and ms."""
        created, length = self.metadata.get(CREATED_MS, ""), self.metadata.get(TTL_MS, "")
        return int(created) + int(length) if created.isdecimal() and length.isdecimal() else None

    @property
    def consumer_group(self) -> str:
        """The source consumer group that shows this datastream's positions (Brooklin's rule)."""
        return self.metadata.get(GROUP_ID) or self.name
