"""Connections for parallel writes, and their outstanding requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from mirror.client.connection import Connection
from mirror.client.request import Request
from mirror.client.transport import Buffer
from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.protocol.fetch_session import Place
from mirror.replication.channels.write_order import WriteOrder


class WriteConnection:
    """A connection for parallel writes, its requests in order, and the time of its last use."""

    __slots__ = ("connection", "used_at", "writes")

    def __init__(self, connection: Connection, now: float) -> None:
        self.connection = connection
        self.writes: deque[Write] = deque()
        self.used_at = now

    def is_free_for(self, order: WriteOrder[Write]) -> bool:
        """Return whether the connection can send a batch of this partition. A connection is free if its only
        outstanding requests are complete and of the same partition."""
        if not self.writes:
            return True
        last = self.writes[-1]
        return len(self.writes) == 1 and last.order is order and order.is_whole(last)


class Write:
    """A Produce request with one batch."""

    __slots__ = ("end", "lane", "order", "outgoing", "place", "request", "via")

    def __init__(
        self, lane: Lane, outgoing: OutBatch, order: WriteOrder[Write], via: WriteConnection, place: Place
    ) -> None:
        self.lane = lane
        self.outgoing = outgoing
        self.order = order
        self.via = via
        self.place = place
        self.request: Request | None = None
        self.end: list[Buffer] = []


def free_connection(
    connections: Iterable[WriteConnection], order: WriteOrder[Write], now: float, *, is_full: bool
) -> WriteConnection | None:
    """Return a connection that can send the next batch of a partition, or None if none can.

    `is_full`: consider only connections that the partition already uses.
    """
    found = None
    for via in connections:
        if not via.is_free_for(order) or not via.connection.is_open or via.connection.throttled_until > now:
            continue
        if via.writes:
            return via
        if not is_full:
            found = found or via
    return found
