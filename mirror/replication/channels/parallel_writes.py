"""Writes partitions to distant brokers on several connections at once.

Several connections help if the TCP receive window limits each connection. `write_order` explains how the
order of batches is preserved. Each connection sends one batch, merged from waiting batches of one partition,
without its last bytes. When the response has arrived, another partition may use the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from math import inf
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop
from mirror.client.log_writer import produce_version, replication_ms
from mirror.client.request import Request, split_end
from mirror.errors import CorruptData, HeadraceError, TimedOut
from mirror.lane.batch_merge import BatchMerger, move, next_size
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import OutBatch
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import WindowLimit
from mirror.protocol import produce
from mirror.replication.channels.channel_rules import ProduceListener
from mirror.replication.channels.send_window import SendWindow
from mirror.replication.channels.window_reports import WindowReports
from mirror.replication.channels.write_connections import Write, WriteConnection, free_connection
from mirror.replication.channels.write_order import (
    MOST_CONNECTIONS,
    WriteOrder,
    connections_each,
    windows_merged,
)

_log = get_logger(__name__)

_WITHHELD_BYTES: Final = 64
_MOST_BYTES: Final = 1024 * 1024
"""Maximum size of a merged batch in bytes, which limits the memory for each connection."""
_MOST_IN_FLIGHT: Final = MOST_CONNECTIONS + 1
_MOST_OPENING: Final = 16
_OPEN_RETRY_SECONDS: Final = 5.0
_INCOMPLETE_SECONDS: Final = 10.0
"""Seconds without progress until an incomplete request is abandoned, because it uses memory of the broker."""
_CHECK_SECONDS: Final = 1.0
_SUSPENDED_SECONDS: Final = 60.0
"""Seconds without parallel writes after a request was abandoned, because the broker may lack memory."""
_UNUSED_SECONDS: Final = 30.0
_ROLE: Final = "produce parallel"


class ParallelWrites:
    """Sends several batches of a partition to one broker in parallel, each on its own connection.

    `most`: maximum number of connections. `budget`: memory for the batches on these connections, shared with
    `siblings`, the parallel writes to all brokers of the cluster.
    """

    def __init__(
        self,
        cluster: Cluster,
        broker: int,
        most: int,
        budget: ByteBudget,
        listener: ProduceListener,
        siblings: Mapping[int, ParallelWrites],
    ) -> None:
        self._cluster = cluster
        self.broker = broker
        self._most = most
        self._budget = budget
        self._most_bytes = min(_MOST_BYTES, budget.limit // 8)
        self._merger = BatchMerger(self._most_bytes, _MOST_IN_FLIGHT, budget)
        self._listener = listener
        self._siblings = siblings
        self._orders: dict[Lane, WriteOrder[Write]] = {}
        """Outstanding Produce requests by lane. A lane without outstanding requests is removed if few bytes
        wait."""
        self._open: dict[int, WriteConnection] = {}
        self._opening: set[int] = set()
        self._is_bound = self._is_pumping = self._is_checking = self._is_closed = False
        self._window_bytes = 1
        """Largest receive window that the broker has advertised."""
        self._reported = WindowReports()
        self._suspended_until = 0.0

    def watch(self, window: SendWindow, connection: Connection) -> None:
        """Measure whether the broker's receive window limits the rate of a busy connection."""
        if self._is_bound:
            return
        info = connection.transport.tcp_info()
        self._window_bytes = max(self._window_bytes, info.window_bytes)
        self._is_bound = window.note(info, self._cluster.loop.now(), info.round_trip)
        if self._is_bound:
            _log.info(
                "writing with more connections",
                cluster=self._cluster.name,
                broker=self.broker,
                window_bytes=self._window_bytes,
                round_trip_ms=round(info.round_trip * 1000),
                connections=self._most,
            )

    def window_limit(self, lane: Lane, first: Connection) -> WindowLimit | None:
        """Return the window limit if it has limited the lane's connections since the last call, otherwise
        None. `first`: the connection that lanes without parallel requests share."""
        order = self._orders.get(lane)
        used = {write.via.connection for write in order.requests} if order is not None else set()
        now = self._cluster.loop.now()
        found = [self._reported.is_limit(connection, now) for connection in used or {first}]
        if 2 * sum(found) <= len(found):
            return None
        trip_ms = round(first.round_trip() * 1000, 1)
        count = sum(bool(via.writes) for via in self._open.values())
        return WindowLimit(self.broker, self._window_bytes, trip_ms, count, self._most)

    def take(self, lane: Lane) -> bool:
        """Send the lane's next batches in parallel if that is faster. Return False if it is not. Parallel
        sending starts after every batch on the shared connection has a response."""
        if lane not in self._orders:
            if not self._is_bound or len(self._orders) >= self._most or not self._is_worth_it(lane):
                return False
            if self._cluster.loop.now() < self._suspended_until:
                return False
            if lane.queue.in_flight:
                return True  # their responses wake the lane
            self._orders[lane] = WriteOrder()
        for item in lane.queue.unsent:  # a waiting batch would keep the whole response in memory
            if self._budget.free < self._budget.limit // 2:
                break
            if isinstance(item, OutBatch):
                move(item, self._budget)
        self._pump_soon()
        return True

    def detach(self, lane: Lane) -> None:
        """Remove the failed lane, which ignores the results of its batches in flight."""
        order = self._orders.pop(lane, None)
        if order is not None and order.requests:
            self._cluster.loop.call_soon(partial(self._report, _cut(order)))

    def abandon(self, lanes: Iterable[Lane]) -> None:
        """Report the batches in flight of the given lanes as lost, because their connection was lost."""
        for lane in list(lanes):
            order = self._orders.pop(lane, None)
            if order is not None:
                self._report(_cut(order))
        if not self._orders:  # the broker may have restarted with other socket buffers
            self._is_bound, self._window_bytes = False, 1

    def close(self) -> None:
        """Close all read-ahead connections permanently."""
        self._is_closed = True
        for via in list(self._open.values()):
            via.connection.close()

    def unanswered_since(self) -> float:
        """Return when the oldest overdue response was due (monotonic seconds); infinity if none is."""
        return min([via.connection.unanswered_since for via in self._open.values()], default=inf)

    def take_throttled(self, now: float) -> tuple[float, tuple[Lane, ...]]:
        """Return the longest throttle time of a connection since the previous call (seconds), and the lanes
        that it affects."""
        times = [via.connection.throttling.take(now) for via in self._open.values()]
        seconds = max(times, default=0.0)
        return seconds, tuple(self._orders) if seconds else ()

    def _is_worth_it(self, lane: Lane) -> bool:
        """Return whether the waiting batches suffice to keep one more connection busy for a round trip."""
        return next_size(lane, self._merger.most_bytes) >= self._window_bytes

    def _pump_soon(self) -> None:
        if not self._is_pumping:
            self._is_pumping = True
            self._cluster.loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Start to send as many batches as allowed, one batch of each lane at a time."""
        self._is_pumping = False
        self._open = {number: via for number, via in self._open.items() if via.connection.is_open}
        share = self._share()
        enough = windows_merged(share) * self._window_bytes
        self._merger = replace(self._merger, most_bytes=min(enough, self._most_bytes))
        is_suspended = self._cluster.loop.now() < self._suspended_until
        active = [] if is_suspended else list(self._orders.items())
        while active and not self._is_closed:
            active = [
                (lane, order)
                for lane, order in active
                if self._orders.get(lane) is order and self._begin(lane, order, share)
            ]
        for lane, order in list(self._orders.items()):
            if not order.requests and (is_suspended or not self._is_worth_it(lane)):
                self._return(lane)

    @property
    def partitions(self) -> int:
        """Number of partitions that are currently written on parallel connections."""
        return len(self._orders)

    def _share(self) -> int:
        """Return the maximum number of connections per partition."""
        partitions = sum(sibling.partitions for sibling in self._siblings.values())
        windows = self._budget.limit / (self._window_bytes * max(partitions, 1))
        return connections_each(self._most // max(self.partitions, 1), windows)

    def _return(self, lane: Lane) -> None:
        """Return a lane without batches in flight to the shared connection of the broker."""
        del self._orders[lane]
        if lane.writer is not None:
            lane.writer.wake(lane)

    def _begin(self, lane: Lane, order: WriteOrder[Write], share: int) -> bool:
        """Start to send the lane's next batch. Return whether to try one more."""
        if order.is_broken or (order.requests and self._budget.free < self._merger.most_bytes):
            return False
        if not lane.may_send(_MOST_IN_FLIGHT) or not self._is_worth_it(lane):
            return False
        used = len({id(write.via) for write in order.requests})
        now = self._cluster.loop.now()
        via = free_connection(self._open.values(), order, now, is_full=used >= share)
        if via is None:
            if used < share:
                self._open_more(share * len(self._orders))
            return False
        outgoing = self._listener.next_batch(lane, self._merger)
        if outgoing is None:
            return False
        self._send(lane, outgoing, order, via)
        self._complete_next(order)
        return True

    def _send(self, lane: Lane, outgoing: OutBatch, order: WriteOrder[Write], via: WriteConnection) -> None:
        transactional_id = lane.ownership.transactional_id(lane.key)
        topic_id, in_transaction = lane.progress.target_id, transactional_id is not None
        version = produce_version(via.connection, in_transaction=in_transaction, has_ids=bool(topic_id))
        topic = topic_id if version >= produce.BY_ID_FROM else lane.spec.destination_topic.encode()
        number, timeout = lane.key.partition.partition, self._cluster.timeout_seconds
        wait_ms, batches = replication_ms(timeout), {topic: [(number, outgoing.batch)]}
        buffers, size = produce.encode_request(version, batches, wait_ms, transactional_id)
        write = Write(lane, outgoing, order, via, (topic, number))
        front, write.end = split_end(buffers, _WITHHELD_BYTES)
        write.request = Request(
            produce.API,
            version,
            produce.is_flexible(version),
            front,
            size,
            timeout,
            partial(self._on_answer, write, version),
            partial(self._on_failure, write),
            replication_seconds=wait_ms / 1000,
            is_incomplete=True,
        )
        outgoing.sent_at = via.used_at = self._cluster.loop.now()
        order.begin(write)
        via.writes.append(write)
        via.connection.send(write.request)
        self._check_later()

    def _complete_next(self, order: WriteOrder[Write]) -> None:
        """Send the withheld last bytes of the first request, unless another complete request has no response
        yet. Abandons the requests of a lane that has stopped sending."""
        first = order.requests[0] if order.requests else None
        if first is None or order.is_broken:
            return
        lane = first.lane
        if not first.outgoing.outstanding or lane.queue.trouble is not None or not lane.may_drain:
            if not order.is_whole(first):
                self._report(_cut(order))
            return
        write = order.complete_next()
        if write is not None and write.request is not None:
            write.via.connection.complete(write.request, write.end)

    def _on_answer(self, write: Write, version: int, body: memoryview, _slab: ReceiveBuffer) -> None:
        response = produce.decode_response(version, body)
        order, lane = write.order, write.lane
        if [(answer.topic, answer.partition) for answer in response.partitions] != [write.place]:
            raise CorruptData(
                f"{self._cluster.name}: Produce response for a different partition than requested"
            )
        if write in order.requests and not order.is_whole(write):
            raise CorruptData(
                f"{self._cluster.name}: response to a Produce request that was not sent completely"
            )
        (answer,) = response.partitions
        write.via.writes.popleft()
        if response.throttle_ms > 0:
            write.via.connection.throttle(response.throttle_ms)
            self._cluster.loop.call_later(response.throttle_ms / 1000, self._pump_soon)
        if answer.leader is not None:
            hint = answer.leader
            self._cluster.learn_leader(lane.target, hint.leader, hint.epoch, response.nodes)
        order.answered(write)
        if answer.error:
            self._report(_cut(order))
        self._listener.on_answer(lane, write.outgoing, answer)
        self._report(order.take_lost())
        self._complete_next(order)
        self._pump_soon()

    def _on_failure(self, write: Write, _error: HeadraceError) -> None:
        if write not in write.order.requests:
            return
        for other in write.order.lose(write):
            other.via.connection.close()
        self._report(write.order.take_lost())
        self._pump_soon()

    def _check_later(self) -> None:
        if not self._is_checking:
            self._is_checking = True
            self._cluster.loop.call_later(_CHECK_SECONDS, self._check_incomplete)

    def _check_incomplete(self) -> None:
        """Abandon requests whose last bytes were not sent in time."""
        self._is_checking = False
        now = self._cluster.loop.now()
        for order in list(self._orders.values()):
            late = next((write for write in order.requests if not order.is_whole(write)), None)
            if late is None or order.is_broken:
                continue
            moved_at = max([write.via.connection.promptness.accepted_at for write in order.requests])
            if now > max(late.outgoing.sent_at, moved_at) + _INCOMPLETE_SECONDS:
                self._suspended_until = now + _SUSPENDED_SECONDS
                slow = late.via.connection
                slow.close(TimedOut(f"a produce request to {slow.name} was not completed in time"))
        if self._orders:
            self._check_later()

    def _report(self, lost: Iterable[tuple[Write, bool]]) -> None:
        for write, maybe_stored in lost:
            self._listener.on_lost(write.lane, write.outgoing, maybe_stored=maybe_stored)

    def _open_more(self, count: int) -> None:
        room = min(count - len(self._open), _MOST_OPENING) - len(self._opening)
        unused = (n for n in range(self._most) if n not in self._open and n not in self._opening)
        for number in list(islice(unused, max(room, 0))):
            self._opening.add(number)
            self._cluster.loop.spawn(self._connect(number))

    async def _connect(self, number: int) -> None:
        try:
            connection = await self._cluster.connection(self.broker, f"{_ROLE} {number}")
        except HeadraceError as error:
            _log.debug("no additional connection", cluster=self._cluster.name, reason=str(error))
            self._open = {number: via for number, via in self._open.items() if via.connection.is_open}
            if not self._open:
                retry_at = self._cluster.loop.now() + _OPEN_RETRY_SECONDS
                self._suspended_until = max(self._suspended_until, retry_at)
                for lane in [lane for lane, order in self._orders.items() if not order.requests]:
                    self._return(lane)
            return
        finally:
            self._opening.discard(number)
        if self._is_closed:
            connection.close()
            return
        via = self._open[number] = WriteConnection(connection, self._cluster.loop.now())
        _close_unused_later(self._cluster.loop, via)
        self._pump_soon()


