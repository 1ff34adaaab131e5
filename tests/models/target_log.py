"""Plain model of a destination partition with a broker's validation of producers.

Follows `ProducerStateManager` and `LogValidator` of Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mirror.protocol.batches.batch import BatchHeader, next_sequence, verify
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.codes import Code
from tests.models.source_log import header_of

_REMEMBERED = 5


@dataclass
class ProducerState:
    """State of a producer in a partition, as stored by a broker."""

    epoch: int
    next_sequence: int
    recent: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, count, base offset) of the last five batches."""


@dataclass
class TargetLog:
    """Log that appends batches, or rejects them as a broker would."""

    limit: int = 1_048_588
    records: list[Record] = field(default_factory=list)
    producers: dict[int, ProducerState] = field(default_factory=dict)

    def append(self, batch: bytes) -> tuple[int, int]:
        """Append a batch; return (error code, base offset)."""
        header = header_of(batch)
        verify(memoryview(batch), header)
        if (
            header.base_offset != 0
            or not header.is_dense
            or not header.record_count
            or header.attributes & ~7
        ):
            return Code.INVALID_RECORD, -1
        if len(batch) > self.limit:
            return Code.MESSAGE_TOO_LARGE, -1
        state = self.producers.get(header.producer_id)
        if state is not None:
            known = _judge(state, header)
            if known is not None:
                return known
        base = len(self.records)
        recent = state.recent if state is not None and state.epoch == header.producer_epoch else []
        recent = [*recent, (header.base_sequence, header.record_count, base)][-_REMEMBERED:]
        following = next_sequence(header.base_sequence, header.record_count)
        self.producers[header.producer_id] = ProducerState(header.producer_epoch, following, recent)
        for record in read_batch(memoryview(batch), header):
            self.records.append(record._replace(offset=len(self.records)))
        return Code.NONE, base


def _judge(state: ProducerState, header: BatchHeader) -> tuple[int, int] | None:
    """Return the response to a rejected or duplicate batch; None for one to append."""
    if header.producer_epoch < state.epoch:
        return Code.INVALID_PRODUCER_EPOCH, -1
    expected = 0
    if header.producer_epoch == state.epoch:
        expected = state.next_sequence
        for sequence, count, base in state.recent:
            if (sequence, count) == (header.base_sequence, header.record_count):
                return Code.NONE, base
    return None if header.base_sequence == expected else (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
