"""Fetches many partitions from one broker, on one connection with one fetch request in flight."""

from __future__ import annotations

from math import inf
from typing import Final

from mirror.client.connection import FAR_SECONDS, Connection
from mirror.client.promptness import PATIENCE_SECONDS
from mirror.client.request import Request
from mirror.errors import HeadraceError, ResponseStalled, ResponseTooLarge
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import WindowLimit
from mirror.model.topics import TopicPartition
from mirror.protocol import fetch
from mirror.protocol.codes import MOVED
from mirror.protocol.fetch import FetchedPartition, FetchPosition, FetchRequest, FetchResponse
from mirror.protocol.fetch_session import LOST, FetchSession, Place
from mirror.protocol.frame import Nodes
from mirror.replication.channels.channel_rules import ChannelKey, FetchSource, ReadingRules
from mirror.replication.channels.read_ahead import ReadAhead

_log = get_logger(__name__)
_WAIT_WHILE_SOME_ARE_LEFT_OUT_MS: Final = 10
_NO_LEADER_TICK: Final = 0.1
_SESSIONS_FROM: Final = 7
_LEAST_SHARE: Final = 256 * 1024
"""Minimum bytes per partition in a response, enough for one batch merged from many small batches."""


class FetchTimes:
    """Number and time of a channel's last request, and of its last answered request.

    `waiting_since`: time since which the channel has waited for a response, None if it does not wait;
    `is_answered`: the broker has responded on the current connection. Times are monotonic seconds.
    """

    __slots__ = ("answered", "is_answered", "number", "requested_at", "waiting_since")

    def __init__(self) -> None:
        self.number, self.requested_at, self.answered = 0, -inf, (0, -inf)
        self.waiting_since: float | None = None
        self.is_answered = False

    def note_request(self, now: float) -> None:
        """Note that a Fetch request was sent."""
        self.number, self.requested_at = self.number + 1, now

    def note_response(self, *, is_complete: bool) -> None:
        """Note that the last Fetch request was answered."""
        self.waiting_since, self.is_answered = None, True
        if is_complete:
            self.answered = (self.number, self.requested_at)

    def is_current(self, now: float, wait_seconds: float) -> bool:
        """Return whether the broker responds in time. `wait_seconds`: how long it may wait for records."""
        since = now if self.waiting_since is None else self.waiting_since
        return self.is_answered and now - since - wait_seconds < PATIENCE_SECONDS


