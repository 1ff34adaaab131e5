"""Moves batches from the source to the destination, and keeps the progress of lanes up to date.

fetched -> `accept` -> queue -> `next_batch` -> sent -> `acknowledge` -> `settle` -> ledger, map

No other module changes the queue, the position or the progress of a lane. Each change of the progress queues
the lane for a checkpoint.

Batches are sent in source order with consecutive sequence numbers. At most five batches are in flight, apart
from incomplete requests. After a new producer id or epoch, an idle time or a failed request, only one batch
is in flight until the destination accepts it. Brokers accept any first sequence number of an unknown
producer, so a second batch could overtake a failed first batch. A broker forgets a producer whose newest
record is older than `producer.id.expiration.ms`. The ledger covers acknowledged items without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mirror.lane.batch_merge import BatchMerger, merged_run
from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.counters import LaneCounters
from mirror.lane.lane import MOST_IN_FLIGHT, Lane
from mirror.lane.ledger import Ledger, OffsetClass, SkippedOffsets
from mirror.lane.lifecycle import LaneState
from mirror.lane.offset_map import OffsetMap
from mirror.lane.out_batch import FoundRecords, OutBatch, RejectedBatch
from mirror.lane.progress import (
    Contents,
    Entry,
    LaneProgress,
    Owner,
    SourceIdentity,
    entries_of,
    forgotten_chunks,
)
from mirror.protocol.batches.batch import ProducerStamp, next_sequence, stamp
from mirror.replication.limits import forget_unnamed_topic

_MOST_GAPS: Final = 20
_IDLE_SECONDS: Final = 60.0
"""Idle time after which the destination may have forgotten the producer id. Brokers do so after a day by
default, but the broker setting is unknown, and caution costs one round trip."""


class UnsavedProgress:
    """Changes the progress of lanes, and lists the lanes whose progress is not stored yet. `token`: name of
    this engine in stored progress."""

    def __init__(self, token: str) -> None:
        self.dirty: dict[Lane, None] = {}
        """Lanes with unsaved progress."""
        self.moved: dict[Lane, int] = {}
        """Durable positions not yet committed to the lanes' consumer groups."""
        self._token = token

    def begin(self, lane: Lane, position: int) -> None:
        """Start the lane's ledger and offset map at this source offset. Earlier offsets get no class."""
        lane.progress.ledger, lane.progress.offset_map = Ledger(position), OffsetMap()
        lane.read.position = position
        self.note_change(lane)

    def begin_life(
        self, lane: Lane, position: int, sentence: str, *, same_log: bool, leader_epoch: int = -1
    ) -> None:
        """Continue at a source offset, perhaps an earlier one, because the log was replaced or has diverged.

        Starts a new ledger. With `same_log`, keeps the map before `position`. `leader_epoch`: epoch of the
        record before `position`, -1 if unknown. Requires an empty queue.
        """
        assert lane.queue.is_drained, "its items belong to the former log"
        forget_unnamed_topic(lane)
        lane.read.waiting = -1, -1
        lane.progress.begin_life(position, sentence, same_log=same_log, leader_epoch=leader_epoch)
        lane.read.position = position
        self.note_change(lane)

    def begin_target(self, lane: Lane, sentence: str) -> None:
        """Start in a new destination log that contains none of the lane's records."""
        lane.progress.begin_target(sentence)
        self.note_change(lane)

    def begin_elsewhere(self, lane: Lane) -> None:
        """Drop the progress, which belongs to another destination. The lane has no position until `begin`."""
        lane.progress.begin_elsewhere()
        lane.read.position = -1

    def note_source_id(self, lane: Lane, topic_id: bytes) -> None:
        """Set the id of the source topic unless it is already known."""
        source = lane.progress.source
        lane.progress.source = replace(source, topic_id=source.topic_id or topic_id)

    def note_logs(self, lane: Lane, source: SourceIdentity, target_id: bytes, target_cluster: str) -> None:
        """Set the identities of the source log and the destination log."""
        lane.progress.source = source
        lane.progress.target_id, lane.progress.target_cluster = target_id, target_cluster

    def find(self, lane: Lane, found: Sequence[FoundRecords | SkippedOffsets], target_next: int) -> None:
        """Add copies that were found at the destination, in source order from the checkpoint on."""
        lane.progress.find(found, target_next)
        lane.read.position = lane.checkpoint
        self.note_change(lane)

    def note_gap(self, lane: Lane, sentence: str) -> None:
        """Add a sentence about lost source offsets to the progress."""
        lane.progress.gaps.append(sentence)
        self.note_change(lane)

    def note_target_end(self, lane: Lane, upto: int) -> bool:
        """Continue in a destination log that is valid up to `upto`. Return whether copied records were
        lost."""
        progress = lane.progress
        is_loss = upto < (progress.offset_map.target_end or 0)
        if is_loss:
            progress.lose_target(upto, lane.key.partition)
            self.note_change(lane)
        if upto < progress.target_end:
            progress.target_next = upto  # an owner that stored no progress wrote after that offset
        return is_loss

    def own_from(self, lane: Lane, owner: Owner, target_next: int) -> None:
        """Set `owner` as writer of all records from the destination offset `target_next` on."""
        lane.progress.target_next = lane.progress.owned_from = target_next
        lane.progress.owner = owner

    def expect(self, lane: Lane, target_next: int | None) -> None:
        """Set the first destination offset that may contain the lane's next records. `target_next` is None if
        the first batch determines it, as with transactions, whose markers precede the batch."""
        lane.progress.target_next = target_next

    def pass_marker(self, lane: Lane) -> None:
        """Advance over the transaction marker that follows the lane's records in the destination log."""
        lane.progress.pass_marker()

    def accept_loss(self, lane: Lane) -> None:
        """Clear a loss at the destination that stopped the lane, so that the lane continues."""
        lane.progress.target_loss = ""
        self.note_change(lane)

    def note_change(self, lane: Lane) -> None:
        """Mark the lane's progress as changed, so that it is stored. Has no effect on a stopped lane."""
        if lane.state is not LaneState.STOPPED:
            self.dirty[lane] = None
        if len(lane.progress.gaps) > _MOST_GAPS:
            del lane.progress.gaps[:-_MOST_GAPS]

    def take_change(self, lane: Lane) -> None:
        """Mark the lane's progress as being stored, or forget a stopped lane. The durable position of a
        stopped lane is still committed to its consumer group."""
        self.dirty.pop(lane, None)

    def records_of(
        self, lane: Lane, now_ms: int, *, clean: bool = False
    ) -> tuple[list[Entry], Callable[[], None]]:
        """Return the progress records to write, without parts below the log start, and a function to call
        after the write. `clean`: the lane stops, and has no batch in flight."""
        progress, offset_map, start = lane.progress, lane.progress.offset_map, lane.read.log_start
        offset_map.prune(start)
        progress.ledger.prune(start)
        forgotten = forgotten_chunks(lane.key, offset_map.stored_from, offset_map.first_index)
        entries, sealed = entries_of(lane.key, lane.stored_progress(clean=clean), now_ms, self._token)
        note = partial(offset_map.note_stored, sealed, offset_map.first_index, offset_map.rewinds)
        return forgotten + entries, note

    def note_moved(self, lane: Lane, position: int) -> None:
        """Schedule the commit of a durable position to the lane's consumer group, if it has one. Other
        positions must not be committed: a consumer that continues from the group would miss records."""
        if lane.spec.consumer_group:
            self.moved[lane] = position

    def load(self, lane: Lane, stored: LaneProgress | None) -> None:
        """Restore the lane from its stored progress, if there is any."""
        lane.contents = Contents.LOADED if stored is None else Contents.FOUND
        lane.restore(replace(lane.progress, clean=True) if stored is None else stored)
        if stored is None:
            lane.read.position = -1
        self.dirty.pop(lane, None)

    def is_elsewhere(self, lane: Lane, target_id: bytes) -> bool:
        """Return whether the stored progress must be ignored because it belongs to another destination.

        Progress before a restart is ignored, and progress of a former datastream with the same name and
        another destination. `target_id`: id of the destination topic, empty if unknown.
        """
        if lane.contents is not Contents.FOUND:
            return False
        lane.contents = Contents.LOADED
        return not lane.progress.is_of(lane.spec.destination_topic, target_id, lane.spec.restart_ms)

    def discard(self, lane: Lane) -> None:
        """Discard the lane's unsaved progress, because the stored progress will be read again."""
        lane.contents = Contents.UNREAD
        self.dirty.pop(lane, None)

    def invalidate(self, lane: Lane) -> None:
        """Never store the progress of a lane whose operation failed halfway. The lane drops its items before
        the stored progress is read again."""
        lane.contents = Contents.BROKEN

    def take_moved(self) -> dict[Lane, int]:
        """Return the positions to commit to consumer groups, and clear them."""
        moved, self.moved = self.moved, {}
        return moved

    def is_foreign(self, lane: Lane, stored: LaneProgress | None) -> bool:
        """Return whether another engine has stored progress since this engine read it."""
        if stored is None or stored.version is None or stored.version == lane.progress.version:
            return False
        return stored.version[0] != self._token


