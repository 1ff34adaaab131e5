"""Lanes, as instances hand them out and engines report on them: what to copy, and what has happened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import DEFAULT_POLICY, CopyPolicy
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.movement.excuses import NO_EXCUSE, Excuse
from mirror.model.topics import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    """Names a lane: one source partition of one group of datastreams."""

    group: GroupName
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """All that an engine must know to copy one partition.

    `start` counts only where the partition has no checkpoint; `start_ms` then begins at the first record
    that is not older (epoch milliseconds). `end_offset`: the lane stops by itself in front of it.
    `consumer_group`: where the position is committed at the source, for ordinary tools to show; empty for
    nowhere. `source_id`, `destination_id`: the only clusters that may be read and written; empty where any
    may. `restart_ms`: progress of before that moment does not count. `excuse`: records that count against no
    objective. `start_offset`: begins there instead of at `start`.
    """

    key: LaneKey
    task: TaskName
    source: ClusterRef
    destination: ClusterRef
    destination_topic: str
    start: StartPosition = StartPosition.EARLIEST
    policy: CopyPolicy = DEFAULT_POLICY
    start_ms: int | None = None
    end_offset: int | None = None
    consumer_group: str = ""
    source_id: str = ""
    destination_id: str = ""
    restart_ms: int = 0
    excuse: Excuse = NO_EXCUSE
    start_offset: int | None = None


@dataclass(frozen=True, slots=True)
class LaneStarted:
    """The lane copies, from `position` (source offset) on."""

    key: LaneKey
    position: int


@dataclass(frozen=True, slots=True)
class LaneStopped:
    """The lane has drained and its checkpoint is durable; another engine may start it now."""

    key: LaneKey
    next_offset: int | None


class PauseCause(StrEnum):
    """What kind of thing a lane that does not copy waits for."""

    SOURCE_AWAY = "source away"
    """Its source cluster does not answer in time, or gives the same error again and again."""
    DESTINATION_AWAY = "destination away"
    TRUNCATED = "truncated"
    """The source has lost records, or its history is another one."""
    RECREATED = "recreated"
    """The source's topic was deleted and created again."""
    OPEN_TRANSACTION = "open transaction"
    """At the source."""
    SILENT_WORKER = "silent worker"
    """Its worker process does not answer."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class LanePaused:
    """The lane paused itself; the others go on. `reason` has the coordinates a person needs."""

    key: LaneKey
    reason: str
    cause: PauseCause = PauseCause.OTHER


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """A lane that had paused itself copies again."""

    key: LaneKey


class QuotaOwner(StrEnum):
    """Whose quota holds a lane back."""

    TASK = "task"
    DATASTREAM = "datastream"
    SOURCE = "source brokers"
    DESTINATION = "destination brokers"
    OTHERS = "partitions in danger"
    """It gives way to partitions that would lose records sooner."""


class QuotaHold(NamedTuple):
    """A quota that holds a lane back. `share`: the part of the time; `broker`: id of the one that throttles,
    where it is the quota of a cluster."""

    owner: QuotaOwner
    share: float
    broker: int | None = None


class Unanswered(NamedTuple):
    """For how long the oldest requests of a lane have waited for their answers, in seconds: its fetch, and
    its produce, or what it asks the destination before its first one. None where the answer is not overdue,
    or nothing was asked. The time that a fetch may wait for records, and the time for which a quota of the
    broker's puts an answer off, do not count."""

    fetch_seconds: float | None = None
    produce_seconds: float | None = None


ANSWERED: Final = Unanswered()


@dataclass(frozen=True, slots=True)
class LaneHeldBack:
    """The lane copies, slower than it could: a quota holds it back, as somebody wants. `reason` says which;
    it is empty when none does any more. `hold`: the same as values."""

    key: LaneKey
    reason: str
    hold: QuotaHold | None = None


LaneEvent = LaneStarted | LaneStopped | LanePaused | LaneResumed | LaneHeldBack
