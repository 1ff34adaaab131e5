"""Preserves the order of a partition's Produce requests on several connections.

Pure. A broker processes a request when it has received the last byte. The last bytes of a request are
therefore withheld until the previous request has a response, so that the broker has at most one complete
request of the partition. After a failure, only the batch of that request may be stored. Without a response,
its state is unknown, because requests on different connections may overtake each other.
"""

from __future__ import annotations

from collections import deque
from math import sqrt
from typing import Final, Generic, TypeVar

R = TypeVar("R")

MOST_CONNECTIONS: Final = 12
"""Maximum number of connections per partition.

A partition writes at most one batch per round trip, so more connections do not increase the rate.
"""
_WINDOWS_MERGED: Final = 1.25
"""Maximum size of a merged batch, in windows per connection of the partition.

A partition writes one batch per round trip plus the broker's processing time, so batches must be large. Still
larger batches would use more memory, and connections would wait longer for each other.
"""


def windows_merged(connections: int) -> int:
    """Return the maximum size of a merged batch, in receive windows, when this many connections are used."""
    return max(round(_WINDOWS_MERGED * connections), 2)


def connections_each(most: int, windows: float) -> int:
    """Return how many connections a partition should use, from 1 to `most`.

    `windows`: memory for the requests of a partition, in TCP windows. A partition has a request on each
    connection, and another request that waits for its response. More connections have larger requests, which
    would exceed the memory.
    """
    room = int(sqrt(windows / _WINDOWS_MERGED + 0.25) - 0.5)
    return max(1, min(MOST_CONNECTIONS, most, room))


class WriteOrder(Generic[R]):
    """Outstanding Produce requests of one partition, in order. `is_broken` is True after a failure: no
    request is completed or added until `take_lost` has returned all requests."""

    __slots__ = ("_is_first_lost", "_is_first_whole", "is_broken", "requests")

    def __init__(self) -> None:
        self.requests: deque[R] = deque()
        self.is_broken = False
        self._is_first_whole = self._is_first_lost = False

    def begin(self, request: R) -> None:
        """Add a request whose last bytes are withheld for now."""
        assert not self.is_broken, "the order is broken"
        self.requests.append(request)

    def complete_next(self) -> R | None:
        """Mark the first request as complete and return it, so that the caller sends its last bytes. Returns
        None if the last bytes must wait."""
        if self._is_first_whole or self.is_broken or not self.requests:
            return None
        self._is_first_whole = True
        return self.requests[0]

    def is_whole(self, request: R) -> bool:
        """Return whether the request was sent completely and has no response yet."""
        return self._is_first_whole and bool(self.requests) and request is self.requests[0]

    def answered(self, request: R) -> None:
        """Remove the complete request after its response has arrived."""
        assert self.is_whole(request), "only a whole request has an answer"
        self.requests.popleft()
        self._is_first_whole = self._is_first_lost = False

    def lose(self, request: R) -> list[R]:
        """Note that the connection of a request has failed. Return the incomplete requests. The caller must
        close their connections, because the last bytes of incomplete requests are never sent."""
        if self.is_whole(request):
            self._is_first_lost = True
        self.is_broken = True
        return list(self.requests)[self._is_first_whole :]

    def take_lost(self) -> list[tuple[R, bool]]:
        """Remove and return all requests after a failure, in order. Each comes with True if its batch may be
        stored. Returns nothing while a complete request is outstanding."""
        if not self.is_broken or (self._is_first_whole and not self._is_first_lost):
            return []
        return self.take_all()

    def take_all(self) -> list[tuple[R, bool]]:
        """Remove and return all outstanding requests, in the form of `take_lost`. The caller must close the
        connections of the returned requests."""
        taken = [(request, self.is_whole(request)) for request in self.requests]
        self.requests.clear()
        self.is_broken = self._is_first_whole = self._is_first_lost = False
        return taken