class LaneDelivery:
    """Moves the batches of lanes from the source to the destination. Passes the progress to `unsaved`."""

    def __init__(self, unsaved: UnsavedProgress) -> None:
        self.unsaved = unsaved

    def accept(self, lane: Lane, router: BatchRouter, now: float, began_at: float | None = None) -> None:
        """Queue the results of a router that started at `read.position`. `began_at`: when the response began
        to arrive."""
        read, queue, source = lane.read, lane.queue, lane.progress.source
        lane.observed.counters.fetched_parts += 1
        read.position = router.position
        if 0 <= router.leader_epoch != source.leader_epoch:
            lane.progress.source = replace(source, leader_epoch=router.leader_epoch)
        if now - lane.ownership.accepted_at >= _IDLE_SECONDS and queue.is_drained:
            lane.ownership.accepted = None
        received = (now if began_at is None else began_at, now)
        for item in router.items:
            if isinstance(item, OutBatch):
                item.received = received
                item.appended = read.times.span(item.first_offset, item.next_offset - 1)
                queue.bytes_in_hand += len(item.batch)
            queue.unsent.append(item)

    def note_unread(self, lane: Lane, timestamp: int) -> None:
        """Store the first timestamp (epoch ms) of the batch at the position, which the lane has dropped."""
        lane.read.waiting = lane.read.position, timestamp

    def lose(self, lane: Lane, upto: int, sentence: str) -> None:
        """Skip source offsets before `upto` that are lost. A new leader epoch may begin at `upto`."""
        lane.queue.unsent.append(SkippedOffsets(OffsetClass.LOST, lane.read.position, upto))
        lane.read.position = upto
        lane.progress.source = replace(lane.progress.source, leader_epoch=-1)
        self.unsaved.note_gap(lane, sentence)
        self.settle(lane)

    def next_batch(self, lane: Lane, merger: BatchMerger | None = None) -> OutBatch | None:
        """Return the next batch to send with the lane's producer id and sequence, or None. A resent batch is
        unchanged. `merger`: merge waiting batches first."""
        if merger is not None:
            self.merge(lane, merger.most_bytes, merger.budget)
            merger.charge_next(lane)
        queue, identity = lane.queue, lane.ownership.identity
        most = MOST_IN_FLIGHT if merger is None else merger.most_in_flight
        if identity is None or not lane.may_send(most):
            return None
        while queue.unsent:
            item = queue.unsent[0]
            if lane.ownership.is_held and isinstance(item, OutBatch) and not item.is_stamped:
                return None
            queue.sent.append(queue.unsent.pop(0))
            if isinstance(item, OutBatch) and not item.acknowledged:
                self._send(lane, item, identity)
                return item
        return None

    def _send(self, lane: Lane, outgoing: OutBatch, identity: ProducerStamp) -> None:
        ownership = lane.ownership
        if outgoing.sequence < 0:
            outgoing.sequence = ownership.sequence
            ownership.sequence = next_sequence(ownership.sequence, outgoing.count)
            stamp(outgoing.batch, outgoing.attributes, identity, outgoing.sequence)
        outgoing.outstanding = True
        lane.queue.in_flight += 1

    def merge(self, lane: Lane, most_bytes: int, budget: ByteBudget) -> None:
        """Merge the first batches that wait to be sent, up to `most_bytes` and the destination's limit.
        Charges the result to `budget`. Batches that were sent before remain unchanged."""
        found, queue = merged_run(lane, most_bytes), lane.queue
        if found is None:
            return
        start, run, merged = found
        merged.charge(budget)
        queue.unsent[start : start + len(run)] = [merged]
        queue.bytes_in_hand += len(merged.batch) - sum(len(batch.batch) for batch in run)
        for batch in run:
            batch.free()

    def acknowledge(self, lane: Lane, outgoing: OutBatch, target: int, now_ms: int, now: float) -> None:
        """Handle the acknowledgement of a batch at destination offset `target`."""
        read, queue, observed = lane.read, lane.queue, lane.observed
        outgoing.outstanding = False
        outgoing.acknowledged = True
        outgoing.target = target
        queue.in_flight -= 1
        lane.ownership.accepted, lane.ownership.accepted_at = lane.ownership.identity, now
        observed.counters.delivered(outgoing, now_ms, now, read.times, read.grace)
        newest_ms = read.times.appended_ms(outgoing.max_timestamp, outgoing.appended)
        observed.delivered_ms = max(observed.delivered_ms, newest_ms)
        queue.bytes_in_hand -= len(outgoing.batch)
        outgoing.free()

    def settle(self, lane: Lane) -> bool:
        """Move finished items from the head of the queue to the progress: skipped offsets and acknowledged
        batches.

        Returns whether the destination has lost records. When the backlog at the start is delivered, later
        records count in the latency.
        """
        queue, progress, gaps, are_any = lane.queue, lane.progress, len(lane.progress.gaps), False
        for items in (queue.sent, queue.unsent):
            while items and (isinstance(items[0], SkippedOffsets) or items[0].acknowledged):
                item, are_any = items.pop(0), True
                if isinstance(item, OutBatch):
                    lane.observed.foreign_records += progress.enter(item, lane.key.partition)
                else:
                    progress.ledger.pass_over(item)
            if items:
                break
        if (grace := lane.read.grace) is not None and 0 <= grace.end_offset <= lane.checkpoint:
            lane.read.grace, progress.caught_up = None, grace.exemption.end_ms
        if not are_any:
            return False
        has_lost = len(progress.gaps) > gaps
        self.unsaved.note_change(lane)
        return has_lost

    def end_grace(self, lane: Lane) -> None:
        """Count the latency of records from the lane's position on, because they were appended while the lane
        was up to date."""
        if lane.read.grace is not None and lane.read.grace.end_offset < 0:
            lane.read.grace.end_offset = lane.read.position

    def take_counters(self, lane: Lane, lag: int, now_ms: int) -> LaneCounters:
        """Return the lane's counters since the previous call. `lag`: number of waiting offsets. A large `lag`
        also excludes records after the backlog at the start from the latency for a while."""
        if lane.read.grace is not None:
            lane.read.grace.note(lag, now_ms)
        return lane.observed.take_counters()

    def unanswered(self, lane: Lane, outgoing: OutBatch, *, maybe_stored: bool) -> None:
        """Handle a batch that was rejected or got no response. `maybe_stored` stays True once set."""
        outgoing.outstanding = False
        outgoing.maybe_stored = outgoing.maybe_stored or maybe_stored
        lane.queue.in_flight -= 1

    def reject(self, lane: Lane, rejected: RejectedBatch, *, maybe_stored: bool) -> None:
        """Handle the rejection of a batch. The lane resolves it once all batches have a response."""
        self.unanswered(lane, rejected.outgoing, maybe_stored=maybe_stored)
        lane.queue.trouble = lane.queue.trouble or rejected

    def requeue(self, lane: Lane) -> None:
        """Move unacknowledged batches back to the queue, in order. Requires that no batch is in flight."""
        queue = lane.queue
        assert queue.in_flight == 0, "a batch could overtake one in flight"
        queue.unsent, queue.sent, queue.trouble = queue.sent + queue.unsent, [], None
        lane.ownership.accepted = None

    def restamp(self, lane: Lane, owner: Owner) -> None:
        """Send the queued batches under a new producer id or epoch, with sequence numbers from 0."""
        if owner != lane.progress.owner:
            lane.progress.owner, lane.progress.owned_from = owner, None
        lane.ownership.sequence = 0
        for item in lane.queue.unsent:
            if isinstance(item, OutBatch):
                item.sequence = -1

    def drop(self, lane: Lane) -> None:
        """Drop all queued items and return to the checkpoint. No batch may be in flight. The sequence numbers
        of dropped batches are used again: take a new identity if the destination may have stored one."""
        queue = lane.queue
        assert queue.in_flight == 0, "the destination may still read from these buffers"
        for item in reversed(self._empty(lane)):
            if isinstance(item, OutBatch) and not item.acknowledged:
                if item.is_stamped:
                    lane.ownership.sequence = item.sequence
                item.free()
        if lane.read.position >= 0:  # a lane without a position still has none
            lane.read.position = lane.checkpoint

    def free_all(self, lane: Lane) -> None:
        """Drop all batches of a lane that failed unexpectedly and will be loaded again. Buffers of requests
        in flight are released when their responses arrive."""
        items, lane.queue.in_flight = self._empty(lane), 0
        for item in items:
            if isinstance(item, OutBatch):
                item.forget()

    def _empty(self, lane: Lane) -> list[OutBatch | SkippedOffsets]:
        """Remove and return all queued items, in order. The lane will fetch from the first batch again."""
        queue, first = lane.queue, lane.queue.first
        if first is not None:
            lane.read.waiting = first.first_offset, first.first_timestamp
        items, queue.unsent, queue.sent = queue.sent + queue.unsent, [], []
        queue.bytes_in_hand, queue.trouble = 0, None
        return items

    def shed(self, lane: Lane) -> None:
        """Drop the unsent batches and all items after them, which the lane fetches again later."""
        read, queue = lane.read, lane.queue
        unsent = [item for item in queue.unsent if isinstance(item, OutBatch) and not item.is_stamped]
        if not unsent:
            return
        first = unsent[0]
        read.waiting, read.position = (first.first_offset, first.first_timestamp), first.first_offset
        item: OutBatch | SkippedOffsets | None = None
        while item is not first:
            item = queue.unsent.pop()
            if isinstance(item, OutBatch):
                queue.bytes_in_hand -= len(item.batch)
                item.free()

    def invalidate(self, lane: Lane) -> None:
        """Never store the progress of a lane whose operation failed halfway, and recount its queued items.
        The lane drops its items before the stored progress is read again."""
        self.unsaved.invalidate(lane)
        queue = lane.queue
        batches = [item for item in [*queue.sent, *queue.unsent] if isinstance(item, OutBatch)]
        queue.in_flight = sum(item.outstanding for item in batches)
        queue.bytes_in_hand = sum(len(item.batch) for item in batches)
