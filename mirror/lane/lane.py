"""Copies one partition: its batches in progress, their order, and its progress.

    fetched -> `accept` -> queue -> `next_to_send` -> sent -> `acknowledge` -> `settle` -> ledger, map

A lane has four parts, each with its own state: `read`, `queue`, `ownership` and `progress`, and a lifecycle.
`Lane` has methods for the steps that concern several parts.

Invariants: Batches are sent in source order with consecutive sequences. At most five batches are in flight,
apart from incomplete requests. After a new producer id or epoch, only one batch is in flight until the
destination has accepted it: brokers accept any first sequence of an unknown producer, so a second batch could
overtake a failed first. The ledger covers acknowledged items without gaps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mirror.errors import DataLossDetected
from mirror.lane.batch_router import BatchRouter
from mirror.lane.flow import TokenBucket
from mirror.lane.ledger import Ledger, OffsetClass, SkippedOffsets
from mirror.lane.lifecycle import InHand, Intent, LaneState, Lifecycle, Pause
from mirror.lane.offset_map import OffsetMap
from mirror.lane.out_batch import LaneQueue, OutBatch
from mirror.lane.parts.channels import Reader, Writer
from mirror.lane.parts.observation import LaneObservation
from mirror.lane.parts.ownership import LaneOwnership
from mirror.lane.parts.read import LaneRead
from mirror.lane.progress import Contents, LaneProgress
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.datastreams.policy import OnLoss
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import ProducerStamp, next_sequence, stamp
from mirror.protocol.fetch import FetchPosition

MOST_IN_FLIGHT: Final = 5
"""Maximum number of batches in flight. Brokers deduplicate only the last five batches of a producer."""
_DRAINS: Final = frozenset({None, Intent.FINISH, Intent.STOP, Intent.PAUSE_WHEN_DRAINED})


class Lane:
    """State of one partition. No I/O; driven by `mirror.replication`.

    Only `LaneRunner` writes `lifecycle`. `turn` of the lifecycle is the generation of the lane: results of
    steps that began in an earlier generation are ignored. `target`: destination partition. `size_cap`: batch
    size limit learned from rejections despite the topic's settings.
    """

    __slots__ = (
        "contents",
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

    def __init__(self, spec: LaneSpec, fetch_bytes: int = 0, buckets: tuple[TokenBucket, ...] = ()) -> None:
        self.spec = spec
        self.target = TopicPartition(spec.destination_topic, spec.key.partition.partition)
        self.lifecycle = Lifecycle()
        self.read = LaneRead(fetch_bytes, buckets)
        self.queue = LaneQueue()
        self.ownership = LaneOwnership()
        self.progress = LaneProgress(Ledger(0), OffsetMap())
        self.contents = Contents.UNREAD
        self.reader: Reader[Lane] | None = None
        self.writer: Writer[Lane] | None = None
        self.size_cap: int | None = None
        self.observed = LaneObservation()

    @property
    def key(self) -> LaneKey:
        """Group and source partition."""
        return self.spec.key

    @property
    def checkpoint(self) -> int:
        """Source offset from which copying can resume without loss."""
        return self.progress.ledger.next

    @property
    def state(self) -> LaneState:
        """State of the lifecycle."""
        return self.lifecycle.state

    @property
    def intent(self) -> Intent | None:
        """Pending transition of the lifecycle."""
        return self.lifecycle.intent

    @property
    def pause(self) -> Pause | None:
        """Current or upcoming pause."""
        return self.lifecycle.pause

    @property
    def turn(self) -> int:
        """Generation of the lane."""
        return self.lifecycle.turn

    @property
    def may_drain(self) -> bool:
        """Return whether the lane still sends its queued batches."""
        return self.intent in _DRAINS

    @property
    def may_read(self) -> bool:
        """Return whether the lane is copying and has no pending intent."""
        return self.state is LaneState.COPYING and self.intent is None

    def may_send(self, most: int = MOST_IN_FLIGHT) -> bool:
        """Return whether another batch may be sent. `most`: limit once the first batch is accepted."""
        queue, ownership = self.queue, self.ownership
        if ownership.identity is None or queue.trouble is not None:
            return False
        return queue.in_flight < (most if ownership.is_established else 1)

    @property
    def is_loaded(self) -> bool:
        """Return whether stored progress has been read."""
        return self.contents is not Contents.UNREAD

    @property
    def is_broken(self) -> bool:
        """Return whether the progress in memory is invalid."""
        return self.contents is Contents.BROKEN

    @property
    def is_fenced(self) -> bool:
        """Return whether another owner has taken the lane permanently. Progress must not be stored then."""
        return self.pause is not None and self.pause.lasting

    @property
    def in_hand(self) -> InHand:
        """State of the lane's batches, which determines whether the intent can be carried out."""
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
        """Error for records lost by the destination; None if the policy is to continue."""
        loss = self.progress.target_loss
        if not loss or self.spec.policy.on_loss is not OnLoss.HALT:
            return None
        advice = (
            "copy everything again with headrace datastream restart-from, or accept the gap with"
            " on_loss = continue"
        )
        return DataLossDetected(loss, advice=advice)

    def fetch_position(self, leader_epoch: int, share: int) -> FetchPosition:
        """Return the position and size of the next fetch. `share`: bytes of a response for this lane."""
        read, source = self.read, self.progress.source
        return FetchPosition(leader_epoch, read.position, source.leader_epoch, read.size.of_share(share))

    def note_end(self, high_watermark: int, stable_offset: int, now_ms: int) -> None:
        """Update the end offsets of the source log from a response."""
        read = self.read
        if read.high_watermark >= 0 and read.position >= read.readable_end:
            read.caught_up_ms = now_ms  # no record beyond our position was known until now
            if read.excused is not None and read.excused.end < 0:
                read.excused.end = read.position
        read.high_watermark, read.stable_offset = high_watermark, stable_offset

    def restore(self, stored: LaneProgress) -> None:
        """Resume from stored progress."""
        read, caught_up = self.read, max(stored.caught_up, self.progress.caught_up)
        self.progress = replace(stored, caught_up=caught_up)
        if read.excused is not None and read.excused.excuse.name <= caught_up:
            read.excused = None
        read.position = stored.next_offset

    def stored_progress(self, *, clean: bool = False) -> LaneProgress:
        """Return the progress to store. Encode the progress before the lane changes: it contains the lane's
        ledger and map."""
        pause = self.pause.to_json() if self.pause else None
        end = self.read.high_watermark if self.read.high_watermark >= 0 else self.progress.source_end
        return self.progress.to_store(clean, pause, self.spec, end)

    def begin(self, position: int) -> None:
        """Start a new ledger and offset map at this source offset. Earlier offsets are not accounted for."""
        self.progress.ledger = Ledger(position)
        self.progress.offset_map = OffsetMap()
        self.read.position = position

    def accept(self, router: BatchRouter, now: float, began_at: float | None = None) -> None:
        """Accept the items of a router that started at `read.position`, received from `began_at` on."""
        read, queue, source = self.read, self.queue, self.progress.source
        read.position = router.position
        if 0 <= router.leader_epoch != source.leader_epoch:
            self.progress.source = replace(source, leader_epoch=router.leader_epoch)
        for item in router.items:
            if isinstance(item, OutBatch):
                item.fetched_at = now
                item.began_at = now if began_at is None else began_at
                item.appended = read.times.span(item.first_offset, item.next_offset - 1)
                queue.bytes_in_hand += len(item.batch)
            queue.unsent.append(item)

    def lose(self, upto: int) -> None:
        """Skip lost source offsets before `upto`; a new leader epoch may have begun at `upto`."""
        self.queue.unsent.append(SkippedOffsets(OffsetClass.LOST, self.read.position, upto))
        self.read.position = upto
        self.progress.source = replace(self.progress.source, leader_epoch=-1)

    def next_to_send(self, most: int = MOST_IN_FLIGHT) -> OutBatch | None:
        """Return the next batch with the lane's producer identity, or None. A resent batch is unchanged."""
        queue, identity = self.queue, self.ownership.identity
        if identity is None or not self.may_send(most):
            return None
        while queue.unsent:
            item = queue.unsent[0]
            if self.ownership.is_held and isinstance(item, OutBatch) and not item.is_stamped:
                return None
            queue.sent.append(queue.unsent.pop(0))
            if isinstance(item, OutBatch) and not item.acknowledged:
                self._send(item, identity)
                return item
        return None

    def _send(self, outgoing: OutBatch, identity: ProducerStamp) -> None:
        ownership = self.ownership
        if not outgoing.is_stamped:
            outgoing.sequence = ownership.sequence
            ownership.sequence = next_sequence(ownership.sequence, outgoing.count)
            stamp(outgoing.batch, outgoing.attributes, identity, outgoing.sequence)
            outgoing.is_stamped = True
        outgoing.outstanding = True
        self.queue.in_flight += 1

    def acknowledge(self, outgoing: OutBatch, target: int, now_ms: int, now: float) -> None:
        """Record that the destination has stored the batch at `target`."""
        read, queue = self.read, self.queue
        outgoing.outstanding = False
        outgoing.acknowledged = True
        outgoing.target = target
        queue.in_flight -= 1
        self.ownership.accepted = self.ownership.identity
        observed = self.observed
        observed.counters.delivered(outgoing, now_ms, now, read.times, read.excused)
        newest_ms = read.times.appended_ms(outgoing.max_timestamp, outgoing.appended)
        observed.delivered_ms = max(observed.delivered_ms, newest_ms)
        queue.bytes_in_hand -= len(outgoing.batch)
        outgoing.free()

    def settle(self) -> bool:
        """Record the first items of the queue that need no response; see `LaneQueue.settle`.

        Return whether there are any. Once the backlog at the start is delivered, every record counts in the
        latency again.
        """
        settled, progress = self.queue.settle(), self.progress
        for item in settled:
            if isinstance(item, OutBatch):
                self.observed.foreign_records += progress.enter(item, self.key.partition)
            else:
                progress.ledger.pass_over(item)
        if (excused := self.read.excused) is not None and 0 <= excused.end <= self.checkpoint:
            self.read.excused, progress.caught_up = None, excused.excuse.name
        return bool(settled)

    def drop(self) -> None:
        """Drop all items and return to the checkpoint. Requires that no batch is in flight. Sequences
        continue at the first dropped batch. If that batch may be stored, take a new producer identity."""
        assert self.queue.in_flight == 0, "the destination may still read from these buffers"
        queue = self.queue
        self.read.note_waiting(queue.first)
        for item in reversed(queue.sent + queue.unsent):
            if isinstance(item, OutBatch) and not item.acknowledged:
                if item.is_stamped:
                    self.ownership.sequence = item.sequence
                item.free()
        queue.empty()
        if self.read.position >= 0:  # a lane without a position keeps none
            self.read.position = self.checkpoint

    def shed(self) -> None:
        """Drop unsent items; they are fetched again later."""
        first = self.queue.shed()
        if first is not None:
            self.read.note_waiting(first)
            self.read.position = first.first_offset

    def free_all(self) -> None:
        """Drop all batches of a lane that failed unexpectedly; it will be loaded again. Buffers of requests
        in flight are released with their responses."""
        self.read.note_waiting(self.queue.first)
        items = self.queue.empty()
        self.queue.in_flight = 0
        for item in items:
            if isinstance(item, OutBatch):
                item.forget()

    def identify(self, identity: ProducerStamp) -> None:
        """Set a new producer identity. Sequences start at 0, and queued batches get the new identity."""
        ownership, progress = self.ownership, self.progress
        ownership.identity = identity
        owner = identity.producer_id, identity.epoch
        if owner != progress.owner:
            progress.owner, progress.owned_from = owner, None
        ownership.sequence = 0
        for item in self.queue.unsent:
            if isinstance(item, OutBatch):
                item.is_stamped = False

    def disown(self) -> None:
        """Require fencing before the next batch, because unknown batches may be in flight."""
        self.ownership.lay_down(self.progress.version)
        self.ownership.needs_fence = True
