"""Specifications of lanes, which instances assign, and events of lanes, which engines report."""

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
"""Reason shown for a lane whose worker process does not respond."""
NO_WORKER: Final = "no worker process is available"
"""First words of the reason shown for a lane that waits for a worker process."""


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    """Identity of a lane: one source partition of one group of datastreams."""

    group: GroupName
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """Everything an engine needs to copy one partition.

    `start` applies only if the partition has no checkpoint; `start_ms` then selects the first record that is
    not older (epoch milliseconds). `end_offset`: the lane copies only records below this offset.
    `consumer_group`: group to which the lane commits its position at the source, for standard tools; empty
    for none. `source_id`, `destination_id`: required ids of the clusters; empty if any id is accepted.
    `restart_ms`: progress stored before this time is ignored. `excuse`: records that do not count against an
    objective. `start_offset`: overrides `start`. `checkpoint_seconds`: longest time between two checkpoints
    of the lane while it advances; 0 if that of the instance applies.
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
    checkpoint_seconds: float = 0.0


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
    """Reason that a lane is not copying."""

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
    NO_TOPIC = "no topic"
    """The destination topic, or the partition of it, does not exist yet."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class LanePaused:
    """The lane paused itself; other lanes continue. `reason` names the cluster, topic, partition and offset
    if they are relevant."""

    key: LaneKey
    reason: str
    cause: PauseCause = PauseCause.OTHER


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """The lane copies again after it had paused itself."""

    key: LaneKey


class QuotaOwner(StrEnum):
    """Level at which the quota that throttles a lane is set."""

    TASK = "task"
    DATASTREAM = "datastream"
    SOURCE = "source brokers"
    DESTINATION = "destination brokers"
    OTHERS = "partitions in danger"
    """The lane is throttled so that partitions whose records expire sooner at the source are copied first."""


class QuotaHold(NamedTuple):
    """A quota that throttles a lane. `share`: share of the time in which the lane is throttled; `broker`: id
    of the throttling broker for a quota of brokers."""

    owner: QuotaOwner
    share: float
    broker: int | None = None


class Unanswered(NamedTuple):
    """Seconds by which responses to a lane's oldest requests are overdue; None if no response is overdue.
    `produce_seconds` includes the requests that must precede the first produce request. The time for which a
    fetch may wait for records, and the delay caused by a broker's quota, do not count."""

    fetch_seconds: float | None = None
    produce_seconds: float | None = None


ANSWERED: Final = Unanswered()


class WindowLimit(NamedTuple):
    """Limit of the rate to or from a distant broker: because of the socket buffers, each connection carries
    at most `window_bytes` in a round trip. `connections`: number of additional connections in use."""

    broker: int
    window_bytes: int
    round_trip_ms: float
    connections: int
    allowed_connections: int


class LaneWindows(NamedTuple):
    """Limits that the brokers' socket buffers set to the rate of a lane; None if they are not the limit, or
    if unknown."""

    source: WindowLimit | None = None
    destination: WindowLimit | None = None


NO_WINDOWS: Final = LaneWindows()


@dataclass(frozen=True, slots=True)
class LaneHeldBack:
    """The lane is throttled by a configured quota. `reason` names the quota, and is empty once no quota
    throttles the lane. `hold`: the quota, and the share of the time in which it throttles the lane."""

    key: LaneKey
    reason: str
    hold: QuotaHold | None = None


LaneEvent = LaneStarted | LaneStopped | LanePaused | LaneResumed | LaneHeldBack
