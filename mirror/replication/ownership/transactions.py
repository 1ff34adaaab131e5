"""Writes the batches and the checkpoint of exactly-once lanes in transactions.

Each lane has its own transactional id, so a failing partition does not abort transactions of other
partitions. A lane commits once a second: it stops sending, waits until all batches are acknowledged, adds the
progress record, and commits. After a crash, the next owner takes the id. This aborts the open transaction, so
the owner reads progress that can no longer change.

Kafka has two transaction protocols (KIP-890). In the old protocol, partitions are added to a transaction
before they are written to. In the new protocol, a produce request adds partitions, and every transaction has
its own producer epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.producer_identity import SequencedProducer, add_to_transaction, adds_partitions, end
from mirror.errors import Fenced, HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import EventKind, Intent, LifecycleEvent
from mirror.lane.parts.ownership import identity_name
from mirror.lane.parts.transaction import TransactionPhase, TransactionState
from mirror.lane.progress import Entry, Version, main_key
from mirror.loggers import get_logger
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.codes import Code
from mirror.protocol.control.transactions import DESCRIBE_TRANSACTIONS
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.progress_log import batches_of

_log = get_logger(__name__)
_SETTLING_TICK: Final = 0.003


class TransactionManager:
    """Runs the transactions of exactly-once lanes. Implements `lane_runner.Transactions`."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._unsaved = lanes.unsaved
        self._identities = lanes.identities
        self._interval = context.settings.transaction_interval_seconds
        self._oldest = context.settings.transaction_timeout_seconds
        self._open: dict[Lane, None] = {}

    def begin(self, lane: Lane) -> None:
        transaction = lane.ownership.transaction
        if transaction is None or not transaction.may_begin:
            return
        if not (lane.queue.unsent or lane in self._unsaved.dirty) or not lane.may_drain:
            return
        if lane.read.position < 0:  # for example after the topic was recreated: no progress to store yet
            return
        transaction.phase = TransactionPhase.BEGINNING
        transaction.requested_at = self._context.loop.now()
        transaction.target_next = lane.progress.target_next
        self._runner.spawn(lane, self._begin(lane, transaction))

    def commit(self, lane: Lane) -> None:
        transaction = lane.ownership.transaction
        if transaction is not None and transaction.phase is TransactionPhase.OPEN:
            transaction.phase = TransactionPhase.ENDING
            self._runner.spawn(lane, self._commit(lane, transaction))

    def invalidate(self, lane: Lane) -> None:
        if lane.ownership.transaction is not None:
            lane.ownership.transaction.phase = TransactionPhase.FAILED

    def abandon(self, lane: Lane) -> None:
        self._open.pop(lane, None)
        is_refused = lane.ownership.disputed is not None and lane.ownership.disputed.refusal
        if not lane.is_broken:
            self._unsaved.discard(lane)  # its progress includes the records of the transaction
        identity = self._identities.end(lane)
        if identity is not None and not is_refused:
            self._runner.spawn(lane, self._context.loop.see_through(self._abort(lane, identity)))

    def fenced(self, lane: Lane, error: Fenced) -> None:
        """Handle a broker that has fenced the lane's producer id.

        Another owner has taken the id, or the coordinator has aborted the transaction because of its age. If
        a timeout is possible, the lane restarts, and checks the owner before it takes the id again
        (`producer_ids`).
        """
        identity = lane.ownership.identity
        if identity is None or lane.intent is Intent.STOP or not self._is_overdue(lane):
            self._runner.pause(lane, error, lasting=True)
            return
        self._identities.dispute(lane, identity, error.message, self._seconds_open(lane))
        self.abandon(lane)
        self._runner.reload(lane, f"{error.message}, possibly because its transaction timed out")

    def _is_overdue(self, lane: Lane) -> bool:
        """Return whether the coordinator may have aborted the transaction because it was too old. Returns
        False if the coordinator cannot report the owner of the producer id."""
        is_supported = self._cluster(lane).newest(DESCRIBE_TRANSACTIONS) >= 0
        return is_supported and self._seconds_open(lane) >= self._oldest

    def _seconds_open(self, lane: Lane) -> float:
        transaction = lane.ownership.transaction
        if transaction is None or transaction.may_begin:
            return 0.0
        return self._context.loop.now() - transaction.requested_at

    def pump(self, now: float) -> None:
        """End transactions that are due. Begin transactions for lanes that only skipped offsets."""
        for lane in list(self._unsaved.dirty):
            transaction = lane.ownership.transaction
            if transaction is not None and not transaction.is_open:
                self._runner.guard(lane, self.begin)
        for lane in list(self._open):
            transaction = lane.ownership.transaction
            if transaction is None or not transaction.is_open:
                self._open.pop(lane, None)
            elif now - transaction.started_at >= self._interval and lane.intent is None:
                self._runner.guard(lane, self.commit)

    async def _begin(self, lane: Lane, transaction: TransactionState) -> None:
        try:
            if not adds_partitions(self._cluster(lane)):
                places = [lane.target, await self._progress_place(lane)]
                await add_to_transaction(self._cluster(lane), identity_name(lane.key), _stamp(lane), places)
        except HeadraceError as error:
            self._fail(lane, error)
            return
        finally:
            transaction.phase = TransactionPhase.UNCERTAIN
        transaction.phase = TransactionPhase.OPEN
        transaction.started_at = self._context.loop.now()
        self._open[lane] = None
        if lane.writer is not None:
            lane.writer.wake(lane)

    async def _commit(self, lane: Lane, transaction: TransactionState) -> None:
        while not lane.queue.is_settled:
            await self._context.loop.sleep(_SETTLING_TICK)
        position = lane.checkpoint
        try:
            entries, note_stored, version = self._entries(lane)
            await self._write_progress(lane, transaction, entries)
            await self._end(lane, transaction)
        except Exception as error:
            transaction.phase = TransactionPhase.FAILED
            if not isinstance(error, HeadraceError):
                raise
            self._fail(lane, error)
            return
        self._open.pop(lane, None)
        lane.progress.version = version
        note_stored()
        self._unsaved.note_moved(lane, position)
        transaction.phase = TransactionPhase.CLOSED
        is_free = lane.intent is None
        if not is_free:
            self._runner.settle(lane)
        if is_free or (lane.intent is not None and lane.queue.unsent):  # sends its queue first
            self.begin(lane)

    def _entries(self, lane: Lane) -> tuple[list[Entry], Callable[[], None], Version]:
        self._unsaved.take_change(lane)
        now_ms = self._context.clock.now_ms()
        entries, note_stored = self._unsaved.records_of(lane, now_ms)
        return entries, note_stored, (self._context.token, now_ms, lane.checkpoint)

    async def _write_progress(self, lane: Lane, transaction: TransactionState, entries: list[Entry]) -> None:
        producer = SequencedProducer(_stamp(lane), transaction.progress_sequence)
        place, name = await self._progress_place(lane), identity_name(lane.key).encode()
        for batch in batches_of(entries, self._context.clock.now_ms()):
            await producer.write(self._cluster(lane), place, batch, name)
            transaction.progress_sequence = producer.sequence

    async def _end(self, lane: Lane, transaction: TransactionState) -> None:
        answer = await end(self._cluster(lane), identity_name(lane.key), _stamp(lane), commit=True)
        if answer.error:
            right = f"Write on transactional id {identity_name(lane.key)}"
            error = self._cluster(lane).error(
                answer.error, f"cannot commit the transaction of {lane.key.partition}", right
            )
            # In the new protocol, this error means that the coordinator has aborted the transaction.
            is_over = answer.error == Code.INVALID_TXN_STATE and self._is_overdue(lane)
            raise Fenced(error.message) if is_over else error
        # The new protocol adds the lane's partition with the first batch; the old protocol adds it here.
        if not adds_partitions(self._cluster(lane)) or lane.progress.target_next != transaction.target_next:
            self._unsaved.pass_marker(lane)
        if answer.producer_id >= 0:
            transaction.progress_sequence = 0
            self._identities.renew(lane, ProducerStamp(answer.producer_id, answer.epoch, transactional=True))

    async def _abort(self, lane: Lane, identity: ProducerStamp) -> None:
        try:
            name = identity_name(lane.key)
            answer = await end(self._cluster(lane), name, identity, commit=False)
            if answer.error:
                doing, right = f"cannot end a transaction of {name}", f"Write on transactional id {name}"
                raise self._cluster(lane).error(answer.error, doing, right)
        except HeadraceError as error:
            _log.info("transaction left to the next owner", **lane.key.log_fields, reason=str(error))

    def _fail(self, lane: Lane, error: HeadraceError) -> None:
        """Handle the failure of a transaction. The next start of the lane checks whether it was committed."""
        if isinstance(error, Fenced):
            self.fenced(lane, error)
        elif lane.intent is Intent.STOP:
            _log.warning("last transaction before the stop lost", **lane.key.log_fields, reason=str(error))
            self._runner.handle(lane, LifecycleEvent(EventKind.GAVE_UP))
        elif error.retriable:
            self._runner.restart(lane, str(error))
        else:
            self._runner.pause(lane, error)

    def _cluster(self, lane: Lane) -> Cluster:
        return self._lanes.sink(lane).cluster

    async def _progress_place(self, lane: Lane) -> TopicPartition:
        log = self._context.progress(lane.spec.destination)
        await log.ensure()
        return TopicPartition(log.topic, log.partition_of(main_key(lane.key)))


def _stamp(lane: Lane) -> ProducerStamp:
    assert lane.ownership.identity is not None, "a lane in a transaction has an identity"
    return lane.ownership.identity
