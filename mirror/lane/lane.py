"""A lane, which copies one partition: its batches in progress and its position.

A lane has a lifecycle and four parts: `read`, `queue`, `ownership` and `progress`. `mirror.replication.lanes`
changes the parts: its module `delivery` the queue, the position and the progress, its module
`producer_identities` the ownership.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mirror.errors import DataLossDetected
from mirror.lane.flow import TokenBucket
from mirror.lane.ledger import Ledger
from mirror.lane.lifecycle import InHand, Intent, LaneState, Lifecycle
from mirror.lane.offset_map import OffsetMap
from mirror.lane.out_batch import LaneQueue
from mirror.lane.parts.channels import Reader, Writer
from mirror.lane.parts.observation import LaneObservation
from mirror.lane.parts.ownership import LaneOwnership
from mirror.lane.parts.pause import Pause
from mirror.lane.parts.read import LaneRead
from mirror.lane.progress import Contents, LaneProgress
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.datastreams.policy import OnLoss
from mirror.model.movement.exemptions import CatchUpGrace
from mirror.model.topics import TopicPartition
from mirror.protocol.fetch import FetchPosition

MOST_IN_FLIGHT: Final = 5
"""Maximum number of batches in flight. Brokers deduplicate only the last five batches of a producer."""
_DRAINS: Final = frozenset({None, Intent.FINISH, Intent.STOP, Intent.PAUSE_WHEN_DRAINED})


class Lane:
    """State of the copying of one partition. Has no I/O; `mirror.replication` does the I/O.

    Only `LaneRunner` writes `lifecycle`. Results of operations that began in an earlier
    `generation` are ignored. `key`: group and source partition; `target`: destination
    partition. `size_cap`: maximum batch size learned from rejections, if smaller than the topic's setting.
    """

    __slots__ = (
        "contents",
        "key",
        "lifecycle",
        "observed",
        "ownership",
        "progress",
        "queue",
        "read",
        "reader",
        "size_cap",
        "spec",
        "target",
        "writer",
    )

    def __init__(
        self,
        spec: LaneSpec,
        fetch_bytes: int = 0,
        buckets: tuple[TokenBucket, ...] = (),
        grace: CatchUpGrace | None = None,
    ) -> None:
        self.spec = spec
        self.key: LaneKey = spec.key
        self.target = TopicPartition(spec.destination_topic, spec.key.partition.partition)
        self.lifecycle = Lifecycle()
        self.read = LaneRead(fetch_bytes, buckets, grace)
        self.queue = LaneQueue()
        self.ownership = LaneOwnership()
        self.progress = LaneProgress(Ledger(0), OffsetMap())
        self.contents = Contents.UNREAD
        self.reader: Reader[Lane] | None = None
        self.writer: Writer[Lane] | None = None
        self.size_cap: int | None = None
        self.observed = LaneObservation()

    @property
    def checkpoint(self) -> int:
        """Source offset from which copying can resume without loss of records."""
        return self.progress.ledger.next

    @property
    def state(self) -> LaneState:
        """State in the lifecycle of the lane."""
        return self.lifecycle.state

    @property
    def intent(self) -> Intent | None:
        """Pending transition (stop, finish, pause, restart), which waits until no batch is in flight."""
        return self.lifecycle.intent

    @property
    def pause(self) -> Pause | None:
        """Pause of the lane with its reason, current or about to begin."""
        return self.lifecycle.pause

    @property
    def generation(self) -> int:
        """Generation of the lane. Every pause, restart and stop increments it."""
        return self.lifecycle.generation

    @property
    def is_writable(self) -> bool:
        """Return whether the lane is connected to the destination. It is fetched only while connected."""
        return self.writer is not None and self.writer.is_connected

    @property
    def may_drain(self) -> bool:
        """Return whether the lane still sends its queued batches."""
        return self.intent in _DRAINS

    @property
    def may_read(self) -> bool:
        """Return whether the lane is copying and has no pending intent."""
        return self.state is LaneState.COPYING and self.intent is None

    def may_send(self, most: int = MOST_IN_FLIGHT) -> bool:
        """Return whether the lane may send another batch. `most`: limit after the first acknowledgement."""
        queue, ownership = self.queue, self.ownership
        if ownership.identity is None or queue.trouble is not None:
            return False
        return queue.in_flight < (most if ownership.is_established and not queue.is_slow else 1)

    @property
    def is_loaded(self) -> bool:
        """Return whether the lane's stored progress has been read."""
        return self.contents is not Contents.UNREAD

    @property
    def is_broken(self) -> bool:
        """Return whether the lane's progress in memory is invalid."""
        return self.contents is Contents.BROKEN

    @property
    def is_fenced(self) -> bool:
        """Return whether another owner has fenced the lane. A fenced lane must not store progress."""
        return self.pause is not None and self.pause.lasting

    @property
    def in_hand(self) -> InHand:
        """State of the lane's unacknowledged batches, for which a pending transition may have to wait."""
        queue, ownership = self.queue, self.ownership
        return InHand(
            queue.in_flight > 0,
            queue.is_drained,
            queue.trouble is not None,
            ownership.is_in_transaction,
            self.is_fenced or self.is_broken or ownership.has_failed_transaction,
        )

    @property
    def halting_loss(self) -> DataLossDetected | None:
        """Error that halts the lane because the destination lost records, or None if it must not halt."""
        loss = self.progress.target_loss
        if not loss or self.spec.policy.on_loss is not OnLoss.HALT:
            return None
        advice = (
            "copy everything again with headrace datastream restart-from, or accept the gap with"
            " on_loss = continue"
        )
        return DataLossDetected(loss, advice=advice)

    def fetch_position(self, leader_epoch: int, share: int) -> FetchPosition:
        """Return offset and size (bytes) of the next fetch. `share`: bytes of a response for this lane."""
        read, source = self.read, self.progress.source
        return FetchPosition(leader_epoch, read.position, source.leader_epoch, read.size.of_share(share))

    def restore(self, stored: LaneProgress) -> None:
        """Set the state of the lane from stored progress."""
        read, caught_up = self.read, max(stored.caught_up, self.progress.caught_up)
        self.progress = replace(stored, caught_up=caught_up)
        if read.grace is not None and read.grace.exemption.end_ms <= caught_up:
            read.grace = None
        read.position = stored.next_offset

    def stored_progress(self, *, clean: bool = False) -> LaneProgress:
        """Return the progress of the lane to store. It shares the lane's ledger and map, and must be encoded
        before the lane changes."""
        pause = self.pause.to_json() if self.pause else None
        end = self.read.high_watermark if self.read.high_watermark >= 0 else self.progress.source_end
        return self.progress.to_store(clean, pause, self.spec, end)
