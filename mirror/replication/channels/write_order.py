"""Keeps the order of one partition's requests on several connections.

Pure. A broker processes a request only after it has received the last byte. Every request is therefore sent
without its last bytes, which follow after the response to the previous request. The broker thus has at most
one complete request of the partition: the order is certain, and after a failure only the batch of that
request may be stored. Only a response proves that the broker has processed a request, because requests on
different connections may overtake each other.
"""

from __future__ import annotations

from collections import deque
from math import sqrt
from typing import Final, Generic, TypeVar

R = TypeVar("R")

MOST_CONNECTIONS: Final = 12
"""Maximum number of connections for one partition. A partition writes at most one batch per round trip, so
more connections would not be faster."""
_WINDOWS_MERGED: Final = 1.25
"""Maximum size of a merged batch, in windows per connection of the partition. Batches must be large, because
a partition writes at most one batch per round trip plus the broker's processing time. Larger batches than
this would use more memory, and the connections would wait longer for each other."""


def windows_merged(connections: int) -> int:
    """Return the maximum size of a merged batch in windows, for a partition with that many connections."""
    return max(round(_WINDOWS_MERGED * connections), 2)


def connections_each(most: int, windows: float) -> int:
    """Return the number of connections for each partition, at least 1 and at most `most`.

    `windows`: memory for the requests of a partition, in TCP windows. A partition has a request on each
    connection, and one that waits for its response. With more connections, and therefore larger requests, the
    memory would be full while connections are unused.
    """
    room = int(sqrt(windows / _WINDOWS_MERGED + 0.25) - 0.5)
    return max(1, min(MOST_CONNECTIONS, most, room))


class WriteOrder(Generic[R]):
    """Outstanding requests of a partition, in order.

    After a failure, `is_broken` is True: no further request is completed, and no new request may be added
    until `take_lost` has returned all requests.
    """

    __slots__ = ("_is_first_lost", "_is_first_whole", "is_broken", "requests")

    def __init__(self) -> None:
        self.requests: deque[R] = deque()
        self.is_broken = False
        self._is_first_whole = self._is_first_lost = False

    def begin(self, request: R) -> None:
        """Add a request that is sent without its end."""
        assert not self.is_broken, "the order is broken"
        self.requests.append(request)

    def complete_next(self) -> R | None:
        """Mark the first request as complete and return it; the caller sends its last bytes.

        None means that the last bytes must not be sent yet.
        """
        if self._is_first_whole or self.is_broken or not self.requests:
            return None
        self._is_first_whole = True
        return self.requests[0]

    def is_whole(self, request: R) -> bool:
        """Return whether the request was sent completely, and no response has arrived."""
        return self._is_first_whole and bool(self.requests) and request is self.requests[0]

    def answered(self, request: R) -> None:
        """Remove the complete request, because its response has arrived."""
        assert self.is_whole(request), "only a whole request has an answer"
        self.requests.popleft()
        self._is_first_whole = self._is_first_lost = False

    def lose(self, request: R) -> list[R]:
        """Record that the connection of a request has failed, and return the incomplete requests.

        The caller must close their connections, because their last bytes will never be sent.
        """
        if self.is_whole(request):
            self._is_first_lost = True
        self.is_broken = True
        return list(self.requests)[self._is_first_whole :]

    def take_lost(self) -> list[tuple[R, bool]]:
        """Remove and return all requests after a failure, in order.

        Each is returned with True if its batch may be stored. Returns nothing while the response to a
        complete request is still outstanding.
        """
        if not self.is_broken or (self._is_first_whole and not self._is_first_lost):
            return []
        return self.take_all()

    def take_all(self) -> list[tuple[R, bool]]:
        """Remove all requests and return them as `take_lost` does. The caller must close the connections of
        these requests."""
        taken = [(request, self.is_whole(request)) for request in self.requests]
        self.requests.clear()
        self.is_broken = self._is_first_whole = self._is_first_lost = False
        return taken
