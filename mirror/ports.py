"""What the decisions need from the world, as Protocols. Adapters satisfy them by shape.

A fake and the real adapter of a port pass the same suite in tests/contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LaneSpec, Unanswered
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.load import LoadReport
from mirror.model.metrics import Drops, MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.model.nodes import Node, NodeChange
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import SourcePosition, TopicDescription, TopicPartition, WaitingRecord


class Clock(Protocol):
    """Time as an argument. Durations use `monotonic`, records and znodes use `now_ms`."""

    def now_ms(self) -> int:
        """Wall clock, epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class CopyEngine(Protocol):
    """Copies partitions inside one worker process. Used by one thread, never blocks beyond `step`."""

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Get ready for these, which another instance still has: connect and look around, copy nothing."""
        ...

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Begin to copy these, from their checkpoints. A lane that runs already is left alone."""
        ...

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop fetching these, drain and checkpoint them; `LaneStopped` says when each is done."""
        ...

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Let the lanes of these datastream groups together copy `shares` bytes a second from now on; those
        of groups that are not named any more have no quota."""
        ...

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Copy until something has happened to a lane, at most for `timeout_seconds`."""
        ...

    def metrics(self) -> Sequence[MirrorMetric]:
        """What was copied since the last call, a record for every lane with something to say."""
        ...

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        """Return these measurements, the last ones, as they count against objectives."""
        ...

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        """Where the lanes of these measurements, the last ones, stand, in order. `at`: now, in monotonic
        seconds, where that is said to somebody who was told of all before: then None for one that needs no
        look."""
        ...

    def measured_checkpoints(self) -> Sequence[int]:
        """Those of the lanes of the last measurements, in order."""
        ...

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        """Of the lanes of the last measurements those that waited for an answer which was overdue."""
        ...

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        """By cluster, the seconds since the last call in which one of its brokers has asked to be left alone
        (KIP-219); without those of which none has."""
        ...

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """By cluster, how far the clock of a broker is off from ours; without those of which that is not
        known."""
        ...

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Drain and checkpoint all lanes up to the deadline, then drop connections. Idempotent."""
        ...


class MetricSink(Protocol):
    """Where measurements go. Losing some must not stop the mirror."""

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        """Hand over; never blocks."""
        ...

    def drops(self) -> Drops:
        """What was not delivered, as far as it is known now; never blocks. To be asked every second or so."""
        ...


class TopicAdmin(Protocol):
    """Topics of one cluster. `illegal_topics`: those of the last list whose names Kafka does not allow, which
    are ignored."""

    illegal_topics: int

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

    def first_records(self, places: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, WaitingRecord]:
        """When the first record from an offset on was written, of each partition, and what its topic keeps;
        those that have no leader now are left out. Raises Unreachable, Refused."""
        ...

    def create(self, topic: TopicDescription) -> Sequence[str]:
        """Create the topic; one that exists already is left as it is. Returns a sentence for each setting
        that the cluster refuses and that was clamped or left out. Raises Refused, Unreachable."""
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

    def read_present(
        self, paths: Sequence[str], watch_of: Callable[[str], Watch] | None = None
    ) -> Mapping[str, Node]:
        """As `read_all`, by path; nodes that are missing are left out. `watch_of`: by path, the watch that is
        left at a node that is there."""
        ...

    def sync(self) -> None:
        """What is read afterwards is at least as new as what anybody had written before."""
        ...

    def write(self, path: str, data: bytes, version: int) -> int:
        """Replace data if the version is exactly this one; returns the new version.

        Raises VersionConflict, NotFound.
        """
        ...

    def change_together(self, changes: Sequence[NodeChange]) -> tuple[str, ...]:
        """All of them or none, in one request; parents of what is made are made before. Returns the paths of
        what was made, in the order of the changes.

        Raises VersionConflict, NotFound, AlreadyExists.
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


class LoadProvider(Protocol):
    """Says what partitions of a source cluster carry."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Loads of the named partitions. Raises LoadUnavailable."""
        ...


class Planner(Protocol):
    """Decides task count and placement of one group. Pure: same request, same answer."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Raises PlanRejected when the request is impossible."""
        ...
