"""Protocols of the channels that a lane uses. The protocols are generic, because their methods take the lane
itself as an argument."""

from __future__ import annotations

from typing import Protocol, TypeVar

from mirror.model.datastreams.lanes import WindowLimit

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
        """Drop the lane from the channel."""
        ...

    def is_silent(self, now: float) -> bool:
        """Return whether the broker has not responded for some seconds."""
        ...

    def is_current(self, now: float) -> bool:
        """Return whether the broker responds within some seconds and does not throttle fetches."""
        ...

    def unanswered_since(self) -> float:
        """Return when the oldest outstanding response was due (monotonic seconds), or infinity."""
        ...

    def window_limit(self) -> WindowLimit | None:
        """Return the limit of the read rate from a distant broker, or None.

        The limit follows from the broker's socket buffers.
        """
        ...


class Writer(Protocol[L]):
    """A channel that produces to the broker with the id `broker`."""

    broker: int

    @property
    def is_connected(self) -> bool:
        """Return whether the channel is connected to the broker."""
        ...

    def wake(self, lane: L) -> None:
        """Queue the lane, which has batches to send."""
        ...

    def unanswered_since(self) -> float:
        """Return when the oldest outstanding response was due (monotonic seconds), or infinity."""
        ...

    def window_limit(self, lane: L) -> WindowLimit | None:
        """Return the limit of the write rate to a distant broker, or None.

        The limit follows from the broker's socket buffers.
        """
        ...

    def detach(self, lane: L) -> None:
        """Remove the lane, which has no batch in flight, from the channel."""
        ...