class FetchChannel:
    """A connection that fetches many partitions from one broker."""

    def __init__(self, source: FetchSource, broker: int, tier: ChannelKey, rules: ReadingRules) -> None:
        self.broker = broker
        self.tier = tier
        self._source = source
        self._cluster = source.cluster
        self._listener = source.listener
        self._rules = rules
        self._lanes: dict[Place, Lane] = {}
        self._partitions: set[TopicPartition] = set()
        self._excluded = 0
        self._connection: Connection | None = None
        self._version = -1
        self._session = FetchSession(incremental=True)
        self._max_bytes = rules.max_bytes
        self._is_asking = self._is_waiting = self._is_opening = self._is_closed = False
        self._not_before = 0.0
        self._times = FetchTimes()
        self._ahead: ReadAhead | None = None
        """Read-ahead of the channel; None unless the broker is distant."""

    def has_room_for(self, lane: Lane) -> bool:
        """Return whether the lane's partition is not yet fetched by another lane on this channel."""
        return lane.key.partition not in self._partitions

    def attach(self, lane: Lane, *, waits: bool = False) -> None:
        """Start to fetch the lane's partition. With `waits`, the first fetch waits for `include`."""
        lane.reader, lane.read.waits = self, False
        self._partitions.add(lane.key.partition)
        if self._connection is None:
            # until the API version decides whether requests contain topic ids
            lane.read.place = (b"", id(lane))
            self._lanes[lane.read.place] = lane
            if not self._is_opening and not self._is_closed:
                self._is_opening = True
                self._cluster.loop.spawn(self._opened())
        else:
            self._place(lane)
        if waits:
            self.exclude(lane)
        elif self._connection is not None:
            self.include(lane)

    def _place(self, lane: Lane) -> None:
        topic, number = lane.key.partition
        by_id = self._version >= fetch.BY_ID_FROM
        lane.read.place = (lane.progress.source.topic_id if by_id else topic.encode(), number)
        lane.read.first_request = self._times.number + 2  # the session may leave it out once
        self._lanes[lane.read.place] = lane

    def include(self, lane: Lane) -> None:
        if not lane.is_writable:
            self.exclude(lane)
            return
        if lane.read.waits:
            lane.read.waits = False
            self._excluded -= 1
        if self._connection is None or lane.read.place is None:
            return
        if self._ahead is not None and self._ahead.take(lane):
            self._session.remove(lane.read.place)
        else:
            self.request(lane)

    def request(self, lane: Lane) -> None:
        """Include the lane's partition in the next fetch request."""
        if self._connection is not None and lane.read.place is not None:
            leader = self._cluster.leader(lane.key.partition)
            try:
                position = lane.fetch_position(leader[1] if leader else -1, self._share())
            except Exception as error:  # noqa: BLE001 - the other lanes are still fetched
                self._listener.on_broken(lane, error)
                return
            self._session.put(lane.read.place, position)
            lane.read.first_request = max(lane.read.first_request, self._times.number + 1)
            self.pump()

    def _share(self) -> int:
        """Return the maximum bytes per partition in a Fetch response. Responses with many partitions fill
        produce requests, and free their memory sooner."""
        if self.tier.live:
            return self._max_bytes
        return max(self._max_bytes // max(len(self._lanes) - self._excluded, 1), _LEAST_SHARE)

    def pass_on(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, requested_at: float) -> None:
        """Handle records that were read ahead with a request at `requested_at` (monotonic seconds)."""
        lane.read.note_request_ahead(requested_at)
        self._listener.on_fetched(lane, part, slab, squeezed=False)

    def exclude(self, lane: Lane) -> None:
        if not lane.read.waits:
            lane.read.waits = True
            self._excluded += 1
        if lane.read.place is not None:
            self._session.remove(lane.read.place)

    def detach(self, lane: Lane) -> None:
        if lane.read.waits:
            lane.read.waits = False
            self._excluded -= 1
        if self._ahead is not None:
            self._ahead.forget(lane)
        if lane.read.place is not None and self._lanes.pop(lane.read.place, None) is not None:
            self._session.forget(lane.read.place)
            self._partitions.discard(lane.key.partition)
        lane.reader, lane.read.place = None, None

    def close(self) -> None:
        """Close the connection of the channel."""
        self._is_closed = True
        if self._ahead is not None:
            self._ahead.connections.close()
        if self._connection is not None:
            self._connection.close()

    def check(self, now: float) -> None:
        """Do the periodic work of reading ahead that is due at `now` (monotonic seconds)."""
        if self._ahead is not None:
            self._ahead.check(now)

    def is_silent(self, now: float) -> bool:
        if self._connection is None:
            return True
        return now - self._connection.silence(now)[0] >= PATIENCE_SECONDS

    def is_current(self, now: float) -> bool:
        return not self.is_silent(now) and self._times.is_current(now, self._rules.wait_ms / 1000)

    def unanswered_since(self) -> float:
        own = self._connection.unanswered_since if self._connection is not None else inf
        return own if self._ahead is None else min(own, self._ahead.connections.unanswered_since())

    def window_limit(self) -> WindowLimit | None:
        return None if self._ahead is None else self._ahead.connections.window_limit()

    def take_throttled(self, now: float) -> tuple[float, tuple[Lane, ...]]:
        """Return how long the broker throttled since the previous call (seconds), and the affected lanes."""
        seconds = self._connection.throttling.take(now) if self._connection is not None else 0.0
        if self._ahead is not None:
            seconds = max(seconds, self._ahead.connections.take_throttled(now))
        return seconds, tuple(self._lanes.values()) if seconds else ()

    def pump(self) -> None:
        """Send the next Fetch request, unless one is in flight or no partition needs data."""
        connection = self._connection
        if connection is None or self._is_asking or self._is_waiting or self._is_closed:
            return
        if self._session.is_empty:
            return
        loop = self._cluster.loop
        if self._times.waiting_since is None:
            self._times.waiting_since = loop.now()
        wait = max(self._not_before, connection.throttled_until) - loop.now()
        if wait > 0:
            self._is_waiting = True

            def pump_again() -> None:
                self._is_waiting = False
                self.pump()

            loop.call_later(wait, pump_again)
            return
        self._ask(connection)

    def _ask(self, connection: Connection) -> None:
        self._is_asking = True
        self._times.note_request(self._cluster.loop.now())
        part = self._session.build()
        wait_ms = self._rules.wait_ms
        if self._excluded or self._session.is_behind:
            wait_ms = min(wait_ms, _WAIT_WHILE_SOME_ARE_LEFT_OUT_MS)
        request = FetchRequest(
            wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            read_committed=self.tier.committed,
            topics=part.topics,
            session_id=part.session_id,
            session_epoch=part.epoch,
            forgotten=part.forgotten,
            rack=self._source.rack if self.tier.near else b"",
        )
        body = fetch.encode_request(self._version, request)
        connection.send(
            Request(
                fetch.API,
                self._version,
                fetch.is_flexible(self._version),
                [body],
                len(body),
                self._cluster.timeout_seconds,
                self._on_answer,
                self._on_failure,
                wait_ms / 1000,
                fetch.response_bytes(self._max_bytes, self._cluster.largest_batch_bytes, len(self._lanes)),
            )
        )

    def _on_answer(self, body: memoryview, slab: ReceiveBuffer) -> None:
        response = fetch.decode_response(self._version, body)
        ahead, times = self._ahead, self._times
        last_request = times.answered
        self._note_response(response, len(body))
        room = self._max_bytes - sum([len(part.records) for part in response.partitions])
        for part in response.partitions:
            place = (part.topic, part.partition)
            lane, requested = self._lanes.get(place), self._session.requested_position(place)
            if lane is None or requested is None:
                continue
            if self._has_moved(lane, part, requested, response.nodes):
                self._source.move(lane)
            elif requested.offset == lane.read.position:
                lane.read.note_request(times.requested_at, last_request)
                if ahead is not None:
                    ahead.learn(lane, part)
                self._listener.on_fetched(lane, part, slab, squeezed=room < requested.max_bytes)
            elif not lane.read.waits:
                self.include(lane)  # the lane was rewound after the request was sent
        # Only now: the next request would overwrite `requested`. A response from a later offset could then be
        # mistaken for a response from the position to which the lane was rewound.
        self._is_asking = False
        if self._rules.gather_ms and response.partitions:
            self._not_before = self._cluster.loop.now() + self._rules.gather_ms / 1000
        self.pump()

    def _note_response(self, response: FetchResponse, size: int) -> None:
        if self._connection is not None:
            self._connection.throttle(response.throttle_ms)
            if self._ahead is not None:
                self._ahead.note_response(self._connection, size)
        self._session.answered(response.error, response.session_id)
        if response.error and response.error not in LOST:
            _log.warning("fetch failed", cluster=self._cluster.name, broker=self.broker, code=response.error)
            self._not_before = self._cluster.loop.now() + _NO_LEADER_TICK
        elif response.partitions or not response.throttle_ms:  # throttled responses are empty
            self._times.note_response(is_complete=not response.error)

    def _has_moved(self, lane: Lane, part: FetchedPartition, sent: FetchPosition, nodes: Nodes) -> bool:
        """Return whether the partition has moved to another leader, and the new leader is known."""
        if part.error not in MOVED:
            return False
        place = lane.key.partition
        if part.leader is not None:
            self._cluster.learn_leader(place, part.leader.leader, part.leader.epoch, nodes)
        leader = self._cluster.leader(place)
        return leader is not None and leader[1] > sent.leader_epoch >= 0

    def _on_failure(self, error: HeadraceError) -> None:
        self._is_asking = False
        self._connection = None
        if not self._is_closed:
            _log.debug("connection lost", cluster=self._cluster.name, broker=self.broker, reason=str(error))
            lanes = tuple(self._lanes.values())
            self._source.relocate(lanes)
            if isinstance(error, (ResponseTooLarge, ResponseStalled)):
                self._listener.on_unreceived(lanes, error)

    async def _opened(self) -> None:
        try:
            connection = await self._cluster.connection(self.broker, self.tier.role)
        except HeadraceError as error:
            self._is_opening = False
            self._on_failure(error)
            return
        self._is_opening = False
        if self._is_closed:
            return
        self._version = connection.version_of(fetch.API, self.tier.versions)
        self._session = FetchSession(incremental=self._version >= _SESSIONS_FROM)
        if self._ahead is None and self._rules.connections and connection.round_trip() >= FAR_SECONDS:
            self._ahead = ReadAhead(self, self._cluster, self._listener, self._rules, self._source.rack)
            self._max_bytes = min(self._max_bytes, self._ahead.most_bytes)
        self._connection = connection
        self._times.is_answered = False
        connection.when_closed(self._on_close)
        lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            self._place(lane)
            if not lane.read.waits:
                self.include(lane)

    def _on_close(self, error: HeadraceError) -> None:
        if self._connection is not None:
            self._on_failure(error)
