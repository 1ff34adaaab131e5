"""Channels of a lane, as the lane sees them. Generic, because a channel takes whole lanes."""

from __future__ import annotations

from typing import Protocol, TypeVar

L = TypeVar("L", contravariant=True)


class Reader(Protocol[L]):
    """A channel that fetches partitions from one broker."""

    def include(self, lane: L) -> None:
        """Include the lane in the next fetch, from its position."""
        ...

    def exclude(self, lane: L) -> None:
        """Exclude the lane from fetches for now."""
        ...

    def detach(self, lane: L) -> None:
        """Forget the lane."""
        ...

    def is_silent(self, now: float) -> bool:
        """Return whether the broker has not responded for some seconds."""
        ...

    def is_current(self, now: float) -> bool:
        """Return whether the broker responds within some seconds and does not throttle fetches."""
        ...

    def unanswered_since(self) -> float:
        """Return the due time of the oldest outstanding request, in monotonic seconds; infinity if none."""
        ...


class Writer(Protocol[L]):
    """A channel that produces to one broker with id `broker`."""

    broker: int

    def wake(self, lane: L) -> None:
        """Queue the lane, which has batches to send."""
        ...

    def unanswered_since(self) -> float:
        """Return the due time of the oldest outstanding request, in monotonic seconds; infinity if none."""
        ...

    def detach(self, lane: L) -> None:
        """Forget the lane, which has no batch in flight."""
        ...
