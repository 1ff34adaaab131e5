"""Keys of channels, sizes of requests, and the receivers of responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mirror.client.cluster import Cluster
from mirror.client.handshake import AHEAD, BULK, LIVE
from mirror.errors import HeadraceError
from mirror.lane.batch_merge import BatchMerger
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import OutBatch
from mirror.protocol import fetch
from mirror.protocol.fetch import FetchedPartition
from mirror.protocol.produce import ProducedPartition


class ChannelKey(NamedTuple):
    """Key of a fetch channel of a broker.

    `copy`: number of the channel, above 0 if several lanes read the same partition, because a request can
    name a partition only once. `near`: requests carry the client's rack, so that the leader may redirect to a
    closer replica. `named`: the topics have no id, so requests contain their names (as in clusters before
    Kafka 2.8, and during an upgrade from them).
    """

    committed: bool
    live: bool
    near: bool = False
    copy: int = 0
    named: bool = False

    @property
    def versions(self) -> tuple[int, int]:
        """Lowest and highest version of Fetch for these topics."""
        return (fetch.VERSIONS[0], fetch.BY_ID_FROM - 1) if self.named else fetch.VERSIONS

    @property
    def role(self) -> str:
        """Role of the channel's connection."""
        return f"{LIVE if self.live else BULK} {self._rest}"

    def role_ahead(self, number: int) -> str:
        """Role of an additional connection."""
        return f"{AHEAD} {self._rest} {number}"

    @property
    def _rest(self) -> str:
        isolation, rack = "committed" if self.committed else "all", " near" if self.near else ""
        return f"{isolation}{rack}{' named' if self.named else ''} {self.copy}"


class FetchListener(Protocol):
    """Receiver of fetch results. Called on the event loop."""

    def on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, *, squeezed: bool) -> None:
        """Handle the records or the error of one partition in a response.

        To keep the records, retain the buffer `slab`. `squeezed`: other partitions took room in the response
        to which this partition was entitled.
        """
        ...

    def on_broken(self, lane: Lane, error: Exception) -> None:
        """Handle an error of the lane while its next fetch request was built."""
        ...

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        """Handle a response that is too large or has stalled."""
        ...

    def on_relocated(self, lane: Lane) -> None:
        """Handle new metadata of the lane's topic: attach the lane again, pause or restart it."""
        ...


class FetchSource(Protocol):
    """All fetch channels of one cluster, as one of them uses them."""

    cluster: Cluster
    listener: FetchListener
    rack: bytes

    def move(self, lane: Lane) -> None:
        """Fetch from the new leader, which is already known."""
        ...

    def relocate(self, lanes: Iterable[Lane]) -> None:
        """Look up the leaders of these lanes again, and continue to fetch from them."""
        ...


class ProduceListener(Protocol):
    """Receiver of produce results. Called on the event loop."""

    def on_answer(self, lane: Lane, outgoing: OutBatch, answer: ProducedPartition) -> None:
        """Handle the broker's response for one batch: success or error."""
        ...

    def on_lost(self, lane: Lane, outgoing: OutBatch, *, maybe_stored: bool = True) -> None:
        """Handle a lost connection. `maybe_stored`: the broker may have stored the batch."""
        ...

    def next_batch(self, lane: Lane, merger: BatchMerger | None = None) -> OutBatch | None:
        """Return the lane's next batch, possibly merged from several batches, or None."""
        ...

    def on_writable(self, lane: Lane) -> None:
        """Handle a connection that became available."""
        ...

    def on_unwritable(self, lane: Lane) -> None:
        """Handle a lost connection of a lane without batches in flight."""
        ...

    def on_target_relocated(self, lane: Lane) -> None:
        """Handle new metadata of the destination topic: attach or pause the lane."""
        ...


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """Request sizes and wait times of one tier (live or backlog). `connections`: maximum number of additional
    connections for reading ahead."""

    wait_ms: int
    max_bytes: int
    gather_ms: int
    connections: int = 0
    ahead_bytes: int = 0
    """Size in bytes of a read-ahead request."""
