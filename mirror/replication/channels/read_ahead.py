"""Reads ahead of lanes: requests later records on additional connections to distant brokers.

A broker sends about one socket buffer per round trip on a connection. Partitions with a backlog are therefore
read on several connections: consecutive offset ranges are requested at the same time, and their responses are
passed on in order (`read_plan.py`). The additional connections use no fetch session. If a request does not
return the expected records, the channel requests the partition on its own connection.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final, Protocol

from mirror.bulkheads import Bulkhead
from mirror.client.cluster import Cluster
from mirror.client.connection import Connection
from mirror.client.request import Request
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.parts.channels import Reader
from mirror.model.datastreams.policy import Isolation
from mirror.protocol import fetch
from mirror.protocol.fetch import FetchedPartition, FetchPosition, FetchRequest
from mirror.replication.channels.ahead_connections import AheadConnection, AheadConnections
from mirror.replication.channels.channel_rules import ChannelKey, FetchListener, ReadingRules
from mirror.replication.channels.read_plan import OffsetRange, ReadPlan, from_position, header_at

_LARGE: Final = 128 * 1024
"""Minimum size in bytes of a large response, which takes several socket buffers."""
_DEPTH: Final = 2
"""Outstanding requests per connection, so that the broker can always start on the next one."""
_RANGES_EACH: Final = 3
"""Maximum number of ranges per connection that are requested, or have arrived too early."""


class AheadChannel(Reader[Lane], Protocol):
    """Functions of a fetch channel that read-ahead calls."""

    broker: int
    tier: ChannelKey

    def request(self, lane: Lane) -> None:
        """Include the lane's partition in the next fetch request on the channel's own connection."""
        ...

    def pass_on(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, requested_at: float) -> None:
        """Handle records that were read ahead with a request at `requested_at` (monotonic seconds)."""
        ...


class ReadAhead:
    """Read-ahead of one fetch channel, on additional connections to its broker."""

    def __init__(
        self,
        channel: AheadChannel,
        cluster: Cluster,
        listener: FetchListener,
        rules: ReadingRules,
        rack: bytes,
    ) -> None:
        self._channel = channel
        self._cluster = cluster
        self._listener = listener
        self._rules = rules
        self._rack = rack
        self._large = min(_LARGE, rules.max_bytes // 4)
        self.connections = AheadConnections(
            cluster, channel.broker, channel.tier, rules.connections, self._pump, self._give_up_all
        )
        self._plans: dict[Lane, ReadPlan] = {}
        self._left_out: set[Lane] = set()
        """Lanes whose next response the channel requests itself, until that response has arrived."""
        self._gaps: deque[tuple[Lane, OffsetRange]] = deque()
        self._queued_lanes: dict[Lane, None] = {}
        """Lanes for which more offset ranges may be requested, in the order of their next requests."""
        self._due: dict[Lane, None] = {}
        """Lanes whose next offset range has arrived."""
        self._is_pump_due = False

    @property
    def most_bytes(self) -> int:
        """Maximum bytes of a response on the channel's own connection: small, because the rest is read
        ahead."""
        return 2 * self._large

    def note_response(self, connection: Connection, size: int) -> None:
        """Register a response of `size` bytes on the channel's own connection, if it is large."""
        if size >= self._large:
            self.connections.note(connection, size)

    def learn(self, lane: Lane, part: FetchedPartition) -> None:
        """Learn the size of the lane's records from a response on the channel's own connection."""
        if not self.connections.is_wanted:
            return
        self._left_out.discard(lane)
        if len(part.records):
            self._plan(lane).learn(part.records)

    def take(self, lane: Lane) -> bool:
        """Read ahead for the lane. Return False if the channel must use its own connection instead."""
        end = _end_of(lane)
        plan = self._plans.get(lane)
        if plan is None or not self.connections.by_number or lane in self._left_out or not plan.is_known:
            return False
        if lane.read.position >= end:
            self.forget(lane)
            return False
        plan.prune(lane.read.position)
        head = plan.head(lane.read.position)
        if head is None:
            self._gaps.append((lane, plan.fill_gap(lane.read.position, end, self._rules.ahead_bytes)))
        elif head.part is not None:
            self._deliver_soon(lane)
        self._queued_lanes[lane] = None
        self._pump()
        return True

    def forget(self, lane: Lane) -> None:
        """Drop all records that were read ahead for the lane."""
        plan = self._plans.pop(lane, None)
        if plan is not None:
            plan.clear()
        self._left_out.discard(lane)
        self._due.pop(lane, None)

    def check(self, now: float) -> None:
        """Close unused read-ahead connections, and free memory for the next offset range."""
        self.connections.close_unused(now)
        if self.connections.lacks_memory:
            self._make_room()

    def _make_room(self) -> None:
        """Free memory by dropping later ranges that have already arrived, so that an earlier range can be
        received."""
        waiting = [lane for lane, plan in self._plans.items() if lane.read.waits and plan.holds_any]
        for lane in waiting:
            self._plans[lane].clear()
        if not waiting:
            for plan in self._plans.values():
                plan.drop_last_held()

    def _plan(self, lane: Lane) -> ReadPlan:
        plan = self._plans.get(lane)
        if plan is None:
            plan = self._plans[lane] = ReadPlan()
        return plan

    def _pump(self) -> None:
        """Request as many offset ranges as the connections and the memory allow."""
        now = self._cluster.loop.now()
        idle = self.connections.idle(_DEPTH)
        held_until = max([reader.connection.throttled_until for reader in idle], default=now)
        if held_until > now:
            idle = [reader for reader in idle if reader.connection.throttled_until <= now]
            self._pump_at(held_until)
        if not idle:
            return
        allowed = 0 if self.connections.lacks_memory else _RANGES_EACH * len(self.connections.by_number)
        known = (
            sum([len(plan.ranges) for plan in self._plans.values()]) if allowed and self._queued_lanes else 0
        )
        for depth in range(_DEPTH):
            for reader in idle:
                if len(reader.ranges) > depth:
                    continue
                found = self._next(allowed - known, allowed // max(len(self._plans), 1))
                if found is None:
                    return
                known += 1
                self._try_to_ask(reader, *found)

    def _pump_at(self, when: float) -> None:
        if not self._is_pump_due:
            self._is_pump_due = True
            self._cluster.loop.call_later(when - self._cluster.loop.now(), self._pump_again)

    def _pump_again(self) -> None:
        self._is_pump_due = False
        self._pump()

    def _next(self, room: int, each: int) -> tuple[Lane, OffsetRange] | None:
        """Return the lane and the offset range to request next. A range that a lane waits for comes first.
        Otherwise, if `room` allows, return the next range of a lane that has at most `each` ranges."""
        while self._gaps:
            lane, wanted = self._gaps.popleft()
            if not wanted.is_dropped:
                return lane, wanted
        while self._queued_lanes and room > 0:
            lane = next(iter(self._queued_lanes))
            del self._queued_lanes[lane]
            plan = self._plans.get(lane)
            if plan is None or lane.read.waits or lane in self._left_out:
                continue
            end = _end_of(lane)
            if plan.has_more(end) and len(plan.ranges) < max(each, 2):
                self._queued_lanes[lane] = None
                return lane, plan.extend(end, self._rules.ahead_bytes)
        return None

    def _try_to_ask(self, reader: AheadConnection, lane: Lane, wanted: OffsetRange) -> None:
        with Bulkhead(partial(self._set_aside, lane)):
            self._ask(reader, lane, wanted)

    def _set_aside(self, lane: Lane, error: Exception) -> None:
        self.forget(lane)
        self._listener.on_broken(lane, error)

    def _ask(self, reader: AheadConnection, lane: Lane, wanted: OffsetRange) -> None:
        connection, place = reader.connection, lane.key.partition
        version = connection.version_of(fetch.API, self._channel.tier.versions)
        leader = self._cluster.leader(place)
        topic = lane.progress.source.topic_id if version >= fetch.BY_ID_FROM else place.topic.encode()
        position = FetchPosition(leader[1] if leader else -1, wanted.start, -1, wanted.size)
        request = FetchRequest(
            wait_ms=0,
            min_bytes=1,
            max_bytes=wanted.size,
            read_committed=lane.spec.policy.isolation is Isolation.READ_COMMITTED,
            topics={topic: [(place.partition, position)]},
            rack=self._rack if self._channel.tier.near else b"",
        )
        body = fetch.encode_request(version, request)
        wanted.requested_at = self._cluster.loop.now()
        reader.ranges.append((lane, wanted))
        connection.send(
            Request(
                fetch.API,
                version,
                fetch.is_flexible(version),
                [body],
                len(body),
                self._cluster.timeout_seconds,
                partial(self._on_answer, reader, version),
                partial(self._on_failure, reader),
                0.0,
                fetch.response_bytes(wanted.size, self._cluster.largest_batch_bytes, 1),
            )
        )

    def _on_answer(
        self, reader: AheadConnection, version: int, body: memoryview, slab: ReceiveBuffer
    ) -> None:
        response = fetch.decode_response(version, body)  # first: on an error, `_on_failure` takes the range
        lane, wanted = reader.ranges.popleft()
        reader.connection.throttle(response.throttle_ms)
        part = response.partitions[0] if len(response.partitions) == 1 and not response.error else None
        if not wanted.is_dropped:
            if part is not None and not part.error and header_at(part.records, 0) is not None:
                wanted.fill(part, slab)
                plan = self._plans[lane]
                plan.learn(part.records)
                if plan.head(lane.read.position) is wanted:
                    self._deliver_soon(lane)
            else:
                self._give_up(lane)
        self.connections.note(reader.connection, len(body))
        self._pump()

    def _on_failure(self, reader: AheadConnection, _error: HeadraceError) -> None:
        lane, wanted = reader.ranges.popleft()
        if not wanted.is_dropped:
            if any(other is not reader for other in self.connections.by_number.values()):
                self._gaps.append((lane, wanted))
            else:
                self._give_up(lane)

    def _give_up_all(self) -> None:
        """Return all partitions to the channel's own connection, because no read-ahead connection is left."""
        for lane in list(self._plans):
            self._give_up(lane)
        self._queued_lanes.clear()

    def _give_up(self, lane: Lane) -> None:
        """Return the lane's partition to the channel's own connection."""
        plan = self._plans.get(lane)
        if plan is not None:
            plan.clear()
            self._left_out.add(lane)
            self._due.pop(lane, None)
            self._cluster.loop.call_soon(partial(self._return, lane))

    def _return(self, lane: Lane) -> None:
        if lane.reader is self._channel and not lane.read.waits:
            self._channel.request(lane)

    def _deliver_soon(self, lane: Lane) -> None:
        if not self._due:
            self._cluster.loop.call_soon(self._deliver)
        self._due[lane] = None

    def _deliver(self) -> None:
        due, self._due = self._due, {}
        for lane in due:
            plan = self._plans.get(lane)
            head = plan.head(lane.read.position) if plan is not None else None
            if plan is None or head is None or head.part is None or head.slab is None:
                continue
            if lane.reader is self._channel and not lane.read.waits:
                plan.ranges.popleft()
                self._pass_on(lane, head, head.part, head.slab)
                head.drop()
        self._pump()

    def _pass_on(self, lane: Lane, taken: OffsetRange, part: FetchedPartition, slab: ReceiveBuffer) -> None:
        records = from_position(part.records, lane.read.position)
        if not len(records):
            self._channel.include(lane)
            return
        # A response to an earlier request may arrive late, with an outdated end offset.
        known = part._replace(
            records=records,
            high_watermark=max(part.high_watermark, lane.read.high_watermark),
            last_stable_offset=max(part.last_stable_offset, lane.read.stable_offset),
            log_start=max(part.log_start, lane.read.log_start),
        )
        self._channel.pass_on(lane, known, slab, taken.requested_at)


def _end_of(lane: Lane) -> int:
    """Return the offset at which the lane stops reading: its end offset or the end of readable records."""
    end = lane.spec.end_offset
    return lane.read.readable_end if end is None else min(end, lane.read.readable_end)
