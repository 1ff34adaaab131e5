"""Keys of fetch channels, sizes of requests, and the receiver of responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mirror.client.handshake import AHEAD, BULK, LIVE
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.fetch import FetchedPartition


class ChannelKey(NamedTuple):
    """Key of a fetch channel within a broker.

    `copy`: 0, or higher if several lanes read the same partition, because a fetch request can name a
    partition only once. `near`: requests carry this client's rack, so the leader may redirect to a closer
    replica.
    """

    committed: bool
    live: bool
    near: bool = False
    copy: int = 0

    @property
    def role(self) -> str:
        """Role of the connection."""
        return f"{LIVE if self.live else BULK} {self._rest}"

    def role_ahead(self, number: int) -> str:
        """Role of an additional connection."""
        return f"{AHEAD} {self._rest} {number}"

    @property
    def _rest(self) -> str:
        isolation, rack = "committed" if self.committed else "all", " near" if self.near else ""
        return f"{isolation}{rack} {self.copy}"


class FetchListener(Protocol):
    """Receiver of fetch results. Called on the loop."""

    def on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, *, squeezed: bool) -> None:
        """Handle the records or the error of one partition in a response.

        To keep the records, retain the buffer `slab`. `squeezed`: other partitions left less room in the
        response than this partition was allowed.
        """
        ...

    def on_broken(self, lane: Lane, error: Exception) -> None:
        """Handle an error while the lane's next fetch request was built."""
        ...

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        """Handle a response that could not be received.

        The response is too large or has stalled.
        """
        ...

    def on_relocated(self, lane: Lane) -> None:
        """Handle new metadata of the lane's topic.

        The lane is attached again, paused, or restarted.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """Request sizes and waiting times of one tier.

    `connections`: maximum number of additional connections for reading ahead.
    """

    wait_ms: int
    max_bytes: int
    gather_ms: int
    connections: int = 0
    ahead_bytes: int = 0
    """Size in bytes of a request on an additional connection."""
