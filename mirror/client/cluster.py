"""One Kafka cluster: brokers, connections, topic metadata, and the routing of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from mirror.client.brokers.connections import BrokerConnections
from mirror.client.brokers.directory import BrokerDirectory
from mirror.client.brokers.watch import BrokerWatch
from mirror.client.calls import make_call
from mirror.client.connection import Connection
from mirror.client.event_loop import Promise
from mirror.client.handshake import ConnectionConfigs
from mirror.client.lookup.coordinators import Coordinators
from mirror.client.lookup.leader_offsets import ask_leaders, by_time
from mirror.errors import HeadraceError, Unreachable
from mirror.loggers import get_logger
from mirror.model.movement.clock_skew import BrokerClocks
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code, error_of
from mirror.protocol.control.call import Call
from mirror.protocol.control.cluster import (
    NO_TOPIC_ID,
    ClusterMetadata,
    Endpoint,
    TopicMetadata,
    metadata,
)
from mirror.protocol.control.offsets import Answers, OffsetAnswer
from mirror.protocol.control.topic_names import TopicNames
from mirror.protocol.frame import Nodes

_log = get_logger(__name__)
T = TypeVar("T")

CONTROL: Final = "control"
ASIDE: Final = "aside"
_TOPICS_AT_ONCE: Final = 100
"""Maximum number of topics in a metadata request: larger responses block the event loop for too long."""
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 0.5


class Cluster:
    """Client of one Kafka cluster, shared by all lanes of a worker.

    `timeout_seconds`: timeout of one request to one broker; `largest_batch_bytes`: maximum size of a batch
    that is read; `topics`: metadata of the topics that were requested so far.
    """

    def __init__(self, configs: ConnectionConfigs, name: str) -> None:
        self.name = name
        self._configs = configs
        self.loop = configs.aside.loop
        self.timeout_seconds = configs.aside.timeout_seconds
        self.largest_batch_bytes = configs.aside.largest_batch_bytes
        self.directory = BrokerDirectory(configs.aside.access.bootstrap)
        self.connections = BrokerConnections(configs, name)
        self.controller = -1
        self.cluster_id = ""
        self.topics: dict[str, TopicMetadata] = {}
        self.topic_names = TopicNames(name)
        self.clocks = BrokerClocks()
        self._wanted_topics: set[str] = set()
        self._refreshed: Promise[None] | None = None
        self.coordinators = Coordinators(self)
        self._newest: dict[int, int] = {}
        self.watch = BrokerWatch(self.loop, name, self.directory, self.connections, self._list_brokers)

    def pin(self, cluster_id: str) -> None:
        """Accept only brokers of the cluster with this id from now on. An empty id changes nothing."""
        pinned = self.connections.pinned = cluster_id or self.connections.pinned
        if pinned and self.cluster_id not in ("", pinned):
            self.directory.brokers, self.controller, self.cluster_id = {}, -1, ""
            self.topics = {}
            self.coordinators.forget()
            self.connections.disconnect()

    @property
    def brokers(self) -> dict[int, Endpoint]:
        """Addresses of the brokers that the cluster lists. The keys are broker ids."""
        return self.directory.brokers

    @property
    def principal(self) -> str:
        """Principal under which the brokers know this client."""
        return self._configs.aside.access.principal

    def error(self, code: int, doing: str, right: str, message: str = "") -> HeadraceError:
        """Return the exception for an error code from this cluster. `right`: see `error_of`."""
        return error_of(code, doing, message, right=right, principal=self.principal)

    def leader(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return the broker id and the epoch of the partition's leader, or None if unknown."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.error or partition.partition >= len(topic.leaders):
            return None
        broker, epoch = topic.leaders[partition.partition]
        return (broker, epoch) if broker in self.directory.brokers else None

    def learn_leader(self, partition: TopicPartition, broker: int, epoch: int, nodes: Nodes) -> None:
        """Store the new leader of a partition, named in a response (KIP-951). An older epoch is ignored.
        `nodes`: broker addresses in the response."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.error or partition.partition >= len(topic.leaders):
            return
        if epoch > topic.leaders[partition.partition][1]:
            leaders = list(topic.leaders)
            leaders[partition.partition] = (broker, epoch)
            self.topics[partition.topic] = topic._replace(leaders=tuple(leaders))
            if broker in nodes:
                self.directory.add(broker, Endpoint(*nodes[broker]))

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id in the latest metadata; empty without an id."""
        known = self.topics.get(topic)
        return b"" if known is None or known.topic_id == NO_TOPIC_ID else known.topic_id

    def newest(self, api: int) -> int:
        """Return the highest version of an API that all connected brokers support.

        Without a connection, returns the last known version, or -1.
        """
        offered = [
            c.features.versions.get(api, (0, -1))[1] for c in self.connections.known.values() if c.is_open
        ]
        if offered:
            self._newest[api] = min(offered)
        return self._newest.get(api, -1)

    async def connection(self, broker: int, role: str) -> Connection:
        """Return the connection to a broker for a role, opening one if necessary. Raises Unreachable."""
        place = (broker, role)
        known = self.connections.known.get(place)
        if known is not None and known.is_open:
            return known
        return await self.connections.connect(place, self.directory.endpoint(broker))

    def is_open(self, broker: int, role: str = CONTROL) -> bool:
        """Return whether a connection to a broker is open for a role."""
        known = self.connections.known.get((broker, role))
        return known is not None and known.is_open

    async def any_connection(self) -> Connection:
        """Connect to any broker, bootstrap servers last. Raises the error of the last attempt."""
        known = self.connections.any_open(CONTROL)
        if known is not None:
            return known
        failure: HeadraceError = Unreachable(f"no broker address of {self.name} is known")
        for broker in [*self.directory.brokers, *self.directory.seeds]:
            try:
                return await self.connection(broker, CONTROL)
            except HeadraceError as error:
                failure = error
        raise failure

    async def ask(self, call: Call[T], broker: int | None = None, role: str = CONTROL) -> T:
        """Send a request to a broker; with `broker` None, to any broker. Raises as `make_call`."""
        connection = await (self.any_connection() if broker is None else self.connection(broker, role))
        return await make_call(connection, call, self.timeout_seconds)

    async def ask_controller(self, call: Call[T]) -> T:
        """Send a request to the controller; with KRaft, to any broker, which forwards the request."""
        if self.controller not in self.brokers:
            await self.refresh(())
        return await self.ask(call, self.controller if self.controller in self.brokers else None)

    async def refresh(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of brokers and given topics. Combines concurrent calls. Raises Unreachable."""
        self._wanted_topics.update(topics)
        if self._refreshed is None:
            self._refreshed = self.loop.spawn(self._refresh())
        await self._refreshed

    async def _refresh(self) -> None:
        await self.loop.sleep(0.0)
        names, self._wanted_topics = sorted(self._wanted_topics), set()
        self._refreshed = None
        for start in range(0, max(len(names), 1), _TOPICS_AT_ONCE):
            self._learn(await self.ask(metadata(names[start : start + _TOPICS_AT_ONCE])))

    async def all_topics(self) -> Mapping[str, TopicMetadata]:
        """Return the metadata of every topic with a valid name. Raises Unreachable."""
        return self._learn(await self.ask(metadata(None)))

    def _learn(self, answer: ClusterMetadata) -> dict[str, TopicMetadata]:
        self.connections.check_cluster(answer.cluster_id)
        if answer.brokers:
            self.directory.replace(answer.brokers)
            self.connections.reachability.keep(self.directory.endpoints)
        self.controller, self.cluster_id = answer.controller, answer.cluster_id
        names = self.topic_names.legal(topic.name for topic in answer.topics)
        found = {topic.name: topic for topic in answer.topics if topic.name in names}
        self.topics.update(found)
        return found

    async def _list_brokers(self, broker: int) -> None:
        self._learn(await self.ask(metadata([]), broker))

    async def patiently(
        self, attempt: Callable[[], Awaitable[T]], seconds: float | None = None, topic: str | None = None
    ) -> T:
        """Retry the coroutine `attempt` until it succeeds, fails permanently or times out.

        `seconds`: timeout, by default of one request. Between attempts, the metadata of `topic` is refreshed,
        because its leader may have moved.
        """
        until = self.loop.now() + (self.timeout_seconds if seconds is None else seconds)
        backoff = _FIRST_BACKOFF / 2
        while True:
            try:
                return await attempt()
            except HeadraceError as error:
                if not error.retriable or self.loop.now() + backoff > until:
                    raise
                _log.debug("retrying", cluster=self.name, reason=str(error))
            await self.loop.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
            if topic is not None:
                await self.try_refresh([topic])

    async def try_refresh(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of the given topics. A failure is only logged."""
        try:
            await self.refresh(topics)
        except HeadraceError as error:
            _log.debug("cannot refresh metadata", cluster=self.name, reason=str(error))

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed: bool = False, seconds: float | None = None
    ) -> Answers:
        """Return the offset of each partition at a timestamp or special position (see `list_offsets`).

        `seconds`: timeout, by default of one request. A partition without a response gets an error code.
        Raises Unreachable if no leader responds.
        """
        found: dict[TopicPartition, OffsetAnswer] = {}
        if not wanted:
            return found

        call_of = by_time(committed=committed)
        try:
            await self.patiently(lambda: ask_leaders(self, wanted, found, call_of), seconds)
        except Unreachable:
            if not found:
                raise
        nothing = OffsetAnswer(Code.LEADER_NOT_AVAILABLE, -1, -1)
        return {place: found.get(place, nothing) for place in wanted}

    def close(self) -> None:
        """Close every connection of the cluster. Idempotent."""
        self.connections.close()
