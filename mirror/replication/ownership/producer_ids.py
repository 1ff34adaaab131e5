"""Making a lane ready to write: its producer id, fencing, the comparison after a crash.

Done when the lane has its first batch to send, so that idle partitions cost the brokers nothing. What
has to be true before the first batch of an owner goes out:
1. no other owner has stored progress that we have not loaded: this is looked at after the id is taken,
   because a lane may have been idle, or its process frozen, for any time since it was loaded;
2. the stored progress says that somebody writes (`clean` is false), so that the next owner will look;
3. former owners that may still have a batch under way are fenced;
4. what they have written behind the checkpoint is known (effectively-once) or undone (exactly-once).

Epochs are the proof: when the id comes with the epoch that follows the one under which the loaded progress
was made, nobody has owned the lane in between, and the stored progress need not be looked at again.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from functools import partial
from math import inf
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Recheck, Slots
from mirror.client.producer_identity import abort_empty, fence, retake_identity, take_identity
from mirror.errors import Fenced, HeadraceError, Unreachable
from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass
from mirror.lane.lifecycle import EventKind, LifecycleEvent
from mirror.lane.progress import LaneProgress, Owner, entries_of
from mirror.model.datastreams.policy import Guarantee
from mirror.model.identifiers import ClusterRef
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.control.transactions import DESCRIBE_TRANSACTIONS
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.live_lane import LiveLane, identity_name
from mirror.replication.ownership.losses import holds_records, known_end, surviving_end
from mirror.replication.ownership.tail import compare_tail
from mirror.replication.quotas.read_pacer import ReadPacer

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 64
_COMPARISONS: Final = 4
"""Between two clusters. Each holds some MiB of both sides, outside of the budget."""


class ProducerIdManager:
    """Gives lanes their identity, a limited number at a time in each destination."""

    def __init__(self, runner: LaneRunner, pacer: ReadPacer) -> None:
        self._runner = runner
        self._pacer = pacer
        self._bench = runner.bench
        self._waiting: dict[ClusterRef, deque[tuple[LiveLane, int]]] = {}
        self._running: Counter[ClusterRef] = Counter()
        self._comparing: dict[tuple[ClusterRef, ClusterRef], Slots] = {}

    def identify(self, lane: LiveLane) -> None:
        """See to it that the lane gets an identity; it sends as soon as it has one."""
        if lane.identity is None and not lane.is_identifying and lane.may_drain:
            lane.identity_asked_at = self._bench.loop.now()
            target = lane.spec.destination
            self._waiting.setdefault(target, deque()).append((lane, lane.turn))
            self._pump(target)

    def _pump(self, target: ClusterRef) -> None:
        waiting = self._waiting[target]
        while waiting and self._running[target] < _AT_ONCE:
            lane, turn = waiting.popleft()
            self._running[target] += 1
            self._bench.loop.spawn(self._run(lane, turn))

    async def _run(self, lane: LiveLane, turn: int) -> None:
        try:
            await self._runner.run(lane, turn, self._make_ready(lane))
        finally:
            lane.identity_asked_at = inf
            self._running[lane.spec.destination] -= 1
            # In the next round, as any number of those that wait may have restarted and end at once.
            self._bench.loop.call_soon(partial(self._ended, lane))

    def _ended(self, lane: LiveLane) -> None:
        if lane.queue:
            self.identify(lane)  # it has restarted meanwhile, and what it has read waits for this
        else:
            self._runner.guard(lane, self._pacer.resume)  # or it has let go of that too
        self._pump(lane.spec.destination)

    async def _make_ready(self, lane: LiveLane) -> None:
        target = self._runner.sink(lane).cluster
        guarantee = lane.spec.policy.guarantee
        transactional = guarantee is Guarantee.EXACTLY_ONCE
        stamp = await self._runner.see_through(self._take(lane, target, transactional=transactional))
        is_next = lane.is_clean and not transactional and _is_next(lane.owner, stamp)
        if not is_next:
            stamp = await self._runner.see_through(self._fence(lane, stamp))
            if not await self._is_up_to_date(lane):
                return
        lane.has_owned = True
        if lane.owner is None and lane.target_next is None and stamp.epoch > 0:
            await self._note_forgotten(lane, target)
        if transactional:
            stamp, end = await self._end_transactions(lane, target, stamp)
            await self._look_for_losses(lane, target, end)
            if lane.is_forgotten:
                await self._look_for_ours(lane, target)
            lane.target_next = None
            self._runner.transactions.prepare(lane, end)
        elif guarantee is Guarantee.EFFECTIVELY_ONCE:
            await self._look_behind(lane, target, stamp)
        lane.needs_fence = lane.is_clean = lane.is_forgotten = False
        lane.disputed = None
        lane.identify(stamp)
        self._send(lane)

    def _send(self, lane: LiveLane) -> None:
        """Send what the lane has read while it waited for its id."""
        if lane.transaction is not None:
            self._runner.transactions.begin(lane)
        elif lane.writer is not None:
            lane.writer.wake(lane)
        # Meanwhile it may have let go of what it had read, and stopped reading (`stalls`).
        self._pacer.resume(lane)

    async def _fence(self, lane: LiveLane, stamp: ProducerStamp) -> ProducerStamp:
        """Stop former owners, where the tail is to be looked at; returns the id to go on with."""
        lane.needs_fence = lane.needs_fence or stamp.epoch > 0
        if not lane.needs_fence or lane.spec.policy.guarantee is not Guarantee.EFFECTIVELY_ONCE:
            return stamp
        target, patience = self._runner.sink(lane).cluster, self._bench.settings.transaction_timeout_seconds
        return await fence(target, identity_name(lane.key), stamp, lane.target, patience)

    async def _take(self, lane: LiveLane, target: Cluster, *, transactional: bool) -> ProducerStamp:
        """The lane's producer id, under a new epoch. An exactly-once lane that had it before takes it from
        nobody, as it may have been frozen. Raises Fenced when another owner has it. Where brokers (before
        3.0) do not say who has it, it is taken all the same."""
        name, patience = identity_name(lane.key), self._bench.settings.transaction_timeout_seconds
        disputed = lane.disputed
        if disputed is None or target.newest(DESCRIBE_TRANSACTIONS) < 0:
            stamp = await take_identity(target, name, patience, transactional=transactional)
        else:
            committed = lane.stored != disputed.stored
            found = await retake_identity(target, name, patience, disputed.former, committed=committed)
            if found is None:
                raise disputed.lost()
            stamp = found
            if disputed.refusal:
                _log.warning(
                    "lane %s: %s had aborted its transaction, which was open for %.0f s, for its age"
                    " (transaction_timeout_seconds); continuing from the last commit",
                    lane.key.partition,
                    target.name,
                    disputed.seconds,
                )
        if transactional:
            lane.take_id(stamp)
        return stamp

    async def _end_transactions(
        self, lane: LiveLane, target: Cluster, stamp: ProducerStamp
    ) -> tuple[ProducerStamp, int]:
        """Abort once more where the destination shows a transaction as open: its marker may be one of ours
        that was lost in an unclean election, and what it has aborted would be committed with our next one.
        Returns the id to continue with, and the end up to which nothing of ours is open."""
        end = await self._offset(target, lane, LATEST)  # asked for first, as an election may come in between
        if await self._offset(target, lane, LATEST, committed=True) < end:
            stamp = await self._runner.see_through(self._abort_again(lane, target, stamp))
            end = await self._offset(target, lane, LATEST)
        return stamp, end

    async def _abort_again(self, lane: LiveLane, target: Cluster, stamp: ProducerStamp) -> ProducerStamp:
        """The id is taken once more then: the coordinator gives it when every replica has the marker."""
        assert lane.disputed is not None, "an id for transactions has just been taken"
        lane.disputed.former.is_open = True
        await abort_empty(target, identity_name(lane.key), stamp, lane.target)
        return await self._take(lane, target, transactional=True)

    async def _is_up_to_date(self, lane: LiveLane) -> bool:
        """With the id taken, former owners can store nothing more that counts: go back to what they have
        stored if that is not what we know. Raises Fenced for a lane that somebody has taken from us."""
        transactional = lane.spec.policy.guarantee is Guarantee.EXACTLY_ONCE
        stored = (await self._bench.progress(lane.spec.destination).load([lane.key]))[lane.key]
        is_foreign = self._runner.is_foreign(lane, stored)
        is_ours = stored is not None and stored.is_of(
            lane.spec.destination_topic, lane.target_id, lane.spec.restart_ms
        )
        if stored is None or not (is_foreign or (transactional and is_ours and _differs(stored, lane))):
            return True
        found = f"progress of {lane.key.partition} is stored up to {stored.next_offset}"
        if is_foreign and lane.has_owned:
            raise Fenced(
                f"{found} by another owner", advice="let only one copy of a state, or one service, run"
            )
        self._runner.reload(lane, found)
        return False

    async def _note_forgotten(self, lane: LiveLane, target: Cluster) -> None:
        """The coordinator knows an owner of the lane, the progress topic knows none: what it knew is gone.
        Everything at the destination may then be ours already."""
        first, end = await self._offset(target, lane, EARLIEST), await self._offset(target, lane, LATEST)
        lane.target_next = first
        lane.is_forgotten = await holds_records(target, lane, first, end)
        if lane.is_forgotten:
            lane.gaps.append(
                f"{lane.key.partition} was copied before, but no progress is stored: looked for a topic"
                f" {self._bench.identity.progress_topic} at {target.name}; continuing at {lane.checkpoint}"
            )
            _log.warning("%s", lane.gaps[-1])
            self._runner.note_change(lane)

    async def _look_behind(self, lane: LiveLane, target: Cluster, stamp: ProducerStamp) -> None:
        end = await self._offset(target, lane, LATEST)
        await self._look_for_losses(lane, target, end)
        # The marker of the fence lies there too, but one offset more may be a record as well.
        if lane.needs_fence and lane.target_next is not None and end > lane.target_next:
            await self._compare(lane, target, end)
        lane.target_next = lane.owned_from = end
        lane.owner = stamp.producer_id, stamp.epoch
        if lane.is_clean:
            await self._mark_as_written_to(lane)

    async def _look_for_ours(self, lane: LiveLane, target: Cluster) -> None:
        end = await self._offset(target, lane, LATEST)
        if lane.target_next is not None and end > lane.target_next:
            await self._compare(lane, target, end)

    async def _look_for_losses(self, lane: LiveLane, target: Cluster, end: int) -> None:
        """Note what the destination has lost of what is known to lie there. Raises DataLossDetected where the
        lane is to halt for it."""
        if not lane.target_end:
            return
        upto = known_end(lane, end)
        if lane.needs_fence:
            first = await self._offset(target, lane, EARLIEST)
            upto = await surviving_end(target, lane, first, end)
        is_loss = upto < (lane.offset_map.target_end or 0)
        if is_loss:
            lane.lose_target(upto)
            _log.warning("%s", lane.gaps[-1])
            self._runner.note_change(lane)
        if upto < lane.target_end:
            lane.target_next = upto  # what an owner has written since, and not stored, lies behind it
        if is_loss and (error := lane.halting_loss) is not None:
            raise error

    async def _compare(self, lane: LiveLane, target: Cluster, end: int) -> None:
        beginning = await self._offset(target, lane, EARLIEST)
        assert lane.target_next is not None, "without it there is nothing to compare"
        lane.target_next = max(lane.target_next, beginning)  # what lay in front may be deleted by now
        self._runner.handle(lane, LifecycleEvent(EventKind.COMPARING))
        lane.drop()
        route = lane.spec.source, lane.spec.destination
        async with self._comparing.setdefault(route, Slots(_COMPARISONS)):
            found = await compare_tail(self._runner.source(lane).cluster, target, lane, end)
        first = lane.checkpoint
        lane.find(found, end)
        self._runner.mark_dirty(lane)
        _log.info(
            "lane %s: %d offsets were at the destination already, going on at %d",
            lane.key.partition,
            lane.checkpoint - first,
            lane.position,
        )
        self._runner.handle(lane, LifecycleEvent(EventKind.COMPARED))
        await Recheck()  # its intent may have waited for this

    async def _offset(self, target: Cluster, lane: LiveLane, which: int, *, committed: bool = False) -> int:
        answer = (await target.offsets({lane.target: which}, committed=committed))[lane.target]
        if answer.error:
            raise Unreachable(f"the offsets of {lane.target} at {target.name} are not known now")
        return answer.offset

    async def _mark_as_written_to(self, lane: LiveLane) -> None:
        """Store that the lane has an owner who writes.

        The lane is not clean from before the write on: a checkpoint that is stored meanwhile would say of the
        new owner that it ended cleanly, and the next one would look for nothing.
        """
        lane.is_clean = False
        try:
            await self._runner.see_through(self._store_mark(lane))
        except HeadraceError:
            lane.is_clean = True  # nothing was written under this id; it is noted at the next try
            raise

    async def _store_mark(self, lane: LiveLane) -> None:
        now_ms = self._bench.clock.now_ms()
        entries, sealed = entries_of(lane.key, lane.progress(), now_ms, self._bench.token)
        await self._bench.progress(lane.spec.destination).save(entries, now_ms)
        lane.offset_map.sealed = max(lane.offset_map.sealed, sealed)


def _is_next(former: Owner | None, stamp: ProducerStamp) -> bool:
    """Whether nobody can have owned the lane between `former` and us."""
    return former == (stamp.producer_id, stamp.epoch - 1)


def _differs(stored: LaneProgress, lane: Lane) -> bool:
    """Whether what an exactly-once lane has committed is not what it knows. It may be ahead by offsets that
    need no copying, such as markers and aborted records, but not by records; so may a new topic's lane."""
    if stored.life != lane.life:
        return stored.life > lane.life
    mirrored = stored.ledger.total(OffsetClass.MIRRORED), lane.ledger.total(OffsetClass.MIRRORED)
    return stored.next_offset > lane.checkpoint or mirrored[0] != mirrored[1]
