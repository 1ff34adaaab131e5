"""What the decisions need from the world, as Protocols. Adapters satisfy them by shape.

A fake and the real adapter of a port pass the same suite in tests/contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import DEFAULT_POLICY, CopyPolicy
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.load import LoadReport, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.metrics import MirrorMetric
from mirror.model.topics import SourcePosition, TopicDescription, TopicPartition


class Clock(Protocol):
    """Time as an argument. Durations use `monotonic`, records and znodes use `now_ms`."""

    def now_ms(self) -> int:
        """Wall clock, epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


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
    nowhere.
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


@dataclass(frozen=True, slots=True)
class LanePaused:
    """The lane paused itself; the others go on. `reason` has the coordinates a person needs."""

    key: LaneKey
    reason: str


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """A lane that had paused itself copies again."""

    key: LaneKey


LaneEvent = LaneStarted | LaneStopped | LanePaused | LaneResumed


class CopyEngine(Protocol):
    """Copies partitions inside one worker process. Used by one thread, never blocks beyond `step`."""

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Get ready for these, which another instance still has: connect and look around, copy nothing."""
        ...

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Begin to copy these, from their checkpoints. A lane that runs already is left alone."""
        ...

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop fetching these, drain and checkpoint them; `LaneStopped` tells when each is done."""
        ...

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Let the lanes of these datastream groups together copy so many bytes a second from now on."""
        ...

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Copy until something has happened to a lane, at most for so long."""
        ...

    def metrics(self) -> Sequence[MirrorMetric]:
        """What was copied since the last call, a record for every lane with something to say."""
        ...

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Drain and checkpoint all lanes up to the deadline, then drop connections. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Drops:
    """Records that were handed over and not delivered. `count`: since the start; `reason`: of the first ones
    while more are dropped, else empty."""

    count: int = 0
    reason: str = ""


def total_of(drops: Iterable[Drops]) -> Drops:
    """All together, with the reason of one that drops records now."""
    all_of_them = tuple(drops)
    reason = next((one.reason for one in all_of_them if one.reason), "")
    return Drops(sum(one.count for one in all_of_them), reason)


class MetricSink(Protocol):
    """Where measurements go. Losing some must not stop the mirror."""

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        """Hand over; never blocks."""
        ...

    def drops(self) -> Drops:
        """What was not delivered, as far as it is known now; never blocks. To be asked every second or so."""
        ...


class TopicAdmin(Protocol):
    """Topics of one cluster."""

    def cluster_id(self) -> str:
        """What the cluster calls itself, however it was reached. Raises Unreachable, Refused."""
        ...

    def list_topics(self) -> Mapping[str, int]:
        """Partition count by topic name. Raises Unreachable."""
        ...

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Descriptions by name; missing topics are left out. Raises Unreachable."""
        ...

    def hidden(self, topics: Sequence[str]) -> frozenset[str]:
        """Which of these we may not describe: they are not listed, whether they exist or not. Raises
        Unreachable, Refused."""
        ...

    def positions(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, SourcePosition]:
        """Where a consumer group stands, and what the partitions hold; those that have no leader now are left
        out. Raises Unreachable, Refused."""
        ...

    def create(self, topic: TopicDescription) -> None:
        """Create the topic; one that exists already is left as it is. Raises Refused, Unreachable."""
        ...

    def grow(self, topic: str, partitions: int) -> None:
        """Raise the partition count; never lowers it. Raises Refused, Unreachable."""
        ...