def _cut(order: WriteOrder[Write]) -> list[tuple[Write, bool]]:
    """Close the connections of all outstanding requests. Return the requests."""
    taken = order.take_all()
    for write, _ in taken:
        write.via.connection.close()
    return taken


def _close_unused_later(loop: Loop, via: WriteConnection) -> None:
    def check() -> None:
        if not via.connection.is_open:
            return
        if not via.writes and loop.now() - via.used_at >= _UNUSED_SECONDS:
            via.connection.close()
        else:
            _close_unused_later(loop, via)

    loop.call_later(_UNUSED_SECONDS, check)


class DistantBrokers:
    """Parallel writes to all distant brokers of one cluster. For the parameters, see `ParallelWrites`."""

    def __init__(self, cluster: Cluster, most: int, budget: ByteBudget, listener: ProduceListener) -> None:
        self._cluster = cluster
        self._most = most
        self._budget = budget
        self._listener = listener
        self._known: dict[int, ParallelWrites] = {}

    @property
    def known(self) -> Iterable[ParallelWrites]:
        """The `ParallelWrites` of each distant broker that lanes have used."""
        return self._known.values()

    def writes(self, broker: int) -> ParallelWrites:
        """Return the `ParallelWrites` of a broker."""
        known = self._known.get(broker)
        if known is None:
            known = self._known[broker] = ParallelWrites(
                self._cluster, broker, self._most, self._budget, self._listener, self._known
            )
        return known

    def close(self) -> None:
        """Close the connections to all distant brokers."""
        for known in self._known.values():
            known.close()
