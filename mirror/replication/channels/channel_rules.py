"""Interfaces between channels and lanes, keys of channels, and sizes of requests."""

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
    """Key that identifies one of the fetch channels to a broker.

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
        """Lowest and highest version of Fetch that fits the topics of the channel."""
        return fetch.NAMED_VERSIONS if self.named else fetch.VERSIONS

    @property
    def role(self) -> str:
        """Role of the channel's own connection."""
        return f"{LIVE if self.live else BULK} {self._rest}"

    def role_ahead(self, number: int) -> str:
        """Role of the channel's read-ahead connections."""
        return f"{AHEAD} {self._rest} {number}"

    @property
    def _rest(self) -> str:
        isolation, rack = "committed" if self.committed else "all", " near" if self.near else ""
        return f"{isolation}{rack}{' named' if self.named else ''} {self.copy}"


class FetchListener(Protocol):
    """Interface for handling the results of fetch requests. Called on the event loop."""

    def on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, *, squeezed: bool) -> None:
        """Handle the records or the error of one partition in a Fetch response.

        To keep the records, retain the buffer `slab`. `squeezed`: other partitions took room in the response
        to which this partition was entitled.
        """
        ...

    def on_broken(self, lane: Lane, error: Exception) -> None:
        """Handle an exception in a lane's code while its next Fetch request was built."""
        ...

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        """Handle a Fetch response that is too large or has stalled."""
        ...

    def on_relocated(self, lane: Lane) -> None:
        """Handle refreshed metadata of the lane's source topic: attach, pause or restart the lane."""
        ...


class FetchSource(Protocol):
    """Functions of the `Fetcher` of a cluster that its channels call."""

    cluster: Cluster
    listener: FetchListener
    rack: bytes

    def move(self, lane: Lane) -> None:
        """Move the lane to its partition's new leader, which the cached metadata contains."""
        ...

    def relocate(self, lanes: Iterable[Lane]) -> None:
        """Look up the partition leaders of the given lanes again, and continue to fetch from them."""
        ...


class ProduceListener(Protocol):
    """Interface for handling the results of produce requests. Called on the event loop."""

    def on_answer(self, lane: Lane, outgoing: OutBatch, answer: ProducedPartition) -> None:
        """Handle the broker's response for one batch: success or error."""
        ...

    def on_lost(self, lane: Lane, outgoing: OutBatch, *, maybe_stored: bool = True) -> None:
        """Handle a connection lost with a batch in flight. `maybe_stored`: the broker may have stored it."""
        ...

    def next_batch(self, lane: Lane, merger: BatchMerger | None = None) -> OutBatch | None:
        """Return the lane's next batch, possibly merged from several batches, or None."""
        ...

    def on_writable(self, lane: Lane) -> None:
        """Start to send the lane's batches on a connection that became available."""
        ...

    def on_unwritable(self, lane: Lane) -> None:
        """Handle the loss of the connection of a lane that has no batch in flight."""
        ...

    def on_target_relocated(self, lane: Lane) -> None:
        """Handle refreshed metadata of the destination topic: attach or pause the lane."""
        ...


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """Request sizes and wait times of live lanes, or of lanes with a backlog. `connections`: maximum number
    of read-ahead connections."""

    wait_ms: int
    max_bytes: int
    gather_ms: int
    connections: int = 0
    ahead_bytes: int = 0
    """Size in bytes of a read-ahead request."""
