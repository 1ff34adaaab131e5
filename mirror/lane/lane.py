"""The copying of one partition: what is in hand, in which order, and what is certain.

    fetched -> `accept` -> queue -> `next_to_send` -> sent -> `acknowledge` -> ledger, map, checkpoint

Invariants: batches are sent in source order with consecutive sequences; at most five are unanswered,
and only one until the destination has accepted the first of an identity (a broker that does not know a
producer accepts any first sequence, so a second batch could overtake a first that failed); the ledger
advances over what is acknowledged without a gap, and never back.
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
from mirror.lane.out_batch import FoundRecords, Item, OutBatch, Trouble
from mirror.lane.progress import LaneProgress, Owner, SourceIdentity, Version
from mirror.lane.rules import RoutingRules
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.movement.excuses import ExcusedLane
from mirror.protocol.batches.batch import ProducerStamp, next_sequence, stamp

MOST_IN_FLIGHT: Final = 5
"""Brokers remember the last five batches of a producer; more in flight could not be deduplicated."""


class Lane:
    """Bookkeeping of one partition. Knows no sockets; who drives it is `copying.engine`."""

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
        """What the destination has lost, as long as it is not decided that the lane continues behind it."""
        self.owner: Owner | None = None
        """The producer id and epoch that the progress in memory was made under last."""
        self.owned_from: int | None = None
        """As of `LaneProgress`."""
        self.stored: Version | None = None
        """The stored record that we have loaded or written last."""
        self.pause: Pause | None = None
        self.position = 0
        self.high_watermark = self.stable_offset = self.log_start = -1
        self.queue: list[Item] = []  # lists, because an empty deque takes 760 bytes, and most lanes are idle
        self.sent: list[Item] = []
        self.in_flight = self.bytes_in_hand = self.sequence = 0
        self.identity: ProducerStamp | None = None
        self.is_held = False
        """Batches that have not been sent yet wait: a transaction is about to end, or to begin."""
        self.trouble: Trouble | None = None
        self.delivered_ms = -1
        """Timestamp of the newest record at the destination."""
        self.caught_up_ms = -1
        """When everything that could be read at the source was read last, in wall time."""
        self.caught_up = 0
        """As of `LaneProgress`."""
        self.excused: ExcusedLane | None = None
        """Records that do not count, until the lane has caught up."""
        self.waiting = (-1, -1)
        """Source offset and timestamp of the first batch in hand that was let go of, to be fetched again."""
        self.foreign_records = 0
        self.target_next: int | None = None
        """Where the next batch will lie if nobody else writes there; None when unknown."""
        self.counters = LaneCounters()
        self.totals: LaneCounters | None = None

    @property
    def key(self) -> LaneKey:
        """Group and source partition."""
        return self.spec.key

    @property
    def checkpoint(self) -> int:
        """The source offset that is safe to resume from."""
        return self.ledger.next

    @property
    def is_drained(self) -> bool:
        """Whether nothing is in hand."""
        return not self.queue and not self.sent

    @property
    def readable_end(self) -> int:
        """Where the records end that can be read, by the last answer: an open transaction hides the rest."""
        return self.stable_offset if self.rules.read_committed else self.high_watermark

    def note_end(self, high_watermark: int, stable_offset: int, now_ms: int) -> None:
        """Where the source ends, as it said now."""
        if self.high_watermark >= 0 and self.position >= self.readable_end:
            self.caught_up_ms = now_ms  # nothing had been said to be there until now
            if self.excused is not None and self.excused.end < 0:
                self.excused.end = self.position
                self._end_excuse()
        self.high_watermark, self.stable_offset = high_watermark, stable_offset

    def excuse(self, patience_ms: int, now_ms: int) -> None:
        """Count nothing of what the lane finds when it begins now, for at most that time."""
        if self.spec.excuse.name:
            self.excused = ExcusedLane(self.spec.excuse.as_of(now_ms), patience_ms)

    def _end_excuse(self) -> None:
        """The lane has caught up where all is delivered that was there."""
        if (excused := self.excused) is not None and 0 <= excused.end <= self.checkpoint:
            self.excused, self.caught_up = None, excused.excuse.name

    def restore(self, progress: LaneProgress) -> None:
        """Go on from stored progress."""
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
        """What is stored is about another destination: nothing of it counts here but who owned the lane's
        producer id. The lane has no position, as if it had never been copied."""
        self.ledger, self.offset_map = Ledger(0), OffsetMap()
        self.source = SourceIdentity()
        self.target_id, self.target_next, self.target_cluster = b"", None, ""
        self.owned_from = None
        self.life, self.gaps, self.target_loss = 0, [], ""
        self.position = -1

    def begin(self, position: int) -> None:
        """Start a ledger and a map at this source offset; what came before is not ours."""
        self.ledger = Ledger(position)
        self.offset_map = OffsetMap()
        self.position = position
        self.dirty = True

    def progress(self, *, clean: bool = False) -> LaneProgress:
        """What to store. Shares the ledger and the map: encode it before the lane goes on."""
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
        """Take over what a router found from our position on. `began_at`: when it began to arrive."""
        self.position = router.position
        if 0 <= router.leader_epoch != self.source.leader_epoch:
            self.source = replace(self.source, leader_epoch=router.leader_epoch)
        for item in router.items:
            if isinstance(item, OutBatch):
                item.fetched_at = now
                item.began_at = now if began_at is None else began_at
                self.bytes_in_hand += len(item.batch)
            self.queue.append(item)
        self._pass_over()

    def lose(self, upto: int, sentence: str) -> None:
        """Source offsets from our position to `upto` are gone; continue behind them, where another leader
        epoch may have begun."""
        self.queue.append(SkippedOffsets(OffsetClass.LOST, self.position, upto))
        self.position = upto
        self.source = replace(self.source, leader_epoch=-1)
        self.gaps.append(sentence)
        self._pass_over()

    @property
    def may_send(self) -> bool:
        """Whether one more batch may be under way."""
        if self.identity is None or self.trouble is not None:
            return False
        return self.in_flight < (MOST_IN_FLIGHT if self.is_established else 1)

    def begin_life(self, position: int, sentence: str, *, same_log: bool, leader_epoch: int = -1) -> None:
        """Go on at a position that need not lie ahead: the source is another log, or parts from what it
        was. A new ledger begins; the map keeps what lies before `position` when it is the `same_log`.
        `leader_epoch`: of the record before `position`, -1 where unknown."""
        self.drop()
        self.life += 1
        self.gaps.append(sentence)
        self.ledger = Ledger(position)
        if not self.source.topic_id:  # leader epochs begin again in a topic that is not told from this one
            self.rules = self.rules.without_refusals()
        self.waiting = (-1, -1)
        if same_log:
            self.offset_map.rewind(position)
        else:
            self.offset_map = OffsetMap()
        before = self.source if same_log else SourceIdentity()
        self.source = SourceIdentity(before.topic_id, leader_epoch, before.cluster_id)
        self.position = position
        self.dirty = True

    def pass_marker(self) -> None:
        """The marker of a transaction of ours lies behind what was mirrored."""
        if self.target_next is not None:
            self.target_next += 1

    @property
    def target_end(self) -> int:
        """The destination's log ends there or behind it, unless it has lost something."""
        return max(self.offset_map.target_end or 0, self.target_next or 0)

    def lose_target(self, first: int) -> None:
        """The destination has lost what it had from that offset on."""
        lost = f"{first} to {self.target_end - 1}"
        self.target_loss = f"the destination has lost its offsets {lost} of {self.key.partition}"
        self.gaps.append(self.target_loss)
        self.offset_map.forget_targets(first)

    def find(self, found: Sequence[FoundRecords | SkippedOffsets], target_next: int) -> None:
        """The destination holds these already, in source order from our checkpoint on."""
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
        """Whether everything that was ever sent is acknowledged."""
        if self.in_flight or self.trouble is not None:
            return False
        return not any(
            isinstance(item, OutBatch) and not item.acknowledged and item.is_stamped
            for item in [*self.sent, *self.queue]
        )

    def next_to_send(self) -> OutBatch | None:
        """The next batch with our identity on it, or None when none may be sent now.

        A batch that went out before goes out again unchanged: same bytes, same sequence.
        """
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
        """The destination has the batch at `target`."""
        outgoing.outstanding = False
        outgoing.acknowledged = True
        outgoing.target = target
        self.in_flight -= 1
        self.is_established = True
        self.counters.delivered(outgoing, now_ms, now, self.excused)
        self.delivered_ms = max(self.delivered_ms, outgoing.max_timestamp)
        self.bytes_in_hand -= len(outgoing.batch)
        outgoing.free()
        self._settle()
        self._end_excuse()

    def unanswered(self, outgoing: OutBatch, *, maybe_stored: bool) -> None:
        """The destination refused the batch, or its answer was lost; then it may be stored all the same, also
        where it is sent again and refused."""
        outgoing.outstanding = False
        outgoing.maybe_stored = outgoing.maybe_stored or maybe_stored
        self.in_flight -= 1

    def requeue(self) -> None:
        """Put every batch that is not acknowledged back in front, in order. Nothing is outstanding."""
        assert self.in_flight == 0, "a batch could overtake one that is under way"
        self.queue = self.sent + self.queue
        self.sent = []
        self.trouble = None
        self._pass_over()

    def drop(self) -> None:
        """Let go of everything in hand and go back to the checkpoint. Nothing is outstanding.

        The next sequence is that of the first batch let go; where the destination may have stored a
        batch all the same, a new identity must follow.
        """
        assert self.in_flight == 0, "the destination may still read from these buffers"
        self._note_waiting()
        for item in reversed(self.sent + self.queue):
            if isinstance(item, OutBatch) and not item.acknowledged:
                if item.is_stamped:
                    self.sequence = item.sequence
                item.free()
        self.queue, self.sent = [], []
        self.bytes_in_hand = 0
        if self.position >= 0:  # a lane that has not begun yet is still to find where
            self.position = self.ledger.next
        self.trouble = None

    def shed(self) -> None:
        """Let go of what has not been sent yet; it is fetched again later."""
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
        """Take a new identity; sequences begin at 0, and what was stamped is stamped again."""
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
        """Sums since the last call."""
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
