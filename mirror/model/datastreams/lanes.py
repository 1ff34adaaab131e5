"""Lanes as instances assign them and engines report on them: specifications and events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import DEFAULT_POLICY, CopyPolicy
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.movement.excuses import NO_EXCUSE, Excuse
from mirror.model.topics import TopicPartition

SILENT_WORKER: Final = "its worker process does not respond; it is killed and replaced if this lasts"
"""Reason of a lane whose worker process does not respond."""
NO_WORKER: Final = "no worker process is available"
"""First words of the reason of a lane that waits for a worker process."""


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    """Identity of a lane: one source partition of one group of datastreams."""

    group: GroupName
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """Everything an engine needs to copy one partition.

    `start` applies only if the partition has no checkpoint; `start_ms` then selects the first record that is
    not older (epoch milliseconds). `end_offset`: the lane stops before it. `consumer_group`: group to commit
    the position to at the source, visible to standard tools; empty for none. `source_id`, `destination_id`:
    the only cluster ids to read from and write to; empty for any. `restart_ms`: progress from before this
    time is ignored. `excuse`: records that count against no objective. `start_offset`: overrides `start`.
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
    """The lane copies, starting at `position` (source offset)."""

    key: LaneKey
    position: int


@dataclass(frozen=True, slots=True)
class LaneStopped:
    """The lane has drained and its checkpoint is durable; another engine may start it now."""

    key: LaneKey
    next_offset: int | None


class PauseCause(StrEnum):
    """Cause for which a lane is not copying."""

    SOURCE_AWAY = "source away"
    """The source cluster does not respond in time, or keeps returning the same error."""
    DESTINATION_AWAY = "destination away"
    TRUNCATED = "truncated"
    """The source has lost records, or its history has diverged."""
    RECREATED = "recreated"
    """The source topic was deleted and created again."""
    OPEN_TRANSACTION = "open transaction"
    """A transaction is open at the source."""
    SILENT_WORKER = "silent worker"
    """The worker process does not respond."""
    NO_WORKER = "no worker"
    """No worker process is available."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class LanePaused:
    """The lane paused itself; other lanes continue. `reason` contains the coordinates an operator needs."""

    key: LaneKey
    reason: str
    cause: PauseCause = PauseCause.OTHER


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """A lane that had paused itself copies again."""

    key: LaneKey


class QuotaOwner(StrEnum):
    """Owner of the quota that throttles a lane."""

    TASK = "task"
    DATASTREAM = "datastream"
    SOURCE = "source brokers"
    DESTINATION = "destination brokers"
    OTHERS = "partitions in danger"
    """The lane yields to partitions that would lose records sooner."""


class QuotaHold(NamedTuple):
    """A quota that throttles a lane. `share`: share of the time; `broker`: id of the throttling broker, if it
    is the quota of a cluster."""

    owner: QuotaOwner
    share: float
    broker: int | None = None


class Unanswered(NamedTuple):
    """Seconds for which a lane's oldest requests have been waiting for a response: its fetch, and its produce
    or the requests before its first produce. None if no response is overdue or no request is pending. The
    time that a fetch may wait for records and the delay caused by a broker's quota do not count."""

    fetch_seconds: float | None = None
    produce_seconds: float | None = None


ANSWERED: Final = Unanswered()


@dataclass(frozen=True, slots=True)
class LaneHeldBack:
    """The lane is throttled by a configured quota. `reason` names the quota; empty once no quota throttles
    the lane. `hold`: the same as values."""

    key: LaneKey
    reason: str
    hold: QuotaHold | None = None


LaneEvent = LaneStarted | LaneStopped | LanePaused | LaneResumed | LaneHeldBack
