"""State of a cluster: brokers, topics, groups, transactions; and operations on it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple
from uuid import UUID, uuid5
from zlib import crc32

from mirror.ports import Clock
from tests.fakes.broker.faults import Faults
from tests.fakes.broker.sessions import SessionCache
from tests.fakes.broker.topics import DEFAULTS, NOBODY, Partition, Topic, spread
from tests.fakes.broker.transactions import Coordinator, Place

_NAMESPACE: Final = UUID(int=0x6B66616B65)
TRANSACTION: Final = 1
_DENY: Final = 2
_WRITE: Final = 4
_EVERYONE: Final = "User:*"


@dataclass
class Broker:
    """One broker of the cluster. A frozen one reads no requests; one that is down accepts no connections."""

    node: int
    port: int
    rack: str | None
    sessions: SessionCache = field(default_factory=SessionCache)
    is_down: bool = False
    is_frozen: bool = False

    @property
    def is_well(self) -> bool:
        """Return whether it serves its clients."""
        return not (self.is_down or self.is_frozen)


class Acl(NamedTuple):
    """A literal ACL of a topic, with the numbers of the protocol."""

    topic: str
    principal: str
    host: str
    operation: int
    permission: int


def _denial(topic: str, principal: str) -> Acl:
    return Acl(topic, principal, "*", _WRITE, _DENY)


class ClusterState:
    """State read and changed by requests. `transaction_level`: the finalized `transaction.version`."""

    def __init__(self, name: str, clock: Clock, *, transaction_level: int = 2) -> None:
        self.name = name
        self.clock = clock
        self.transaction_level = transaction_level
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, dict[Place, int]] = {}
        self.group_states: dict[str, tuple[str, str]] = {}
        """Types and states of groups other than classic groups without members."""
        self.has_authorizer = False
        """Whether Produce obeys `acls`; the principal of a connection is its client id."""
        self.acls: set[Acl] = set()
        self.group_members: dict[str, set[str]] = {}
        """Topics that the members of a group read; missing during a rebalance."""
        self.protocol_type = "consumer"
        """Protocol type of classic groups."""
        self.ignores_start_offsets = False
        """Whether new start offsets of share groups are ignored, without an error, as by Kafka 4.1."""
        self.faults = Faults()
        self.coordinator = Coordinator(self.find, self.later, clock.now_ms)
        self.needs_coordinator_lookup = True
        """Whether transactional ids need a coordinator lookup first, which creates their topic."""
        self.has_transaction_log = False
        self.newest_versions: dict[int, int] = {}
        """Highest version by api key, to imitate an older cluster."""
        self.gives_hints = True
        """Whether errors name the partition's leader (KIP-951)."""
        self.pace: Callable[[], tuple[float, float]] | None = None
        """Returns the transit seconds of a request and of its response; called per request."""
        self.defaults = dict(DEFAULTS)
        """Default topic settings of the brokers."""
        self.create_policy: Callable[[str, Mapping[str, str]], str] | None = None
        """Policy that returns its objection to a new topic with these settings, or an empty string."""
        self.serves_from_followers = False
        """Whether fetches with a rack are redirected to the replica in that rack (KIP-392)."""
        self._coordinators: dict[str, int] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    # Queries

    def find(self, place: Place) -> Partition | None:
        """Return the partition, or None."""
        topic = self.topics.get(place[0])
        return topic.partitions[place[1]] if topic and 0 <= place[1] < len(topic.partitions) else None

    def topic_by_id(self, identity: UUID) -> Topic | None:
        """Return the topic with that id, or None."""
        return next((topic for topic in self.topics.values() if topic.identity == identity), None)

    def live_brokers(self) -> list[int]:
        """Return the brokers that are up."""
        return [node for node, broker in sorted(self.brokers.items()) if not broker.is_down]

    @property
    def denied(self) -> set[str] | None:
        """Topics to which nobody may write; None without an authorizer."""
        if not self.has_authorizer:
            return None
        return {acl.topic for acl in self.acls if acl == _denial(acl.topic, _EVERYONE)}

    @denied.setter
    def denied(self, topics: set[str] | None) -> None:
        self.has_authorizer = topics is not None
        self.acls = {_denial(topic, _EVERYONE) for topic in topics or ()}

    def is_denied(self, principal: str, operation: int, topic: str) -> bool:
        """Return whether an ACL denies an operation on a topic to a principal."""
        denials = {Acl(topic, who, "*", operation, _DENY) for who in (principal, _EVERYONE)}
        return self.has_authorizer and bool(denials & self.acls)

    def coordinator_of(self, key: str) -> int:
        """Return the coordinator of a group or transactional id, or -1 if no broker is up."""
        live = self.live_brokers()
        chosen = self._coordinators.get(key)
        if chosen in live:
            return chosen
        return live[crc32(key.encode()) % len(live)] if live else -1

    # Changes

    def create_topic(self, name: str, partitions: int = 1, replication: int = 1, **settings: str) -> Topic:
        """Create a topic with a new id; underscores in setting names stand for dots."""
        brokers = sorted(self.brokers)
        identity = uuid5(_NAMESPACE, f"{self.name} {name} {next(self._numbers)}")
        topic = Topic(name, identity, [], defaults=self.defaults)
        topic.own = {key.replace("_", "."): value for key, value in settings.items()}
        self.topics[name] = topic
        self.grow_topic(name, partitions, replication=min(replication, len(brokers)))
        return topic

    def grow_topic(self, name: str, partitions: int, replication: int = 0) -> None:
        """Increase the number of partitions to `partitions`."""
        topic, brokers = self.topics[name], sorted(self.brokers)
        size = replication or len(topic.partitions[0].replicas)
        for number in range(len(topic.partitions), partitions):
            replicas = spread(brokers, number, size)
            partition = Partition(replicas[0], replicas, list(replicas))
            partition.log.begin_epoch(0)
            topic.partitions.append(partition)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and the committed offsets of groups for it."""
        del self.topics[name]
        for offsets in self.groups.values():
            for place in [place for place in offsets if place[0] == name]:
                del offsets[place]

    def recreate_topic(self, name: str) -> Topic:
        """Delete a topic and create it again with the same settings, empty, under a new id."""
        old = self.topics[name]
        self.delete_topic(name)
        size = len(old.partitions[0].replicas)
        settings = {key.replace(".", "_"): value for key, value in old.own.items()}
        return self.create_topic(name, len(old.partitions), size, **settings)

    def move_leader(self, topic: str, partition: int, leader: int) -> None:
        """Elect a new leader cleanly: it has all records."""
        self.topics[topic].partitions[partition].elect(leader)

    def elect_uncleanly(self, topic: str, partition: int, leader: int, end: int) -> None:
        """Elect a replica that has no records from `end`."""
        found = self.topics[topic].partitions[partition]
        found.log.truncate(end)
        found.elect(leader)
        found.log.replicate()

    def move_coordinator(self, key: str, node: int) -> None:
        """Move the coordinator of a group or transactional id to another broker."""
        self._coordinators[key] = node

    def stop_broker(self, node: int) -> None:
        """Stop a broker; its partitions are led by another in-sync replica, or are leaderless."""
        self.brokers[node].is_down = True
        self.brokers[node].sessions = SessionCache()
        for partition in self._partitions():
            if partition.leader == node:
                others = [one for one in partition.in_sync if not self.brokers[one].is_down]
                partition.elect(others[0] if others else NOBODY)

    def start_broker(self, node: int) -> None:
        """Start a broker; it leads the leaderless partitions for which it is in sync."""
        self.brokers[node].is_down = False
        for partition in self._partitions():
            if partition.leader == NOBODY and node in partition.in_sync:
                partition.elect(node)

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    # Time

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action after a delay."""
        heapq.heappush(self._timers, (self.clock.monotonic() + seconds, next(self._numbers), action))

    def run_timers(self) -> bool:
        """Run the actions that are due; return whether there were any."""
        is_any = False
        while self._timers and self._timers[0][0] <= self.clock.monotonic():
            heapq.heappop(self._timers)[2]()
            is_any = True
        return is_any

    @property
    def next_timer(self) -> float | None:
        """Time of the next timer."""
        return self._timers[0][0] if self._timers else None
