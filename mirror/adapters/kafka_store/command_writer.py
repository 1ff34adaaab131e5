"""Writes the commands of one process to the log in order, with an idempotent producer.

At most one batch is in flight. If it is unknown whether a batch was written, its commands fail, and the next
batch has a higher producer epoch. The broker then rejects the earlier batch, even if it arrives late.
Therefore, a failed command never takes effect after a later command of the same process.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Promise
from mirror.client.producer_identity import SequencedProducer
from mirror.coordination.store.codec import encode_command
from mirror.coordination.store.commands import Command, Result
from mirror.coordination.store.log_state import AppliedCommand
from mirror.coordination.store.parts import PART_OVERHEAD, split_command
from mirror.errors import (
    CorruptData,
    Fenced,
    HeadraceError,
    NotAuthorized,
    RecordTooLarge,
    Refused,
    TopicMissing,
    Unreachable,
)
from mirror.loggers import get_logger
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.partitioner import sized_batches
from mirror.protocol.batches.records import Record
from mirror.protocol.control.transactions import init_producer_id

_log = get_logger(__name__)
_WRITER_BYTES: Final = 16
_LAST_EPOCH: Final = 2**15 - 1
_SMALLEST_BATCH: Final = 8 * 1024
_COMPRESSED_FROM: Final = 2048
_RECORD_OVERHEAD: Final = 32


class _QueuedCommand(NamedTuple):
    """A command that waits to be written to the log."""

    number: int
    encoded: bytes


@dataclass(slots=True)
class _Commands:
    """Commands to write to the log, and the promises of all commands that have no result yet."""

    waiting: deque[_QueuedCommand] = field(default_factory=deque)
    results: dict[int, Promise[Result]] = field(default_factory=dict)
    latest: int = 0


class CommandWriter:
    """Writes the commands of this process to the log. Use only on the event loop's thread. `largest_bytes`:
    maximum size of the records in a batch."""

    def __init__(self, cluster: Cluster, place: TopicPartition, largest_bytes: int) -> None:
        self._cluster = cluster
        self._place = place
        self._largest = largest_bytes
        self._name = secrets.token_bytes(_WRITER_BYTES)
        self._queue = _Commands()
        self._producer: SequencedProducer | None = None
        self._is_writing = False
        self._rest = Promise[None]()

    def submit(self, command: Command) -> Promise[Result]:
        """Queue a command for the log. The returned promise resolves when the command is read back from the
        log, and fails with Unreachable if the result is unknown."""
        queue = self._queue
        queue.latest += 1
        promise = queue.results[queue.latest] = Promise[Result]()
        promise.is_awaited = True
        queue.waiting.append(_QueuedCommand(queue.latest, encode_command(command)))
        self._rest.resolve(None)
        if not self._is_writing:
            self._is_writing = True
            self._cluster.loop.spawn(self._write_all())
        return promise

    async def rest(self, seconds: float) -> None:
        """Pause for `seconds`, or until a caller waits for a result."""
        if not self._queue.results:
            self._rest = rest = Promise[None]()
            self._cluster.loop.call_later(seconds, lambda: rest.resolve(None))
            await rest

    def applied(self, command: AppliedCommand) -> None:
        """Resolve the promise of a command that was read back."""
        if command.writer == self._name:
            promise = self._queue.results.pop(command.number, None)
            if promise is not None:
                promise.resolve(command.result)

    def fail_all(self, error: HeadraceError) -> None:
        """Fail every command without a result, and discard the queue."""
        results, self._queue.results = self._queue.results, {}
        self._queue.waiting.clear()
        for promise in results.values():
            promise.fail(error)

    async def _write_all(self) -> None:
        try:
            await self._cluster.loop.sleep(0.0)  # together with others that are submitted now
            while self._queue.waiting:
                group = self._next_group()
                try:
                    await self._write_group(group)
                except HeadraceError as error:
                    self._fail(group, error)
                    self._next_epoch()
        finally:
            self._is_writing = False

    def _next_group(self) -> list[_QueuedCommand]:
        """Remove and return the first commands of the queue that fit into one batch, at least one."""
        waiting, group, size = self._queue.waiting, list[_QueuedCommand](), 0
        while waiting:
            needed = len(waiting[0].encoded) + PART_OVERHEAD + _RECORD_OVERHEAD
            if group and size + needed > self._largest:
                break
            group.append(waiting.popleft())
            size += needed
        return group

    async def _write_group(self, group: Sequence[_QueuedCommand]) -> None:
        """Write all parts of several commands as one batch.

        The parts are split further if the broker accepts only smaller batches.
        """
        while True:
            try:
                for records in sized_batches(self._records_of(group), self._largest):
                    await self._write(records)
            except RecordTooLarge:
                if self._largest // 2 < _SMALLEST_BATCH:
                    raise
                self._largest //= 2
                self._next_epoch()
            else:
                return

    def _records_of(self, group: Sequence[_QueuedCommand]) -> Iterator[Record]:
        largest, now_ms = self._largest - _RECORD_OVERHEAD, self._cluster.loop.clock.now_ms()
        for queued in group:
            for part in split_command(self._name, queued.number, queued.encoded, largest):
                yield Record(0, now_ms, None, part)

    async def _write(self, records: Sequence[Record]) -> None:
        try:
            await self._attempt(records)
        except (NotAuthorized, RecordTooLarge, TopicMissing, CorruptData):
            raise
        except (Refused, Fenced) as error:  # the broker has lost our sequence, or never knew it
            _log.info("new producer epoch", partition=str(self._place), reason=str(error))
            self._next_epoch()
            await self._attempt(records)

    async def _attempt(self, records: Sequence[Record]) -> None:
        producer = self._producer
        if producer is None:
            producer = self._producer = SequencedProducer(await self._new_identity())
        size = sum(record.payload_bytes for record in records)
        codec = Codec.LZ4 if size >= _COMPRESSED_FROM else Codec.NONE
        await producer.write(self._cluster, self._place, write_batch(records, codec))

    async def _new_identity(self) -> ProducerStamp:
        found = await self._cluster.patiently(lambda: self._cluster.ask(init_producer_id(None, 0)))
        if found.error:
            right = "IdempotentWrite on the cluster"
            raise self._cluster.error(found.error, "cannot acquire a producer id", right)
        return ProducerStamp(found.producer_id, found.epoch)

    def _next_epoch(self) -> None:
        """Increase the producer epoch of this process.

        After the next batch, the broker rejects earlier batches of this process.
        """
        if self._producer is None:
            return
        former = self._producer.identity
        self._producer = (
            SequencedProducer(former._replace(epoch=former.epoch + 1)) if former.epoch < _LAST_EPOCH else None
        )

    def _fail(self, group: Sequence[_QueuedCommand], error: HeadraceError) -> None:
        for queued in group:
            promise = self._queue.results.pop(queued.number, None)
            if promise is not None:
                promise.fail(
                    Unreachable(
                        f"the coordination store at {self._cluster.name} did not confirm a change:"
                        f" {error.message}",
                        advice=error.advice,
                    )
                )
