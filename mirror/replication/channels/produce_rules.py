"""Receiver of produce results."""

from __future__ import annotations

from typing import Protocol

from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.protocol.produce import ProducedPartition


class ProduceListener(Protocol):
    """Receiver of produce results. Called on the loop."""

    def on_answer(self, lane: Lane, outgoing: OutBatch, answer: ProducedPartition) -> None:
        """Handle the broker's response for one batch, success or error."""
        ...

    def on_lost(self, lane: Lane, outgoing: OutBatch, *, maybe_stored: bool = True) -> None:
        """Handle a lost connection. `maybe_stored`: the broker may or may not have stored the batch."""
        ...

    def on_broken(self, lane: Lane, error: Exception) -> None:
        """Handle a failure to build the lane's next batch."""
        ...

    def on_writable(self, lane: Lane) -> None:
        """Handle a connection that became available."""
        ...

    def on_unwritable(self, lane: Lane) -> None:
        """Handle a lost connection when none of the lane's batches are in flight."""
        ...

    def on_target_relocated(self, lane: Lane) -> None:
        """Handle fresh metadata of the destination topic: attach the lane again or pause it."""
        ...
