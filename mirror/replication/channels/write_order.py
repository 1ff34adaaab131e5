"""Order of the requests of one partition that travel side by side on several connections.

Pure. A broker acts on a request only when it is whole, so every request is sent without its end, and the end
of one follows when the request before it has been answered. At most one request of the partition is therefore
whole at the broker: the order is certain, and after a failure only that one may be stored. Nothing shorter
than an answer proves that a broker has handled a request, because requests on different connections may
overtake each other.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

R = TypeVar("R")


class WriteOrder(Generic[R]):
    """Unanswered requests of a partition, in order.

    After a failure it `is_broken`: no further request is completed, and none may begin until `take_lost`
    has returned all of them.
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
        """Mark the next request as whole and return it, for its end to be sent; None if it has to wait."""
        if self._is_first_whole or self.is_broken or not self.requests:
            return None
        self._is_first_whole = True
        return self.requests[0]

    def is_whole(self, request: R) -> bool:
        """Return whether the end of the request was sent, and no answer has arrived."""
        return self._is_first_whole and bool(self.requests) and request is self.requests[0]

    def answered(self, request: R) -> None:
        """Remove the whole request, which was answered."""
        assert self.is_whole(request), "only a whole request has an answer"
        self.requests.popleft()
        self._is_first_whole = self._is_first_lost = False

    def lose(self, request: R) -> list[R]:
        """Note that the connection of a request has failed. Return the requests that are not whole: their
        connections must be closed, because their ends can never follow."""
        if self.is_whole(request):
            self._is_first_lost = True
        self.is_broken = True
        return list(self.requests)[self._is_first_whole :]

    def take_lost(self) -> list[tuple[R, bool]]:
        """Remove all requests of a broken order, unless the answer to a whole one is still to come.

        Return them in order, each with whether it may be stored.
        """
        if not self.is_broken or (self._is_first_whole and not self._is_first_lost):
            return []
        return self.take_all()

    def take_all(self) -> list[tuple[R, bool]]:
        """Remove all requests, whose connections must be closed. Return them as `take_lost` does."""
        taken = [(request, self.is_whole(request)) for request in self.requests]
        self.requests.clear()
        self.is_broken = self._is_first_whole = self._is_first_lost = False
        return taken
