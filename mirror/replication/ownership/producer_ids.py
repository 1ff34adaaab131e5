"""Prepares lanes for producing: acquires producer ids, fences former owners, and finds copies after a crash.

The preparation starts when the lane has its first batch to send, so idle partitions cause no work on brokers.
Before an owner sends its first batch, these conditions hold:

- The loaded progress is the latest that any owner has stored. The owner checks this after taking the id,
  because its lane may have been idle, or its process frozen, since the progress was loaded.
- The stored progress shows an active writer, so that the next owner compares destination and source.
- Former owners that may have a batch in flight are fenced.
- The records of former owners after the checkpoint are known (effectively-once) or aborted (exactly-once).

If the epoch of the id directly follows the epoch in the loaded progress, the lane has had no owner in
between. The stored progress is then not read again.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from math import inf
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.producer_identity import abort_empty, fence, retake_identity, take_identity
from mirror.errors import Fenced, HeadraceError, Unreachable
from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass
from mirror.lane.lifecycle import EventKind, LifecycleEvent
from mirror.lane.parts.ownership import Tenure, identity_name
from mirror.lane.progress import LaneProgress, Owner
from mirror.loggers import get_logger
from mirror.model.datastreams.policy import Guarantee
from mirror.model.identifiers import ClusterRef
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.control.transactions import DESCRIBE_TRANSACTIONS
from mirror.replication.concurrency import ConcurrencyLimit, RecheckCondition
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.ownership.losses import holds_records, known_end, surviving_end
from mirror.replication.ownership.tail import compare_tail
from mirror.replication.quotas.read_pacer import ReadPacer

_log = get_logger(__name__)
_AT_ONCE: Final = 64
_COMPARISONS: Final = 4
"""Maximum number of concurrent comparisons of two clusters. Each uses some MiB outside the memory budget."""


class ProducerIdManager:
    """Acquires producer ids for lanes, a limited number at a time per destination."""

    def __init__(
        self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner, pacer: ReadPacer
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._unsaved = lanes.unsaved
        self._identities = lanes.identities
        self._transactions = runner.transactions
        self._pacer = pacer
        self._waiting: dict[ClusterRef, deque[tuple[Lane, int]]] = {}
        self._running: Counter[ClusterRef] = Counter()
        self._comparing: dict[tuple[ClusterRef, ClusterRef], ConcurrencyLimit] = {}

    def identify(self, lane: Lane) -> None:
        """Acquire a producer id for the lane in the background. The lane then starts to send batches."""
        if lane.ownership.identity is None and not lane.ownership.is_identifying and lane.may_drain:
            lane.ownership.claimed_at = self._context.loop.now()
            target = lane.spec.destination
            self._waiting.setdefault(target, deque()).append((lane, lane.generation))
            self._pump(target)

    def _pump(self, target: ClusterRef) -> None:
        waiting = self._waiting[target]
        while waiting and self._running[target] < _AT_ONCE:
            lane, generation = waiting.popleft()
            self._running[target] += 1
            self._context.loop.spawn(self._run(lane, generation))

    async def _run(self, lane: Lane, generation: int) -> None:
        try:
            await self._runner.run(lane, generation, self._make_ready(lane))
        finally:
            lane.ownership.claimed_at = inf
            self._running[lane.spec.destination] -= 1
            # In the next loop iteration, because many waiting lanes may have restarted and end at once.
            self._context.loop.call_soon(partial(self._ended, lane))

    def _ended(self, lane: Lane) -> None:
        if lane.queue.unsent:
            self.identify(lane)  # the lane restarted, and its fetched batches need an identity
        else:
            self._runner.guard(lane, self._pacer.resume)  # the lane may have released its batches too
        self._pump(lane.spec.destination)

    async def _make_ready(self, lane: Lane) -> None:
        target = self._lanes.sink(lane).cluster
        guarantee = lane.spec.policy.guarantee
        transactional = guarantee is Guarantee.EXACTLY_ONCE
        # A frozen lane must not take the id from the new owner.
        if lane.ownership.has_owned and not transactional and not await self._is_up_to_date(lane):
            return
        stamp, is_contested = await self._acquire(lane, target)
        if stamp is None:
            return
        if lane.ownership.tenure is Tenure.NONE:
            lane.ownership.tenure = Tenure.HELD
        if lane.progress.owner is None and lane.progress.target_next is None and stamp.epoch > 0:
            await self._note_forgotten(lane, target)
        end = 0
        if transactional:
            stamp, end = await self._end_transactions(lane, target, stamp)
            await self._look_for_losses(lane, target, end, is_contested=is_contested)
            if lane.ownership.tenure is Tenure.FORGOTTEN:
                await self._look_for_ours(lane, target)
        elif guarantee is Guarantee.EFFECTIVELY_ONCE:
            await self._look_behind(lane, target, stamp, is_contested=is_contested)
        elif lane.progress.target_end:
            end = await self._offset(target, lane, LATEST)
            await self._look_for_losses(lane, target, end, is_contested=is_contested)
        lane.ownership.tenure, lane.progress.clean = Tenure.HELD, False
        self._identities.begin(lane, stamp, end)
        self._send(lane)

    async def _acquire(self, lane: Lane, target: Cluster) -> tuple[ProducerStamp | None, bool]:
        """Acquire the lane's producer id, and fence its former owners if necessary.

        Returns the id, or None if the lane restarts because its progress was outdated. Also returns whether
        the destination may have unknown batches of this lane or a former owner.
        """
        guarantee = lane.spec.policy.guarantee
        transactional = guarantee is Guarantee.EXACTLY_ONCE
        is_clean = lane.progress.clean and not lane.ownership.has_owned
        stamp = await self._context.loop.see_through(self._take(lane, target, transactional=transactional))
        if is_clean and not transactional and _is_next(lane.progress.owner, stamp):
            return stamp, False
        is_contested = not is_clean or stamp.epoch > 0
        if is_contested and guarantee is Guarantee.EFFECTIVELY_ONCE:
            stamp = await self._context.loop.see_through(self._fence(lane, target, stamp))
        return stamp if await self._is_up_to_date(lane) else None, is_contested

    def _send(self, lane: Lane) -> None:
        """Start to send the batches that were fetched before the lane had its producer id."""
        if lane.ownership.transaction is not None:
            self._transactions.begin(lane)
        elif lane.writer is not None:
            lane.writer.wake(lane)
        # The lane may have released its batches and stopped reading (`stalls`).
        self._pacer.resume(lane)

    async def _fence(self, lane: Lane, target: Cluster, stamp: ProducerStamp) -> ProducerStamp:
        """Fence the former owners of the lane. Return the producer id to use from now on."""
        patience = self._context.settings.transaction_timeout_seconds
        return await fence(target, identity_name(lane.key), stamp, lane.target, patience)

    async def _take(self, lane: Lane, target: Cluster, *, transactional: bool) -> ProducerStamp:
        """Acquire the lane's producer id with a new epoch.

        An exactly-once lane that has had the id before may have been frozen since, so it must not take the id
        from a newer owner. Raises Fenced if another owner has the id. Brokers before 3.0 do not report the
        owner; with these brokers, the lane takes the id without a check.
        """
        name, patience = identity_name(lane.key), self._context.settings.transaction_timeout_seconds
        disputed = lane.ownership.disputed
        if disputed is None or target.newest(DESCRIBE_TRANSACTIONS) < 0:
            stamp = await take_identity(target, name, patience, transactional=transactional)
        else:
            committed = lane.progress.version != disputed.stored
            found = await retake_identity(target, name, patience, disputed.former, committed=committed)
            if found is None:
                raise disputed.lost()
            stamp = found
            if disputed.refusal:
                _log.warning(
                    "transaction aborted: open for longer than transaction_timeout_seconds",
                    **lane.key.log_fields,
                    cluster=target.name,
                    seconds=round(disputed.seconds),
                )
        if transactional:
            self._identities.take(lane, stamp)
        return stamp

    async def _end_transactions(
        self, lane: Lane, target: Cluster, stamp: ProducerStamp
    ) -> tuple[ProducerStamp, int]:
        """Abort the lane's former transaction again if it is still open at the destination.

        An unclean election may have lost the abort marker. The next commit would then include the aborted
        records. Returns the producer id to use, and the offset below which the lane has no open transaction.
        """
        end = await self._offset(target, lane, LATEST)  # first, because an election may happen in between
        if await self._offset(target, lane, LATEST, committed=True) < end:
            stamp = await self._context.loop.see_through(self._abort_again(lane, target, stamp))
            end = await self._offset(target, lane, LATEST)
        return stamp, end

    async def _abort_again(self, lane: Lane, target: Cluster, stamp: ProducerStamp) -> ProducerStamp:
        """Write another abort marker, wait until all replicas have it, and acquire the producer id again."""
        assert lane.ownership.disputed is not None, "a transactional id has just been taken"
        lane.ownership.disputed.former.is_open = True
        await abort_empty(target, identity_name(lane.key), stamp, lane.target)
        return await self._take(lane, target, transactional=True)

    async def _is_up_to_date(self, lane: Lane) -> bool:
        """Return whether the loaded progress is current. Reload outdated progress. After the lane has
        acquired the id, progress of former owners is ignored. Raises Fenced if another owner has acquired the
        lane."""
        transactional = lane.spec.policy.guarantee is Guarantee.EXACTLY_ONCE
        stored = (await self._context.progress(lane.spec.destination).load([lane.key]))[lane.key]
        is_foreign = self._unsaved.is_foreign(lane, stored)
        is_ours = stored is not None and stored.is_of(
            lane.spec.destination_topic, lane.progress.target_id, lane.spec.restart_ms
        )
        if stored is None or not (is_foreign or (transactional and is_ours and _differs(stored, lane))):
            return True
        found = f"progress of {lane.key.partition} is stored up to {stored.next_offset}"
        if is_foreign and lane.ownership.has_owned:
            raise Fenced(f"{found} by another process", advice="run only one service or copy per state")
        self._runner.reload(lane, found)
        return False

    async def _note_forgotten(self, lane: Lane, target: Cluster) -> None:
        """Handle a lane without stored progress whose producer id has had an owner. The progress record was
        lost, so the destination may already have copies of the next records."""
        first, end = await self._offset(target, lane, EARLIEST), await self._offset(target, lane, LATEST)
        is_forgotten = await holds_records(target, lane, first, end)
        self._unsaved.expect(lane, first)  # all records there may be copies
        if is_forgotten:
            lane.ownership.tenure = Tenure.FORGOTTEN
            sentence = (
                f"{lane.key.partition} was copied before, but its progress is missing from topic"
                f" {self._context.identity.progress_topic} on {target.name}; continuing at {lane.checkpoint}"
            )
            _log.warning("stored progress is missing", **lane.key.log_fields, reason=sentence)
            self._unsaved.note_gap(lane, sentence)

    async def _look_behind(
        self, lane: Lane, target: Cluster, stamp: ProducerStamp, *, is_contested: bool
    ) -> None:
        end = await self._offset(target, lane, LATEST)
        await self._look_for_losses(lane, target, end, is_contested=is_contested)
        # One extra offset may be the fence marker or a record.
        if is_contested and lane.progress.target_next is not None and end > lane.progress.target_next:
            await self._compare(lane, target, lane.progress.target_next, end)
        self._unsaved.own_from(lane, (stamp.producer_id, stamp.epoch), end)
        if lane.progress.clean:
            await self._mark_as_written_to(lane)

    async def _look_for_ours(self, lane: Lane, target: Cluster) -> None:
        end = await self._offset(target, lane, LATEST)
        if lane.progress.target_next is not None and end > lane.progress.target_next:
            await self._compare(lane, target, lane.progress.target_next, end)

    async def _look_for_losses(self, lane: Lane, target: Cluster, end: int, *, is_contested: bool) -> None:
        """Note that the destination lost records. Raises DataLossDetected if `on_loss` halts the lane."""
        if not lane.progress.target_end:
            return
        upto = known_end(lane, end)
        if is_contested:
            first = await self._offset(target, lane, EARLIEST)
            upto = await surviving_end(target, lane, first, end)
        if not self._unsaved.note_target_end(lane, upto):
            return
        _log.warning("destination lost records", **lane.key.log_fields, reason=lane.progress.target_loss)
        if (error := lane.halting_loss) is not None:
            raise error

    async def _compare(self, lane: Lane, target: Cluster, start: int, end: int) -> None:
        """Find copies of the lane's records in [start, end) of the destination log, and store them as
        progress."""
        start = max(start, await self._offset(target, lane, EARLIEST))  # earlier records may be deleted
        self._runner.handle(lane, LifecycleEvent(EventKind.COMPARING))
        route = lane.spec.source, lane.spec.destination
        async with self._comparing.setdefault(route, ConcurrencyLimit(_COMPARISONS)):
            found = await compare_tail(self._lanes.source(lane).cluster, target, lane, (start, end))
        first = lane.checkpoint
        self._unsaved.find(lane, found, end)
        known = lane.checkpoint - first
        _log.debug("destination compared", **lane.key.log_fields, offsets=known, position=lane.read.position)
        self._runner.handle(lane, LifecycleEvent(EventKind.COMPARED))
        await RecheckCondition()  # the lane's intent may have waited for the comparison

    async def _offset(self, target: Cluster, lane: Lane, which: int, *, committed: bool = False) -> int:
        answer = (await target.offsets({lane.target: which}, committed=committed))[lane.target]
        if answer.error:
            raise Unreachable(f"{target.name} returned no offsets for {lane.target}")
        return answer.offset

    async def _mark_as_written_to(self, lane: Lane) -> None:
        """Store in the progress topic that the lane has an active writer. A concurrent checkpoint must not
        store a clean shutdown, because the next owner would then not compare the logs."""
        lane.progress.clean = False
        try:
            await self._context.loop.see_through(self._store_mark(lane))
        except HeadraceError:
            lane.progress.clean = True  # nothing was written under this id; the next attempt stores the mark
            raise

    async def _store_mark(self, lane: Lane) -> None:
        now_ms = self._context.clock.now_ms()
        entries, note_stored = self._unsaved.records_of(lane, now_ms)
        await self._context.progress(lane.spec.destination).save(entries, now_ms)
        note_stored()


def _is_next(former: Owner | None, stamp: ProducerStamp) -> bool:
    """Return whether the new epoch directly follows that of `former`, so that no owner was in between."""
    return former == (stamp.producer_id, stamp.epoch - 1)


def _differs(stored: LaneProgress, lane: Lane) -> bool:
    """Return whether the stored progress of an exactly-once lane differs from its progress in memory.

    The lane may be ahead by offsets without copied records, such as markers and aborted records. A lane with
    a recreated source topic may be ahead by any offsets.
    """
    if stored.life != lane.progress.life:
        return stored.life > lane.progress.life
    mirrored = stored.ledger.total(OffsetClass.MIRRORED), lane.progress.ledger.total(OffsetClass.MIRRORED)
    return stored.next_offset > lane.checkpoint or mirrored[0] != mirrored[1]
