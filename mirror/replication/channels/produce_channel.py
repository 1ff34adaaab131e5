"""Produces to the partitions led by one broker, on one connection with up to five requests in flight.

A request takes one batch from each lane that is ready, up-to-date lanes first, until it is full. Requests are
thus large under load, and on a quiet topic a batch is sent immediately. Transactions cannot share a request,
so a transactional lane has its own requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from typing import Final, Protocol

from mirror.client.cluster import Cluster
from mirror.client.connection import FAR_SECONDS, Connection
from mirror.client.log_writer import produce_version, replication_ms
from mirror.client.request import Request
from mirror.errors import CorruptData, HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import OutBatch
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import WindowLimit
from mirror.model.topics import TopicPartition
from mirror.protocol import produce
from mirror.protocol.fetch_session import Place
from mirror.protocol.produce import Batch
from mirror.replication.channels.channel_rules import ProduceListener
from mirror.replication.channels.parallel_writes import DistantBrokers, ParallelWrites
from mirror.replication.channels.send_window import SendWindow
from mirror.replication.options import CopyingOptions

_log = get_logger(__name__)
MOST_REQUESTS: Final = 5
"""Maximum number of requests in flight on a connection."""
SLOW_ROLE: Final = "produce slow"
"""Name of the connection for partitions that were not replicated in time.

