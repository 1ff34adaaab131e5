"""Receiver of produce results."""

from __future__ import annotations

from typing import Protocol

from mirror.lane.batch_merge import BatchMerger
from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.protocol.produce import ProducedPartition


class ProduceListener(Protocol):
    """Receiver of produce results. Called on the loop."""

    def on_answer(self, lane: Lane, outgoing: OutBatch, answer: ProducedPartition) -> None:
        """Handle the broker's response for one batch, success or error."""
        ...

    def on_lost(self, lane: Lane, outgoing: OutBatch, *, maybe_stored: bool = True) -> None:
        """Handle a lost connection. `maybe_stored`: the broker may have stored the batch."""
        ...

    def next_batch(self, lane: Lane, merger: BatchMerger | None = None) -> OutBatch | None:
        """Return the lane's next batch; None if no batch waits or the lane has failed.

        The batch may be merged from several.
        """
        ...

    def on_writable(self, lane: Lane) -> None:
        """Handle a connection that became available."""
        ...

    def on_unwritable(self, lane: Lane) -> None:
        """Handle a lost connection while no batch of the lane is in flight."""
        ...

    def on_target_relocated(self, lane: Lane) -> None:
        """Handle new metadata of the destination topic: attach or pause the lane."""
        ...
