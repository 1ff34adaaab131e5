"""Specs of the lanes that instances assign, and events that engines report about lanes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import DEFAULT_POLICY, CopyPolicy
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.movement.exemptions import NO_EXEMPTION, LatencyExemption
from mirror.model.reasons import reason_at
from mirror.model.topics import TopicPartition

SILENT_WORKER: Final = "its worker process does not respond; it is killed and replaced if this lasts"
"""Reason shown for a lane whose worker process does not respond."""
NO_WORKER: Final = "no worker process is available"
"""Start of the reason of a lane that waits for a worker process."""


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    """Identity of a lane: a group of datastreams and a source partition."""

    group: GroupName
    partition: TopicPartition

    @property
    def log_fields(self) -> dict[str, str]:
        """Return the fields of log lines about the lane."""
        return {"datastream": self.group, "partition": str(self.partition)}


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """Spec of a lane: everything that an engine needs to copy one partition.

    `start`: start position of a partition without a checkpoint. `start_ms`: start time (epoch ms) for the
    start position `timestamp`. `start_offset`: overrides `start`. `end_offset`: only records below this
    offset are copied. `consumer_group`: group under which the lane commits its position at the source, for
    standard tools; empty for none. `source_id`, `destination_id`: required ids of the clusters; empty to
    accept any id. `restart_ms`: progress that was stored before this time is ignored. `exemption`: records
    that are exempt from latency objectives. `checkpoint_seconds`: maximum time between two checkpoints; 0 for
    the interval of the instance.
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
    exemption: LatencyExemption = NO_EXEMPTION
    start_offset: int | None = None
    checkpoint_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LaneStarted:
    """Event: the lane copies from `position` (source offset)."""

    key: LaneKey
    position: int


@dataclass(frozen=True, slots=True)
class LaneStopped:
    """Event: the lane has drained and its checkpoint is durable; another worker may start it now."""

    key: LaneKey
    next_offset: int | None


class PauseCause(StrEnum):
    """Cause of a pause that the lane itself started."""

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
    """Event: the lane has paused because of an error. Other lanes continue.

    `reason`: contains the cluster, topic and partition if they are relevant. `offset`: source offset at which
    the lane resumes, None if unknown.
    """

    key: LaneKey
    reason: str
    cause: PauseCause = PauseCause.OTHER
    offset: int | None = None

    @property
    def text(self) -> str:
        """Reason with the offset."""
        return reason_at(self.reason, self.offset)


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """Event: the lane copies again after it has paused itself."""

    key: LaneKey


class QuotaOwner(StrEnum):
    """Level at which a quota that throttles lanes is set."""

    TASK = "task"
    DATASTREAM = "datastream"
    SOURCE = "source brokers"
    DESTINATION = "destination brokers"
    OTHERS = "partitions in danger"
    """The lane is throttled so that partitions whose records expire sooner at the source are copied first."""


class QuotaHold(NamedTuple):
    """A quota that throttles a lane.

    `share`: share of the time for which the lane is throttled. `broker`: id of the broker for a quota of the
    brokers.
    """

    owner: QuotaOwner
    share: float
    broker: int | None = None


class Unanswered(NamedTuple):
    """Delays of a lane's oldest unanswered requests in seconds. None if no response is overdue.

    `produce_seconds` includes the requests that precede the first produce request. The time for which a fetch
    may wait for records, and throttling by the broker, do not count.
    """

    fetch_seconds: float | None = None
    produce_seconds: float | None = None


ANSWERED: Final = Unanswered()


class WindowLimit(NamedTuple):
    """Limit of the copy rate that results from socket buffers and the distance of a broker.

    Because of socket buffers, each connection carries at most `window_bytes` per round trip. `connections`:
    number of additional connections in use.
    """

    broker: int
    window_bytes: int
    round_trip_ms: float
    connections: int
    allowed_connections: int


class LaneWindows(NamedTuple):
    """Limits that socket buffers of the source and destination brokers impose on a lane's rate. None without
    a limit, or if unknown."""

    source: WindowLimit | None = None
    destination: WindowLimit | None = None


NO_WINDOWS: Final = LaneWindows()


@dataclass(frozen=True, slots=True)
class LaneHeldBack:
    """Event: a quota throttles the lane, or no longer does. `reason`: names the quota; empty if the lane is
    no longer throttled. `hold`: the quota, and the share of throttled time."""

    key: LaneKey
    reason: str
    hold: QuotaHold | None = None


LaneEvent = LaneStarted | LaneStopped | LanePaused | LaneResumed | LaneHeldBack
