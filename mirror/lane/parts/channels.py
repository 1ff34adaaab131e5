"""Interfaces of a lane's connections. They are generic, because their methods have a lane as argument."""

from __future__ import annotations

from typing import Protocol, TypeVar

from mirror.model.datastreams.lanes import WindowLimit

L = TypeVar("L", contravariant=True)


class Reader(Protocol[L]):
    """Interface of a channel that fetches partitions from one broker."""

    def include(self, lane: L) -> None:
        """Include the lane's partition in Fetch requests from now on, starting at its position."""
        ...

    def exclude(self, lane: L) -> None:
        """Omit the lane's partition from Fetch requests until `include`."""
        ...

    def detach(self, lane: L) -> None:
        """Remove the lane from the channel."""
        ...

    def is_silent(self, now: float) -> bool:
        """Return whether the broker has not responded for several seconds."""
        ...

    def is_current(self, now: float) -> bool:
        """Return whether the broker responds within a few seconds and does not throttle fetches."""
        ...

    def unanswered_since(self) -> float:
        """Return when the oldest overdue response was due (monotonic seconds); infinity if none is
        overdue."""
        ...

    def window_limit(self) -> WindowLimit | None:
        """Return the limit of the read rate by the broker's socket buffers, or None without a limit."""
        ...


class Writer(Protocol[L]):
    """Interface of a channel that produces to the broker with the id `broker`."""

    broker: int

    @property
    def is_connected(self) -> bool:
        """Return whether the channel is connected to the broker."""
        ...

    def wake(self, lane: L) -> None:
        """Queue a lane that has batches to send on this channel."""
        ...

    def unanswered_since(self) -> float:
        """Return when the oldest overdue response was due (monotonic seconds); infinity if none is
        overdue."""
        ...

    def window_limit(self, lane: L) -> WindowLimit | None:
        """Return the limit of the write rate by the broker's socket buffers, or None without a limit."""
        ...

    def detach(self, lane: L) -> None:
        """Remove a lane without batches in flight from the channel."""
        ...