A broker answers the requests of a connection in order, so other lanes need other connections.
"""

Sent = dict[Place, tuple[Lane, OutBatch]]


class ProduceSink(Protocol):
    """Functions of the `Sender` of a cluster that its channels call."""

    cluster: Cluster
    listener: ProduceListener
    distant: DistantBrokers

    def relocate(self, lanes: Iterable[Lane]) -> None:
        """Look up the partition leaders of the given lanes again, and continue to send to the new leaders."""
        ...


class ProduceChannel:
    """A connection that produces to the partitions led by one broker."""

    def __init__(self, sink: ProduceSink, broker: int, role: str, settings: CopyingOptions) -> None:
        self.broker = broker
        self._role = role
        self._sink = sink
        self._cluster = sink.cluster
        self._listener = sink.listener
        self._request_bytes = settings.request_bytes
        self._most_bytes = settings.buffer_bytes // 4
        self._lanes: dict[Lane, None] = {}
        self._bulk: OrderedDict[Lane, None] = OrderedDict()
        self._live: OrderedDict[Lane, None] = OrderedDict()
        """Lanes with a batch to send."""
        self._is_bulk_next = False
        self._connection: Connection | None = None
        self._requests = 0
        self._bytes = 0
        self._is_opening = False
        self._is_pumping = False
        self._is_closed = False
        self._parallel: ParallelWrites | None = None
        """Further connections to a distant broker, for batches that this connection would delay."""
        self._window = SendWindow()

    @property
    def lanes(self) -> int:
        """Number of lanes that produce on this channel."""
        return len(self._lanes)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def attach(self, lane: Lane) -> None:
        """Start to send the lane's batches on this channel."""
        lane.writer = self
        self._lanes[lane] = None
        if self._connection is None:
            self._open()
        else:
            self._note_writable(lane)

    def detach(self, lane: Lane) -> None:
        self._lanes.pop(lane, None)
        self._live.pop(lane, None)
        self._bulk.pop(lane, None)
        lane.writer = None
        if self._parallel is not None:
            self._parallel.detach(lane)

    def wake(self, lane: Lane) -> None:
        if lane.queue.unsent and lane not in self._live and lane not in self._bulk:
            if self._parallel is not None and self._parallel.take(lane):
                return
            (self._live if lane.read.is_live else self._bulk)[lane] = None
            self._pump_soon()

    def close(self) -> None:
        """Close the connection of the channel."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    def unanswered_since(self) -> float:
        since = self._connection.unanswered_since if self._connection is not None else inf
        if self._connection is not None and since < inf:  # requests on earlier connections have no response
            since = min(since, self._connection.promptness.silent_since)
        return since if self._parallel is None else min(since, self._parallel.unanswered_since())

    def window_limit(self, lane: Lane) -> WindowLimit | None:
        parallel, connection = self._parallel, self._connection
        return None if parallel is None or connection is None else parallel.window_limit(lane, connection)

    def take_throttled(self, now: float) -> tuple[float, tuple[Lane, ...]]:
        """Return how long the broker throttled since the previous call (seconds), and the affected lanes."""
        seconds = self._connection.throttling.take(now) if self._connection is not None else 0.0
        return seconds, tuple(lane for lane in self._lanes if lane.queue.bytes_in_hand) if seconds else ()

    def _pump_soon(self, seconds: float = 0.0) -> None:
        if self._is_pumping:
            return
        self._is_pumping = True
        if seconds > 0:
            self._cluster.loop.call_later(seconds, self._pump)
        else:
            self._cluster.loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send as many Produce requests as may be in flight now."""
        self._is_pumping = False
        while self._connection is not None and self._may_send():
            wait = self._connection.throttled_until - self._cluster.loop.now()
            if wait > 0:
                self._pump_soon(wait)
                return
            batches, transactional_id = self._choose()
            if not batches:
                return
            self._send(self._connection, batches, transactional_id)

    def _may_send(self) -> bool:
        if not (self._live or self._bulk) or self._requests >= MOST_REQUESTS:
            return False
        return self._bytes < self._most_bytes or not self._requests

    def _choose(self) -> tuple[list[tuple[Lane, OutBatch]], bytes | None]:
        """Return the batches of the next Produce request, one from each ready lane, and the transactional id.

        Up-to-date lanes come first. A transactional lane has a request of its own. If that request passes
        over a lane with a backlog, the next request starts with lanes that have a backlog, so that none
        starves.
        """
        chosen: list[tuple[Lane, OutBatch]] = []
        targets: set[TopicPartition] = set()
        again: list[Lane] = []
        size = 0
        queues = (self._bulk, self._live) if self._is_bulk_next else (self._live, self._bulk)
        self._is_bulk_next = False
        for ready in queues:
            for _ in range(len(ready)):
                lane = next(iter(ready))
                transactional_id = lane.ownership.transactional_id(lane.key)
                if size >= self._request_bytes:
                    break
                if transactional_id is not None and chosen:
                    self._is_bulk_next = ready is self._bulk
                    break
                del ready[lane]
                target = lane.target
                if target in targets:
                    again.append(lane)  # a request may name a partition only once
                    continue
                outgoing = self._listener.next_batch(lane)
                if outgoing is None:
                    continue
                chosen.append((lane, outgoing))
                targets.add(target)
                again.append(lane)
                size += len(outgoing.batch)
                if transactional_id is not None:
                    self._is_bulk_next = ready is self._live
                    self._wake_all(again)
                    return chosen, transactional_id
        self._wake_all(again)
        return chosen, None

    def _wake_all(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            if lane.queue.unsent and lane.may_send():
                self.wake(lane)

    def _send(
        self,
        connection: Connection,
        batches: Sequence[tuple[Lane, OutBatch]],
        transactional_id: bytes | None,
    ) -> None:
        in_transaction, has_ids = transactional_id is not None, all(o.progress.target_id for o, _ in batches)
        version = produce_version(connection, in_transaction=in_transaction, has_ids=has_ids)
        by_id = version >= produce.BY_ID_FROM
        topics: dict[bytes, list[tuple[int, Batch]]] = {}
        sent: Sent = {}
        now, is_repeated = self._cluster.loop.now(), connection.promptness.silent_since < inf
        for lane, outgoing in batches:
            topic = lane.progress.target_id if by_id else lane.spec.destination_topic.encode()
            number = lane.key.partition.partition
            topics.setdefault(topic, []).append((number, outgoing.batch))
            sent[topic, number] = (lane, outgoing)
            outgoing.sent_at = outgoing.sent_at if is_repeated and outgoing.sent_at else now
        timeout = self._cluster.timeout_seconds
        wait_ms = replication_ms(timeout)
        buffers, size = produce.encode_request(version, topics, wait_ms, transactional_id)
        self._requests += 1
        self._bytes += size
        connection.send(
            Request(
                produce.API,
                version,
                produce.is_flexible(version),
                buffers,
                size,
                timeout,
                partial(self._on_answer, version, sent, size),
                partial(self._on_failure, sent, size),
                replication_seconds=wait_ms / 1000,
            )
        )

    def _on_answer(self, version: int, sent: Sent, size: int, body: memoryview, _slab: ReceiveBuffer) -> None:
        response = produce.decode_response(version, body)
        answers = {(answer.topic, answer.partition): answer for answer in response.partitions}
        if answers.keys() != sent.keys():
            raise CorruptData(
                f"{self._cluster.name}: Produce response for partitions that are not in the request"
            )
        self._requests -= 1
        self._bytes -= size
        if self._connection is not None:
            self._connection.throttle(response.throttle_ms)
        for place, (lane, outgoing) in sent.items():
            hint = answers[place].leader
            if hint is not None:
                self._cluster.learn_leader(lane.target, hint.leader, hint.epoch, response.nodes)
            self._listener.on_answer(lane, outgoing, answers[place])
        if self._parallel is not None and self._connection is not None:
            self._parallel.watch(self._window, self._connection)
        if self._live or self._bulk:
            self._pump_soon()

    def _on_failure(self, sent: Sent, size: int, _error: HeadraceError) -> None:
        self._requests -= 1
        self._bytes -= size
        for lane, outgoing in sent.values():
            self._listener.on_lost(lane, outgoing)

    def _open(self) -> None:
        if not self._is_opening and not self._is_closed:
            self._is_opening = True
            self._cluster.loop.spawn(self._opened())

    async def _opened(self) -> None:
        try:
            connection = await self._cluster.connection(self.broker, self._role)
        except HeadraceError as error:
            self._is_opening = False
            self._on_close(error)
            return
        self._is_opening = False
        self._connection = connection
        connection.when_closed(self._on_close)
        if self._role != SLOW_ROLE and connection.round_trip() >= FAR_SECONDS:
            self._parallel, self._window = self._sink.distant.writes(self.broker), SendWindow()
        for lane in list(self._lanes):
            self._note_writable(lane)
        self._pump_soon()

    def _note_writable(self, lane: Lane) -> None:
        self.wake(lane)
        self._listener.on_writable(lane)

    def _on_close(self, error: HeadraceError) -> None:
        self._connection = None
        parallel, self._parallel = self._parallel, None
        if parallel is not None:
            parallel.abandon(self._lanes)
        if not self._is_closed:
            _log.debug("connection lost", cluster=self._cluster.name, broker=self.broker, reason=str(error))
            lanes = list(self._lanes)
            self._sink.relocate(lanes)
            for lane in lanes:
                self._listener.on_unwritable(lane)
