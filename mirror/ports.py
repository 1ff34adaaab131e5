"""Ports between decisions and the outside world, as Protocols. Adapters implement the Protocols without
inheriting from them.

A fake and the real adapter of a port pass the same suite in tests/contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LaneSpec, LaneWindows, Unanswered
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.load import LoadReport
from mirror.model.metrics import Drops, MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.model.nodes import Node, NodeChange
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import (
    SourcePosition,
    TopicCreation,
    TopicDescription,
    TopicPartition,
    WaitingRecord,
)


class Clock(Protocol):
    """Time source. Durations use `monotonic`, records and znodes use `now_ms`."""

    def now_ms(self) -> int:
        """Return the wall clock in epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since a fixed point in time; never decreases."""
        ...


class CopyEngine(Protocol):
    """Copy engine for partitions inside one worker process. Used by one thread; blocks only in `step`."""

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Prepare for lanes that another instance still owns: connect and fetch metadata, but copy
        nothing."""
        ...

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Start copying the given lanes from their checkpoints. Running lanes are not affected."""
        ...

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop fetching the given lanes, drain and checkpoint them; `LaneStopped` reports when each has
        stopped."""
        ...

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Limit the lanes of each datastream group together to `shares` bytes per second; groups that are not
        named become unlimited."""
        ...

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Copy until a lane event occurs, at most for `timeout_seconds`."""
        ...

    def metrics(self) -> Sequence[MirrorMetric]:
        """Return the measurements since the last call, one for every lane with news."""
        ...

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        """Return the given measurements, which are the result of the last call of `metrics`, reduced to the
        ages that count against objectives."""
        ...

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        """Return the position of each lane in the given measurements, which are the result of the last call
        of `metrics`, in order. `at`: present time in monotonic seconds. Pass `at` only if the receiver has
        all earlier positions: positions without news are then None."""
        ...

    def measured_checkpoints(self) -> Sequence[int]:
        """Return the checkpoints of the lanes in the last measurements, in order."""
        ...

    def timestamp_offsets(self) -> Sequence[int]:
        """Return the offset of producers' clocks (`AppendTimes.offset_ms`) of the lanes in the last
        measurements, in order."""
        ...

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        """Return the lanes of the last measurements that had an overdue response."""
        ...

    def windows(self) -> Mapping[LaneKey, LaneWindows]:
        """Return the lanes of the last measurements whose rate is limited by the TCP window of a distant
        broker."""
        ...

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        """Return, by cluster, the seconds for which a broker has throttled this worker since the last call
        (KIP-219), without clusters that did not throttle."""
        ...

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Return, by cluster, the largest clock skew of a broker, without clusters whose skew is unknown."""
        ...

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Drain and checkpoint all lanes until the deadline, then close connections. Idempotent."""
        ...


class MetricSink(Protocol):
    """Sink for measurements. Lost measurements must not stop the mirror."""

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        """Accept measurements; never blocks."""
        ...

    def drops(self) -> Drops:
        """Return the undelivered measurements known so far; never blocks. The caller must call this method
        about once per second."""
        ...


class TopicAdmin(Protocol):
    """Topics of one cluster. `illegal_topics`: number of topics in the last list whose names Kafka does not
    allow; such topics are ignored."""

    illegal_topics: int

    def cluster_id(self) -> str:
        """Return the cluster id, independent of the bootstrap address. Raises Unreachable, Refused."""
        ...

    def list_topics(self) -> Mapping[str, int]:
        """Return the partition count by topic name. Raises Unreachable."""
        ...

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return descriptions by name; missing topics are omitted. Raises Unreachable."""
        ...

    def hidden(self, topics: Sequence[str]) -> frozenset[str]:
        """Return the topics that this client may not describe. Kafka never lists topics that the client may
        not describe, whether or not they exist. Raises Unreachable, Refused."""
        ...

    def positions(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, SourcePosition]:
        """Return the committed, first and end offsets of partitions for a consumer group; partitions without
        a leader are omitted. Raises Unreachable, Refused."""
        ...

    def first_records(self, places: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, WaitingRecord]:
        """Return the timestamp of the first record at or after each offset, and the retention of its topic;
        partitions without a leader are omitted. Raises Unreachable, Refused."""
        ...

    def create(self, topic: TopicDescription) -> Sequence[str]:
        """Create the topic unless it exists. Returns a sentence for each setting that was clamped or omitted
        because the cluster rejects it. Raises Refused, Unreachable."""
        ...

    def create_each(self, topics: Sequence[TopicDescription]) -> Mapping[str, TopicCreation]:
        """Create each topic unless it exists, many with one request. Returns the result by topic. Raises
        Refused, and Unreachable if no topic has a result."""
        ...

    def grow(self, topic: str, partitions: int) -> None:
        """Raise the partition count; never lower it. Raises Refused, Unreachable."""
        ...


class NodeStore(Protocol):
    """ZooKeeper's primitives. Paths are absolute below the service's root. Thread-safe.

    A watch fires once, on any thread, after the data it covers has changed; its callback must return at once,
    for example after it has put an item into a queue. All methods raise Unreachable while the session is
    disconnected and SessionLost when it has expired.
    """

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its parents; return its path. Raises AlreadyExists."""
        ...

    def create_all(self, nodes: Sequence[tuple[str, bytes]]) -> None:
        """Create many nodes, each after its parent, in pipelined requests.

        Raises AlreadyExists. On any error, some of the nodes may have been created.
        """
        ...

    def read(self, path: str, watch: Watch | None = None) -> Node:
        """Return data and version. Raises NotFound (the watch then waits for the creation)."""
        ...

    def read_all(self, paths: Sequence[str]) -> Sequence[Node]:
        """Read many nodes in pipelined requests. Raises NotFound."""
        ...

    def read_present(
        self, paths: Sequence[str], watch_of: Callable[[str], Watch] | None = None
    ) -> Mapping[str, Node]:
        """Read many nodes like `read_all`, by path, but omit missing nodes. `watch_of`: function that returns
        the watch to set on an existing node, given its path."""
        ...

    def sync(self) -> None:
        """Ensure that later reads return data at least as new as all writes before this call."""
        ...

    def write(self, path: str, data: bytes, version: int) -> int:
        """Replace data if the version matches exactly; return the new version.

        Raises VersionConflict, NotFound.
        """
        ...

    def change_together(self, changes: Sequence[NodeChange]) -> tuple[str, ...]:
        """Apply all changes or none in one request, after creating the parents of new nodes. Returns the
        paths of the created nodes, in the order of the changes.

        Raises VersionConflict, NotFound, AlreadyExists.
        """
        ...

    def delete(self, path: str, version: int | None = None) -> None:
        """Delete a node without children; a missing node is not an error.

        Raises VersionConflict if the version differs or there are child nodes.
        """
        ...

    def delete_tree(self, path: str) -> None:
        """Delete a node and its descendants; a missing node is not an error."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """Return the names of the child nodes, sorted; empty if the node does not exist."""
        ...


Watch = Callable[[], None]


class LoadProvider(Protocol):
    """Provider of the loads of a source cluster's partitions."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the loads of the given partitions. Raises LoadUnavailable."""
        ...


class Planner(Protocol):
    """Planner of task count and placement of one group. Pure: the same request yields the same plan."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Plan the group. Raises PlanRejected if the request is infeasible."""
        ...
