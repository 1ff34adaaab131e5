"""Interfaces (Protocols) of everything that decisions need from the outside: clock, topics, stores, metrics.

Adapters implement the Protocols without inheriting from them.

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
from mirror.model.topics import SourcePosition, TopicCreation, TopicDescription, TopicPartition, WaitingRecord


class Clock(Protocol):
    """Source of the current time. Durations use `monotonic`, records and znodes use `now_ms`."""

    def now_ms(self) -> int:
        """Return the wall clock in epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since a fixed point in time; never decreases."""
        ...


class CopyEngine(Protocol):
    """Copies partitions inside one worker process. Used by one thread; blocks only in `step`."""

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Prepare lanes that another instance still owns: connect and fetch metadata, but copy nothing."""
        ...

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Start to copy lanes from their checkpoints. Running lanes are not affected."""
        ...

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop fetching, drain and checkpoint lanes. `LaneStopped` reports when each has stopped."""
        ...

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Limit the rate of each datastream group to `shares` bytes per second. Other groups become
        unlimited."""
        ...

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Copy until a lane event occurs, at most for `timeout_seconds`."""
        ...

    def metrics(self) -> Sequence[MirrorMetric]:
        """Return the measurements since the previous call, one for each lane with changes."""
        ...

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        """Return the latest measurements of lanes, with backlog ages as latency objectives count them.

        `metrics`: result of the last call of `metrics`.
        """
        ...

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        """Return the position of each lane in the measurements, in order.

        `metrics`: result of the last call of `metrics`. `at`: current time (monotonic seconds). Pass `at`
        only if the receiver has all earlier positions; irrelevant positions are then None.
        """
        ...

    def measured_checkpoints(self) -> Sequence[int]:
        """Return the checkpoints of the lanes in the last measurements, in order."""
        ...

    def timestamp_offsets(self) -> Sequence[int]:
        """Return the clock errors of producers (`AppendTimes.offset_ms`) of the lanes in the last
        measurements, in order."""
        ...

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        """Return the lanes of the last measurements that wait for an overdue response."""
        ...

    def windows(self) -> Mapping[LaneKey, LaneWindows]:
        """Return the lanes of the last measurements whose rate a distant broker's TCP window limits."""
        ...

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        """Map each cluster to the seconds for which its brokers throttled since the previous call (KIP-219).

        Clusters without throttling are omitted.
        """
        ...

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Map each cluster to the largest clock skew of its brokers. Omits clusters with an unknown skew."""
        ...

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Drain and checkpoint all lanes until the deadline, and close all connections. Idempotent."""
        ...


class MetricSink(Protocol):
    """Receiver of measurements. Lost measurements must not stop the mirror."""

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        """Queue measurements to be published. Never blocks."""
        ...

    def drops(self) -> Drops:
        """Return the number of measurements dropped so far. Never blocks.

        Call this about once per second.
        """
        ...


class TopicAdmin(Protocol):
    """Interface to the topics of one cluster.

    `illegal_topics`: number of topics in the last list whose names Kafka does not allow. They are ignored.
    """

    illegal_topics: int

    def cluster_id(self) -> str:
        """Return the cluster id, independent of the bootstrap address. Raises Unreachable, Refused."""
        ...

    def list_topics(self) -> Mapping[str, int]:
        """Return a mapping of topic name to partition count. Raises Unreachable."""
        ...

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return a mapping of topic name to description. Missing topics are omitted; an unreadable setting is
        an error of its topic only. Raises Unreachable."""
        ...

    def hidden(self, topics: Sequence[str]) -> frozenset[str]:
        """Return the topics that this client may not describe. Raises Unreachable, Refused.

        Kafka never lists such topics, whether or not they exist.
        """
        ...

    def positions(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, SourcePosition]:
        """Return the committed, first and end offset of each partition. Raises Unreachable, Refused.

        Partitions without a leader are omitted.
        """
        ...

    def first_records(self, places: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, WaitingRecord]:
        """Return the timestamp of the first record at or after each offset, and the retention of its topic.

        Partitions without a leader are omitted. Raises Unreachable, Refused.
        """
        ...

    def create(self, topic: TopicDescription) -> Sequence[str]:
        """Create a topic unless it exists. Raises Refused, Unreachable.

        Returns a message for each setting that was clamped or omitted because the cluster rejects it.
        """
        ...

    def create_each(self, topics: Sequence[TopicDescription]) -> Mapping[str, TopicCreation]:
        """Create each topic unless it exists, many with one request. Map each topic to its result. Raises
        Refused, and Unreachable if no topic has a result."""
        ...

    def grow_each(self, partitions: Mapping[str, int]) -> Mapping[str, TopicCreation]:
        """Increase the partition count of each topic, many with one request. No count is ever reduced.

        Returns the result by topic. Raises Refused, and Unreachable if no topic has a result.
        """
        ...


class NodeStore(Protocol):
    """Interface to the coordination store, with the operations of ZooKeeper. Thread-safe.

    Paths are absolute below the root of the service. A watch fires once, on any thread, after its data has
    changed. The callback of the watch must return at once. All methods raise Unreachable while the session is
    disconnected, and SessionLost after it has expired.
    """

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its parents, and return its path. Raises AlreadyExists."""
        ...

    def create_all(self, nodes: Sequence[tuple[str, bytes]]) -> None:
        """Create many nodes, each after its parent, in pipelined requests.

        Raises AlreadyExists. On any error, some of the nodes may have been created.
        """
        ...

    def read(self, path: str, watch: Watch | None = None) -> Node:
        """Return data and version of a node. Raises NotFound; the watch then fires when the node is
        created."""
        ...

    def read_all(self, paths: Sequence[str]) -> Sequence[Node]:
        """Read many nodes in pipelined requests. Raises NotFound."""
        ...

    def read_present(
        self, paths: Sequence[str], watch_of: Callable[[str], Watch] | None = None
    ) -> Mapping[str, Node]:
        """Map paths to nodes, read in pipelined requests. Missing nodes are omitted.

        `watch_of`: returns the watch to set on an existing node.
        """
        ...

    def sync(self) -> None:
        """Ensure that later reads include all writes before this call."""
        ...

    def write(self, path: str, data: bytes, version: int) -> int:
        """Replace the data of a node if it has this version. Return the new version.

        Raises VersionConflict, NotFound.
        """
        ...

    def change_together(self, changes: Sequence[NodeChange]) -> tuple[str, ...]:
        """Apply changes atomically. Return the paths of created nodes, in the order of the changes.

        Missing parents of new nodes are created first. Raises VersionConflict, NotFound, AlreadyExists.
        """
        ...

    def delete(self, path: str, version: int | None = None) -> None:
        """Delete a node without children. A missing node is not an error.

        Raises VersionConflict if the version differs or there are child nodes.
        """
        ...

    def delete_tree(self, path: str) -> None:
        """Delete a node and its descendants. A missing node is not an error."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """Return the names of the child nodes, sorted. The result is empty if the node does not exist."""
        ...


Watch = Callable[[], None]


class LoadProvider(Protocol):
    """Provider of the loads of partitions."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the loads of the given partitions. Raises LoadUnavailable."""
        ...


class Planner(Protocol):
    """Computes the number of tasks of a datastream group, and their partitions. Pure."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Return the plan of the group. Raises PlanRejected if the request is infeasible."""
        ...
