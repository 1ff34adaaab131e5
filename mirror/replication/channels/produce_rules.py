"""Receiver of produce results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.protocol.produce import ProducedPartition

T = TypeVar("T")


class ProduceListener(Protocol):
    """Receiver of produce results. Called on the loop."""

    def on_answer(self, lane: Lane, outgoing: OutBatch, answer: ProducedPartition) -> None:
        """Handle the broker's response for one batch, success or error."""
        ...

    def on_lost(self, lane: Lane, outgoing: OutBatch, *, maybe_stored: bool = True) -> None:
        """Handle a lost connection. `maybe_stored`: the broker may or may not have stored the batch."""
        ...

    def attempt(self, lane: Lane, step: Callable[[Lane], T]) -> T | None:
        """Return the result of a step of the lane, None if it failed, which concerns only this lane."""
        ...

    def on_writable(self, lane: Lane) -> None:
        """Handle a connection that became available."""
        ...

    def on_unwritable(self, lane: Lane) -> None:
        """Handle a lost connection while no batch of the lane is in flight."""
        ...

    def on_target_relocated(self, lane: Lane) -> None:
        """Handle new metadata of the destination topic: attach the lane again, or pause it."""
        ...