class NodeStore(Protocol):
    """ZooKeeper's primitives. Paths are absolute below the service's root. Thread-safe.

    A watch fires once, from any thread, after what was read has changed; it only enqueues.
    All methods raise Unreachable while the session is down and SessionLost when it is over.
    """

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Make a node and its parents; returns its path. Raises AlreadyExists."""
        ...

    def create_all(self, nodes: Sequence[tuple[str, bytes]]) -> None:
        """Make many nodes, each after its parent, without waiting for one before the next is sent.

        Raises AlreadyExists; some of them may have been made whatever is raised.
        """
        ...

    def read(self, path: str, watch: Watch | None = None) -> Node:
        """Data and version. Raises NotFound (the watch then waits for the creation)."""
        ...

    def read_all(self, paths: Sequence[str]) -> Sequence[Node]:
        """Many nodes, without waiting for one before the next is asked for. Raises NotFound."""
        ...

    def sync(self) -> None:
        """What is read afterwards is at least as new as what anybody had written before."""
        ...

    def write(self, path: str, data: bytes, version: int) -> int:
        """Replace data if the version is exactly this one; returns the new version.

        Raises VersionConflict, NotFound.
        """
        ...

    def delete(self, path: str, version: int | None = None) -> None:
        """Remove a node that has none below it; one that is gone already is fine.

        Raises VersionConflict when the version differs or there are nodes below.
        """
        ...

    def delete_tree(self, path: str) -> None:
        """Remove a node and everything below; one that is gone already is fine."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """Names below a node, sorted; none when it does not exist."""
        ...


Watch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Node:
    """What a znode holds. Version 0 is a version."""

    data: bytes
    version: int


class LoadProvider(Protocol):
    """Says what partitions of a source cluster carry."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Loads of the named partitions. Raises LoadUnavailable."""
        ...


@dataclass(frozen=True)
class PlanningRequest:
    """All that is known when the tasks of one group are planned.

    `current`: the task of each partition in the plan in force; new partitions are missing.
    `full`: forget the current placement as far as it pays. `rebalance`: move partitions from
    overloaded tasks even though nothing was added or removed, and level. `recent`: what the
    partitions carried in earlier observations, oldest first; a spike that is not in the last few
    moves nothing and adds no task, and no task is given up that one of them needed.
    """

    group: GroupName
    partitions: tuple[TopicPartition, ...]
    loads: Mapping[TopicPartition, PartitionLoad]
    capacity: TaskCapacity
    limits: TaskLimits
    current: Mapping[TopicPartition, TaskName]
    full: bool = False
    rebalance: bool = False
    recent: tuple[Mapping[TopicPartition, PartitionLoad], ...] = ()


@dataclass(frozen=True)
class GroupPlan:
    """A planner's answer: partitions by task, and why.

    `required_tasks`: what capacity asks for, also where `max_tasks` allows fewer.
    `move_reasons`: a sentence for every partition that changes task.
    `offending`: partitions that alone exceed the usable capacity of a task.
    `loads_bytes_per_second`: load by task. `task_lower_bound`: no plan that fits has fewer tasks;
    the other bounds say the same of the fullest task and of the moves. `overloaded`: tasks above
    usable capacity. `estimated`, `defaulted`: partitions whose load is that of their topic, or the
    default. `moves_left`: moves that the budget of one plan did not pay for. `stage`: what found it.
    `cut_short`: searches that a limit of seconds ended, after which an equal request may get another plan.
    """

    tasks: Mapping[TaskName, frozenset[TopicPartition]]
    loads_bytes_per_second: Mapping[TaskName, float]
    required_tasks: int
    reasons: tuple[str, ...] = ()
    move_reasons: Mapping[TopicPartition, str] | None = None
    offending: tuple[TopicPartition, ...] = ()
    unplaced: tuple[TopicPartition, ...] = ()
    task_lower_bound: int = 0
    max_load_lower_bound_bytes_per_second: float = 0.0
    moved_bytes_per_second: float = 0.0
    moved_lower_bound_bytes_per_second: float = 0.0
    overloaded: tuple[TaskName, ...] = ()
    estimated: tuple[TopicPartition, ...] = ()
    defaulted: tuple[TopicPartition, ...] = ()
    moves_left: int = 0
    stage: str = ""
    cut_short: int = 0


class Planner(Protocol):
    """Decides task count and placement of one group. Pure: same request, same answer."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Raises PlanRejected when the request is impossible."""
        ...
