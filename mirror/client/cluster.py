"""One Kafka cluster: brokers, connections, topic metadata, and the routing of requests."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from math import inf
from typing import Final, TypeVar

from mirror.client.connection import Connection
from mirror.client.event_loop import Loop, Promise
from mirror.client.handshake import ConnectionConfig, ConnectionConfigs, open_connection
from mirror.client.lookup.coordinators import Coordinators
from mirror.client.lookup.leader_offsets import ask_leaders
from mirror.client.reachability import PATIENCE_SECONDS, Reachability
from mirror.errors import HeadraceError, TimedOut, UnexpectedCluster, Unreachable
from mirror.model.clusters import address_of
from mirror.model.movement.clock_skew import BrokerClocks
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import COORDINATOR_MOVED, TRANSIENT, Code, error_of, name_of
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

_log = logging.getLogger(__name__)
T = TypeVar("T")

CONTROL: Final = "control"
COORDINATE: Final = "coordinate"
"""Role of a separate connection for coordinators, which may respond only after replication."""
ASIDE: Final = "aside"
_TOPICS_AT_ONCE: Final = 100
"""Maximum number of topics in a metadata request. A larger response would block the event loop for too
long."""
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 0.5
_SWEEP_SECONDS: Final = 0.5
_STEADY_SECONDS: Final = 0.5
"""Minimum seconds between two connections for a role. A broker may close each connection at its first
request."""


class Cluster:
    """State of one cluster, shared by all lanes. `topics`: metadata of the topics that were requested so
    far."""

    def __init__(self, configs: ConnectionConfigs, name: str) -> None:
        self.name = name
        self._configs = configs
        self.brokers: dict[int, Endpoint] = {}
        self.controller = -1
        self.cluster_id = self._pinned = ""
        self.topics: dict[str, TopicMetadata] = {}
        self.topic_names = TopicNames(name)
        self._loop = configs.aside.loop
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: dict[tuple[int, str], Promise[Connection]] = {}
        self._opened_at: dict[tuple[int, str], float] = {}
        self._probed_at: dict[tuple[int, str], float] = {}
        self.reachability = Reachability(name)
        self.clocks = BrokerClocks()
        self.silent_since = inf
        """Due time of the oldest outstanding response, or of the first late response of a slow broker
        (monotonic seconds)."""
        self.silence = ""
        """Description of the delay in `silent_since`."""
        self._seeds = {-1 - number: address for number, address in enumerate(configs.aside.access.bootstrap)}
        self._wanted_topics: set[str] = set()
        self._refreshed: Promise[None] | None = None
        self.coordinators = Coordinators(self)
        self._departed: set[str] = set()
        """Addresses of brokers that the cluster no longer lists."""
        self._looked_at = -inf
        self._closed = False
        self._newest: dict[int, int] = {}
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    @property
    def loop(self) -> Loop:
        """Event loop of this cluster."""
        return self._loop

    def pin(self, cluster_id: str) -> None:
        """Accept only brokers of the cluster with this id. An empty id changes nothing."""
        self._pinned = cluster_id or self._pinned
        if self._pinned and self.cluster_id not in ("", self._pinned):
            self.brokers, self.controller, self.cluster_id = {}, -1, ""
            self.topics = {}
            self.coordinators.forget()
            self._disconnect()

    def _check_id(self, cluster_id: str) -> None:
        if self._pinned and cluster_id != self._pinned:
            self._disconnect()
            raise UnexpectedCluster.at(self.name, self._pinned, cluster_id)

    @property
    def is_connected(self) -> bool:
        """True if a connection for control requests is open."""
        return any(role == CONTROL and link.is_open for (_, role), link in self._connections.items())

    @property
    def addresses(self) -> dict[int, Endpoint]:
        """Distinct addresses by broker id. Bootstrap servers have negative ids."""
        seeds = set(self._seeds.values())
        found = {broker: where for broker, where in self.brokers.items() if where not in seeds}
        return {**self._seeds, **found}

    @property
    def timeout_seconds(self) -> float:
        """Timeout of one request to one broker."""
        return self._configs.aside.timeout_seconds

    @property
    def principal(self) -> str:
        """Principal under which the brokers know this client."""
        return self._configs.aside.access.principal

    def error(self, code: int, doing: str, right: str, message: str = "") -> HeadraceError:
        """Return the error for an error code from this cluster. `right`: see `error_of`."""
        return error_of(code, doing, message, right=right, principal=self.principal)

    @property
    def largest_batch_bytes(self) -> int:
        """Maximum size of a batch that is read from the cluster."""
        return self._configs.aside.largest_batch_bytes

    def take_throttled(self) -> float:
        """Return the seconds for which a broker has throttled this client since the last call (KIP-219)."""
        return self._configs.aside.throttling.take(self._loop.now())

    def leader(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return the broker id of the leader and the leader epoch, or None if there is no known leader."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.error or partition.partition >= len(topic.leaders):
            return None
        broker, epoch = topic.leaders[partition.partition]
        return (broker, epoch) if broker in self.brokers else None

    def learn_leader(self, partition: TopicPartition, broker: int, epoch: int, nodes: Nodes) -> None:
        """Update the leader of a partition from a response that contains the new leader (KIP-951). `nodes`:
        addresses of the leaders in the response. Older epochs are ignored."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.error or partition.partition >= len(topic.leaders):
            return
        if epoch > topic.leaders[partition.partition][1]:
            leaders = list(topic.leaders)
            leaders[partition.partition] = (broker, epoch)
            self.topics[partition.topic] = topic._replace(leaders=tuple(leaders))
            if broker in nodes:
                self.brokers = {**self.brokers, broker: Endpoint(*nodes[broker])}

    def round_trip(self, broker: int) -> float:
        """Return the shortest round trip to the broker in seconds; 0 if it is unknown."""
        found = [link.round_trip() for (node, _), link in self._connections.items() if node == broker]
        return min([seconds for seconds in found if seconds > 0], default=0.0)

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id from the latest metadata; empty if the topic has no id."""
        known = self.topics.get(topic)
        return b"" if known is None or known.topic_id == NO_TOPIC_ID else known.topic_id

    def newest(self, api: int) -> int:
        """Return the highest version of an API that all connected brokers support. Without a connection,
        returns the last known version, or -1."""
        offered = [c.features.versions.get(api, (0, -1))[1] for c in self._connections.values() if c.is_open]
        if offered:
            self._newest[api] = min(offered)
        return self._newest.get(api, -1)

    def feature(self, name: str) -> int:
        """Return the finalised level of a cluster feature; 0 if it is not finalised."""
        for connection in self._connections.values():
            if connection.is_open:
                return connection.features.features.get(name, 0)
        return 0

    async def connection(self, broker: int, role: str) -> Connection:
        """Return the connection to a broker for a role. Opens it if needed. Raises Unreachable."""
        place = (broker, role)
        known = self._connections.get(place)
        if known is not None and known.is_open:
            return known
        opening = self._opening.get(place)
        if opening is None:
            endpoint = self.brokers.get(broker) or self._seeds.get(broker)
            if endpoint is None:
                raise Unreachable(f"{self.name} has no broker {broker}")
            self._configs.aside.access.check(endpoint)
            opening = self._loop.spawn(self._open(place, endpoint, self._configs.for_role(role)))
            self._opening[place] = opening
            opening.when_done(lambda: self._opening.pop(place, None))
        return await opening

    async def _open(self, place: tuple[int, str], endpoint: Endpoint, config: ConnectionConfig) -> Connection:
        now = self._loop.now()
        steady_at = self._opened_at.get(place, -inf) + _STEADY_SECONDS
        wait = max(self.reachability.tries(endpoint, now), steady_at - now)
        if wait > 0:
            await self._loop.sleep(wait)
        try:
            connection = await self._checked_connection(config, endpoint)
        except HeadraceError as error:
            self.reachability.failed(endpoint, error, self._loop.now())
            raise
        finally:
            self.reachability.ended(endpoint, self._loop.now())
        self._opened_at[place] = self._loop.now()
        self.reachability.opened(endpoint, self._opened_at[place])
        self._connections[place] = connection
        if self._closed:
            connection.close()
        return connection

    async def _replace(self, place: tuple[int, str], silent: Connection) -> None:
        """Replace an unresponsive connection if the broker responds on a new connection."""
        self._probed_at[place] = inf
        endpoint = self.brokers.get(place[0]) or self._seeds.get(place[0])
        try:
            if endpoint is None:
                return
            other = await self._checked_connection(self._configs.for_role(place[1]), endpoint)
        except HeadraceError as error:
            _log.debug("%s: %s is silent on other connections, too: %s", self.name, silent.name, error)
            return
        finally:
            self._probed_at[place] = self._loop.now()
        now = self._loop.now()
        if self._closed or self._connections.get(place) is not silent or not silent.is_overdue(now):
            other.close()
            return
        other.promptness.continue_from(silent.unanswered_since, now)
        self._connections[place], self._opened_at[place] = other, now
        silent.close(TimedOut(f"{silent.name} answers on another connection only"))

    async def _checked_connection(self, config: ConnectionConfig, endpoint: Endpoint) -> Connection:
        connection = await open_connection(config, endpoint)
        try:
            if self._pinned:
                self._check_id((await connection.call(metadata([]), self.timeout_seconds)).cluster_id)
        except HeadraceError:
            connection.close()
            raise
        return connection

    async def any_connection(self) -> Connection:
        """Connect to any broker, to bootstrap servers last. Raises the error of the last attempt."""
        for (_, role), connection in self._connections.items():
            if role == CONTROL and connection.is_open:
                return connection
        failure: HeadraceError = Unreachable(f"{self.name} has no addresses")
        for broker in [*self.brokers, *self._seeds]:
            try:
                connection = await self.connection(broker, CONTROL)
            except HeadraceError as error:
                failure = error
            else:
                return connection
        raise failure

    async def ask(self, call: Call[T], broker: int | None = None, role: str = CONTROL) -> T:
        """Send a request to a broker, or to any broker if `broker` is None. Raises the errors of
        `Connection.call`."""
        connection = await (self.any_connection() if broker is None else self.connection(broker, role))
        return await connection.call(call, self.timeout_seconds)

    async def ask_controller(self, call: Call[T]) -> T:
        """Send a request to the controller. With KRaft, a broker forwards it."""
        if self.controller not in self.brokers:
            await self.refresh(())
        return await self.ask(call, self.controller if self.controller in self.brokers else None)

    async def refresh(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of the brokers and of these topics. Raises Unreachable. Concurrent calls are
        combined."""
        self._wanted_topics.update(topics)
        if self._refreshed is None:
            self._refreshed = self._loop.spawn(self._refresh())
        await self._refreshed

    async def _refresh(self) -> None:
        await self._loop.sleep(0.0)
        names, self._wanted_topics = sorted(self._wanted_topics), set()
        self._refreshed = None
        for start in range(0, max(len(names), 1), _TOPICS_AT_ONCE):
            self._learn(await self.ask(metadata(names[start : start + _TOPICS_AT_ONCE])))

    async def all_topics(self) -> Mapping[str, TopicMetadata]:
        """Return the metadata of every topic with a valid name. Raises Unreachable."""
        return self._learn(await self.ask(metadata(None)))

    def _learn(self, answer: ClusterMetadata) -> dict[str, TopicMetadata]:
        self._check_id(answer.cluster_id)
        if answer.brokers:
            former, self.brokers = self.brokers, dict(answer.brokers)
            self._departed |= {address_of(*where) for where in former.values()}
            self._departed -= {address_of(*where) for where in self.brokers.values()}
            self.reachability.keep([*self.brokers.values(), *self._seeds.values()])
        self.controller, self.cluster_id = answer.controller, answer.cluster_id
        names = self.topic_names.legal(topic.name for topic in answer.topics)
        found = {topic.name: topic for topic in answer.topics if topic.name in names}
        self.topics.update(found)
        return found

    async def ask_coordinator(self, kind: int, key: str, call: Call[T], error: Callable[[T], int]) -> T:
        """Send a request to a coordinator. Retry while the coordinator moves or loads. `error`: extracts the
        error code from the response."""
        return await self.patiently(lambda: self.ask_coordinator_once(kind, key, call, error))

    async def ask_coordinator_once(
        self, kind: int, key: str, call: Call[T], error: Callable[[T], int], role: str = COORDINATE
    ) -> T:
        """Send a request to a coordinator once. Raises Unreachable if a retry may help."""
        try:
            answer = await self.ask(call, await self.coordinators.find(kind, key), role)
        except Unreachable:
            self.coordinators.forget_one(kind, key)
            raise
        if (code := error(answer)) in COORDINATOR_MOVED:
            self.coordinators.forget_one(kind, key)
        if code in TRANSIENT:
            raise error_of(code, f"{call.name} request to the coordinator of {key}")
        return answer

    async def patiently(
        self, attempt: Callable[[], Awaitable[T]], seconds: float | None = None, topic: str | None = None
    ) -> T:
        """Retry `attempt` until it succeeds, fails permanently, or times out. `seconds`: timeout (default:
        the timeout of one request). The metadata of `topic` is refreshed between attempts, because its
        leader may have moved."""
        until = self._loop.now() + (self.timeout_seconds if seconds is None else seconds)
        backoff = _FIRST_BACKOFF / 2
        while True:
            try:
                return await attempt()
            except HeadraceError as error:
                if not error.retriable or self._loop.now() + backoff > until:
                    raise
                _log.debug("retrying: %s", error)
            await self._loop.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
            if topic is not None:
                await self._try_refresh([topic])

    async def _try_refresh(self, topics: Iterable[str]) -> None:
        try:
            await self.refresh(topics)
        except HeadraceError as error:
            _log.debug("%s: %s", self.name, error)

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed: bool = False, seconds: float | None = None
    ) -> Answers:
        """Return the offsets of partitions by timestamp (see `list_offsets`). `seconds`: timeout (default:
        the timeout of one request). A partition without a response gets an error code. Raises Unreachable if
        no leader responds."""
        found: dict[TopicPartition, OffsetAnswer] = {}
        if not wanted:
            return found

        async def attempt() -> None:
            missing = {place: when for place, when in wanted.items() if place not in found}
            await self.refresh({place.topic for place in missing if self.leader(place) is None})
            try:
                codes = await ask_leaders(self, missing, found, committed=committed)
            except Unreachable:
                await self._try_refresh({place.topic for place in missing})
                raise
            if codes:
                # A newly elected leader does not know its topic yet. `error_of` would map that to
                # TopicMissing, a permanent error, although the topic is in the metadata.
                await self.refresh({place.topic for place in missing})
                code = name_of(codes[0])
                raise Unreachable(f"ListOffsets request to {self.name}: broker returned {code}")

        try:
            await self.patiently(attempt, seconds)
        except Unreachable:
            if not found:
                raise
        nothing = OffsetAnswer(Code.LEADER_NOT_AVAILABLE, -1, -1)
        return {place: found.get(place, nothing) for place in wanted}

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    def _sweep(self) -> None:
        if self._closed:
            return
        now = self._loop.now()
        waiting: dict[str, tuple[float, str]] = {}
        heard: dict[str, float] = {}
        for place, connection in list(self._connections.items()):
            connection.check_deadline(now)
            if not connection.is_open:
                continue
            if connection.is_overdue(now) and now - self._probed_at.get(place, -inf) >= PATIENCE_SECONDS:
                self._loop.spawn(self._replace(place, connection))
            found = connection.silence(now)
            waiting[connection.name] = min(found, waiting.get(connection.name, found))
            heard[connection.name] = max(connection.answered_at, heard.get(connection.name, -inf))
        self.reachability.swept(waiting, now, heard)
        self.silent_since, silence = self.reachability.silence(waiting, now)
        self.silence = f"cluster {self.name}: {silence}"
        late = {name for name, (since, _) in waiting.items() if now - since >= PATIENCE_SECONDS}
        for connection in [one for one in self._connections.values() if one.name in late & self._departed]:
            connection.close(Unreachable(f"{connection.name} is no longer a broker of cluster {self.name}"))
        if late - self._departed and now - self._looked_at >= PATIENCE_SECONDS:
            self._loop.spawn(self._look_for_departures(late, waiting.keys() - late))
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    async def _look_for_departures(self, late: Set[str], prompt: Set[str]) -> None:
        """Check whether the cluster still lists brokers that do not respond. Asks another broker, because
        the cluster no longer lists a frozen broker, whose partitions have new leaders. `prompt`: addresses
        to query first."""
        self._looked_at = inf
        others = {address_of(*where): broker for broker, where in self.brokers.items()}
        for name in sorted(others.keys() - late, key=lambda name: name not in prompt):
            try:
                self._learn(await self.ask(metadata([]), others[name]))
                break
            except HeadraceError as error:
                _log.debug("%s: %s", self.name, error)
        self._looked_at = self._loop.now()
