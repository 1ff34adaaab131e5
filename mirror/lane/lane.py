"""The copying of one partition: items in progress, their order, and the state that is certain.

    fetched -> `accept` -> queue -> `next_to_send` -> sent -> `acknowledge` -> ledger, map, checkpoint

Invariants: batches are sent in source order with consecutive sequences; at most five are in flight, one until
the destination has accepted the first of an identity (brokers accept any first sequence of an unknown
producer, so a second batch could overtake a failed first); the ledger covers acknowledged items without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mirror.lane.batch_router import BatchRouter
from mirror.lane.counters import LaneCounters
from mirror.lane.ledger import Ledger, OffsetClass, SkippedOffsets
from mirror.lane.lifecycle import LaneState, Pause
from mirror.lane.offset_map import OffsetMap
from mirror.lane.out_batch import FoundRecords, Item, OutBatch, RejectedBatch
from mirror.lane.progress import LaneProgress, Owner, SourceIdentity, Version
from mirror.lane.rules import RoutingRules
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.movement.append_times import AppendTimes
from mirror.model.movement.excuses import ExcusedLane
from mirror.protocol.batches.batch import ProducerStamp, next_sequence, stamp

MOST_IN_FLIGHT: Final = 5
"""Brokers remember the last five batches of a producer; more in flight could not be deduplicated."""


class Lane:
    """State of one partition. No I/O; driven by `mirror.replication`."""

    __slots__ = (
        "bytes_in_hand",
        "caught_up",
        "caught_up_ms",
        "counters",
        "delivered_ms",
        "dirty",
        "excused",
        "foreign_records",
        "gaps",
        "high_watermark",
        "identity",
        "in_flight",
        "is_clean",
        "is_established",
        "is_held",
        "ledger",
        "life",
        "log_start",
        "offset_map",
        "owned_from",
        "owner",
        "pause",
        "position",
        "queue",
        "restart_ms",
        "rules",
        "sent",
        "sequence",
        "source",
        "spec",
        "stable_offset",
        "state",
        "stored",
        "target_cluster",
        "target_id",
        "target_loss",
        "target_next",
        "times",
        "totals",
        "trouble",
        "waiting",
    )

    def __init__(self, spec: LaneSpec) -> None:
        self.spec = spec
        self.state = LaneState.STARTING
        self.rules = RoutingRules()
        self.ledger = Ledger(0)
        self.offset_map = OffsetMap()
        self.source = SourceIdentity()
        self.target_id, self.target_cluster = b"", ""
        self.restart_ms = spec.restart_ms
        self.is_clean = self.is_established = self.dirty = False
        self.life = 0
        self.gaps: list[str] = []
        self.target_loss = ""
        """Description of a loss at the destination, until it is decided to continue after it."""
        self.owner: Owner | None = None
        """Producer id and epoch that last wrote the progress in memory."""
        self.owned_from: int | None = None
        self.stored: Version | None = None
        """The stored record last loaded or written."""
        self.pause: Pause | None = None
        self.position = 0
        self.high_watermark = self.stable_offset = self.log_start = -1
        self.queue: list[Item] = []  # lists: an empty deque takes 760 bytes, and most lanes are idle
        self.sent: list[Item] = []
        self.in_flight = self.bytes_in_hand = self.sequence = 0
        self.identity: ProducerStamp | None = None
        self.is_held = False
        """True while unsent batches wait for the end or the beginning of a transaction."""
        self.trouble: RejectedBatch | None = None
        self.times = AppendTimes()
        self.delivered_ms = self.caught_up_ms = -1
        """Append time of the newest record at the destination, and wall time at which the lane had last read
        every readable record of the source."""
        self.caught_up = 0
        """See `LaneProgress`, as for `owned_from`."""
        self.excused: ExcusedLane | None = None
        """Records excluded from the latency, until the lane has caught up."""
        self.waiting = (-1, -1)
        """Source offset and timestamp of the first batch that was dropped, to be fetched again."""
        self.foreign_records = 0
        self.target_next: int | None = None
        """Destination offset of the next batch if no other producer writes there; None if unknown."""
        self.counters = LaneCounters()
        self.totals: LaneCounters | None = None

    @property
    def key(self) -> LaneKey:
        """Group and source partition."""
        return self.spec.key

    @property
    def checkpoint(self) -> int:
        """Source offset that is safe to resume from."""
        return self.ledger.next

    @property
    def is_drained(self) -> bool:
        """True if the lane has no items."""
        return not self.queue and not self.sent

    @property
    def readable_end(self) -> int:
        """End of the readable records in the last response: before an open transaction, if read_committed."""
        return self.stable_offset if self.rules.read_committed else self.high_watermark

    def note_end(self, high_watermark: int, stable_offset: int, now_ms: int) -> None:
        """Update the end offsets of the source from a response."""
        if self.high_watermark >= 0 and self.position >= self.readable_end:
            self.caught_up_ms = now_ms  # no record beyond our position was known until now
            if self.excused is not None and self.excused.end < 0:
                self.excused.end = self.position
                self._end_excuse()
        self.high_watermark, self.stable_offset = high_watermark, stable_offset

    def excuse(self, patience_ms: int, now_ms: int) -> None:
        """Exclude the lane's backlog at its start from the latency, for at most that time."""
        if self.spec.excuse.name:
            self.excused = ExcusedLane(self.spec.excuse.as_of(now_ms), patience_ms)

    def _end_excuse(self) -> None:
        """End the exclusion once every record that existed when the lane caught up is delivered."""
        if (excused := self.excused) is not None and 0 <= excused.end <= self.checkpoint:
            self.excused, self.caught_up = None, excused.excuse.name

    def restore(self, progress: LaneProgress) -> None:
        """Resume from stored progress."""
        self.ledger = progress.ledger
        self.offset_map = progress.offset_map
        self.source = progress.source
        self.target_id, self.target_cluster = progress.target_id, progress.target_cluster
        self.restart_ms = max(progress.restart_ms, self.spec.restart_ms)
        self.is_clean = progress.clean
        self.life = progress.life
        self.gaps = progress.gaps
        self.target_loss = progress.target_loss
        self.target_next = progress.target_next
        self.owner, self.owned_from = progress.owner, progress.owned_from
        self.stored = progress.version
        self.caught_up = max(progress.caught_up, self.caught_up)
        if self.excused is not None and self.excused.excuse.name <= self.caught_up:
            self.excused = None
        self.position = progress.next_offset
        self.dirty = False

    def begin_elsewhere(self) -> None:
        """Reset all but the producer id's owner: the stored progress is of another destination."""
        self.ledger, self.offset_map = Ledger(0), OffsetMap()
        self.source = SourceIdentity()
        self.target_id, self.target_next, self.target_cluster = b"", None, ""
        self.owned_from = None
        self.life, self.gaps, self.target_loss = 0, [], ""
        self.position = -1

    def begin(self, position: int) -> None:
        """Start a ledger and a map at this source offset; earlier offsets are not covered."""
        self.ledger = Ledger(position)
        self.offset_map = OffsetMap()
        self.position = position
        self.dirty = True

    def progress(self, *, clean: bool = False) -> LaneProgress:
        """Return the progress to store. Shares ledger and map: encode it before the lane changes."""
        return LaneProgress(
            self.ledger,
            self.offset_map,
            self.source,
            self.target_id,
            self.target_next,
            clean,
            self.life,
            self.pause.to_json() if self.pause else None,
            self.gaps,
            self.target_loss,
            self.spec.destination_topic,
            self.target_cluster,
            self.restart_ms,
            self.owner,
            caught_up=self.caught_up,
            owned_from=self.owned_from,
        )

    def accept(self, router: BatchRouter, now: float, began_at: float | None = None) -> None:
        """Take the items of a router that started at our position. `began_at`: start of their reception."""
        self.position = router.position
        if 0 <= router.leader_epoch != self.source.leader_epoch:
            self.source = replace(self.source, leader_epoch=router.leader_epoch)
        for item in router.items:
            if isinstance(item, OutBatch):
                item.fetched_at = now
                item.began_at = now if began_at is None else began_at
                item.appended = self.times.span(item.first_offset, item.next_offset - 1)
                self.bytes_in_hand += len(item.batch)
            self.queue.append(item)
        self._pass_over()

    def lose(self, upto: int, sentence: str) -> None:
        """Skip lost source offsets up to `upto`; a new leader epoch may have begun there."""
        self.queue.append(SkippedOffsets(OffsetClass.LOST, self.position, upto))
        self.position = upto
        self.source = replace(self.source, leader_epoch=-1)
        self.gaps.append(sentence)
        self._pass_over()

    @property
    def may_send(self) -> bool:
        """True if another batch may be in flight."""
        if self.identity is None or self.trouble is not None:
            return False
        return self.in_flight < (MOST_IN_FLIGHT if self.is_established else 1)

    def begin_life(self, position: int, sentence: str, *, same_log: bool, leader_epoch: int = -1) -> None:
        """Continue at a position that may be behind, as the source is another log or has diverged.

        Starts a new ledger; keeps the map before `position` if it is the `same_log`. `leader_epoch`: of
        the record before `position`, -1 if unknown.
        """
        self.drop()
        self.life += 1
        self.gaps.append(sentence)
        self.ledger = Ledger(position)
        if not self.source.topic_id:  # a recreated topic looks the same, but its leader epochs start over
            self.rules = self.rules.without_refusals()
        self.waiting, self.times = (-1, -1), AppendTimes()
        if same_log:
            self.offset_map.rewind(position)
        else:
            self.offset_map = OffsetMap()
        before = self.source if same_log else SourceIdentity()
        self.source = SourceIdentity(before.topic_id, leader_epoch, before.cluster_id)
        self.position = position
        self.dirty = True

    def pass_marker(self) -> None:
        """Account for the marker of our own transaction after the mirrored records."""
        if self.target_next is not None:
            self.target_next += 1

    @property
    def target_end(self) -> int:
        """Offset that the end of the destination log must have reached, unless records were lost."""
        return max(self.offset_map.target_end or 0, self.target_next or 0)

    def lose_target(self, first: int) -> None:
        """Record that the destination lost its records from that offset on."""
        lost = f"{first} to {self.target_end - 1}"
        self.target_loss = f"the destination lost offsets {lost} of {self.key.partition}"
        self.gaps.append(self.target_loss)
        self.offset_map.forget_targets(first)

    def find(self, found: Sequence[FoundRecords | SkippedOffsets], target_next: int) -> None:
        """Account for records found at the destination, in source order from the checkpoint on."""
        for stretch in found:
            if isinstance(stretch, SkippedOffsets):
                self.ledger.pass_over(stretch)
            else:
                source, target, count = stretch
                self.ledger.enter_batch(((source, count),), ())
                self.offset_map.add(source, target, count)
        self.position = self.ledger.next
        self.target_next, self.owned_from = target_next, None
        self.dirty = True

    @property
    def is_settled(self) -> bool:
        """True if everything that was ever sent is acknowledged."""
        if self.in_flight or self.trouble is not None:
            return False
        return not any(
            isinstance(item, OutBatch) and not item.acknowledged and item.is_stamped
            for item in [*self.sent, *self.queue]
        )

    def next_to_send(self) -> OutBatch | None:
        """Return the next batch, stamped with our identity, or None. A resent batch is unchanged."""
        if self.identity is None or not self.may_send:
            return None
        while self.queue:
            item = self.queue[0]
            if self.is_held and isinstance(item, OutBatch) and not item.is_stamped:
                return None
            self.sent.append(self.queue.pop(0))
            if isinstance(item, OutBatch) and not item.acknowledged:
                self._send(item, self.identity)
                return item
        return None

    def _send(self, outgoing: OutBatch, identity: ProducerStamp) -> None:
        if not outgoing.is_stamped:
            outgoing.sequence = self.sequence
            self.sequence = next_sequence(self.sequence, outgoing.count)
            stamp(outgoing.batch, outgoing.attributes, identity, outgoing.sequence)
            outgoing.is_stamped = True
        outgoing.outstanding = True
        self.in_flight += 1

    def acknowledge(self, outgoing: OutBatch, target: int, now_ms: int, now: float) -> None:
        """Record that the destination has stored the batch at `target`."""
        outgoing.outstanding = False
        outgoing.acknowledged = True
        outgoing.target = target
        self.in_flight -= 1
        self.is_established = True
        self.counters.delivered(outgoing, now_ms, now, self.times, self.excused)
        newest_ms = self.times.appended_ms(outgoing.max_timestamp, outgoing.appended)
        self.delivered_ms = max(self.delivered_ms, newest_ms)
        self.bytes_in_hand -= len(outgoing.batch)
        outgoing.free()
        self._settle()
        self._end_excuse()

    def unanswered(self, outgoing: OutBatch, *, maybe_stored: bool) -> None:
        """Record a rejection or a lost response. Once `maybe_stored`, a batch stays so, even if refused."""
        outgoing.outstanding = False
        outgoing.maybe_stored = outgoing.maybe_stored or maybe_stored
        self.in_flight -= 1

    def requeue(self) -> None:
        """Move unacknowledged batches back to the queue, in order. Requires that none is outstanding."""
        assert self.in_flight == 0, "a batch could overtake one in flight"
        self.queue, self.sent, self.trouble = self.sent + self.queue, [], None
        self._pass_over()

    def drop(self) -> None:
        """Drop all items and return to the checkpoint. Requires that none is outstanding.

        Sequences continue at the first dropped batch; if one may be stored, a new identity is required.
        """
        assert self.in_flight == 0, "the destination may still read from these buffers"
        self._note_waiting()
        for item in reversed(self.sent + self.queue):
            if isinstance(item, OutBatch) and not item.acknowledged:
                if item.is_stamped:
                    self.sequence = item.sequence
                item.free()
        self.queue, self.sent, self.bytes_in_hand = [], [], 0
        if self.position >= 0:  # a lane without a position keeps none
            self.position = self.ledger.next
        self.trouble = None

    def shed(self) -> None:
        """Drop unsent items; they are fetched again later."""
        unsent = [item for item in self.queue if isinstance(item, OutBatch) and not item.is_stamped]
        if unsent:
            self.waiting = unsent[0].first_offset, unsent[0].first_timestamp
            while True:
                item = self.queue.pop()
                if isinstance(item, OutBatch):
                    self.bytes_in_hand -= len(item.batch)
                    self.position = item.first_offset
                    item.free()
                    if item is unsent[0]:
                        return

    def _note_waiting(self) -> None:
        for item in (*self.sent, *self.queue):
            if isinstance(item, OutBatch) and not item.acknowledged:
                self.waiting = item.first_offset, item.first_timestamp
                return

    def identify(self, identity: ProducerStamp) -> None:
        """Set a new identity; sequences start at 0, and queued batches are stamped again."""
        self.identity = identity
        owner = identity.producer_id, identity.epoch
        if owner != self.owner:
            self.owner, self.owned_from = owner, None
        self.sequence = 0
        self.is_established = False
        for item in self.queue:
            if isinstance(item, OutBatch):
                item.is_stamped = False

    def take_counters(self) -> LaneCounters:
        """Return the sums since the last call."""
        taken = self.counters
        if taken.batches or taken.fetched_parts:
            self.counters = LaneCounters()
            self.totals = self.totals or LaneCounters()
            self.totals.add(taken)
        return taken

    def _pass_over(self) -> None:
        if not self.sent:
            while self.queue and (isinstance(self.queue[0], SkippedOffsets) or self.queue[0].acknowledged):
                self.sent.append(self.queue.pop(0))
            if self.sent:
                self._settle()

    def _settle(self) -> None:
        while self.sent:
            item = self.sent[0]
            if isinstance(item, OutBatch):
                if not item.acknowledged:
                    return
                self._enter(item)
            else:
                self.ledger.pass_over(item)
            self.sent.pop(0)
            self.dirty = True
        self._pass_over()

    def _enter(self, outgoing: OutBatch) -> None:
        self.ledger.enter_batch(outgoing.runs, outgoing.passed or ())
        target = outgoing.target
        if target < self.target_end:
            self.lose_target(target)
        elif self.target_next is not None and target > self.target_next:
            self.foreign_records += target - self.target_next
        self.target_next = target + outgoing.count
        for first, count in outgoing.runs:
            self.offset_map.add(first, target, count)
            target += count
