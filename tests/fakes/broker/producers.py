"""Producer state of a partition, and validation of sequence numbers.

Source: Apache Kafka 4.1, `ProducerStateManager`, `ProducerAppendInfo`, `ProducerStateEntry`; the outcomes
match real brokers in tests/contract/kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.fakes.broker.batches import StoredBatch

_REMEMBERED: Final = 5
_SEQUENCES: Final = 2**31
OUT_OF_ORDER: Final = 45
OLD_EPOCH: Final = 47


@dataclass
class ProducerEntry:
    """State of a producer. `recent`: last batches of the epoch.

    Each has first sequence, last sequence, base offset and append time.
    """

    epoch: int
    recent: list[tuple[int, int, int, int]] = field(default_factory=list)
    last_timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        """Last sequence number, or -1 if the epoch has only a marker."""
        return self.recent[-1][1] if self.recent else -1


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a batch. `duplicate_of`: base offset of the same batch, stored earlier."""

    error: int = 0
    duplicate_of: int = -1
    stored_ms: int = -1


class ProducerTable:
    """Producers of one partition."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}

    def judge(self, batch: Any, *, bumps_epochs: bool = False) -> Verdict:
        """Check that a batch (kafka-python's view of it) follows the previous one of its producer.

        `bumps_epochs`: it belongs to a transaction of KIP-890 part 2, where an unknown producer must start
        with sequence 0.
        """
        known = self.entries.get(batch.producer_id)
        first, last = batch.base_sequence, _plus(batch.base_sequence, batch.last_offset_delta)
        if known is None:
            return Verdict(OUT_OF_ORDER if bumps_epochs and first else 0)
        if batch.producer_epoch == known.epoch:
            for one in known.recent:
                if one[:2] == (first, last):
                    return Verdict(0, one[2], one[3])
        if batch.producer_epoch < known.epoch:
            return Verdict(OLD_EPOCH)
        expected = 0 if batch.producer_epoch > known.epoch else _plus(known.last_sequence, 1)
        return Verdict(0 if first == expected else OUT_OF_ORDER)

    def note(self, batch: StoredBatch) -> None:
        """Record a batch that was appended to the log."""
        entry = self.entries.get(batch.producer)
        if entry is None or entry.epoch < batch.producer_epoch:
            entry = self.entries[batch.producer] = ProducerEntry(batch.producer_epoch)
        entry.last_timestamp = batch.max_timestamp
        if not batch.is_control:
            last = _plus(batch.sequence, batch.count - 1)
            entry.recent.append((batch.sequence, last, batch.base, batch.appended_ms))
            del entry.recent[:-_REMEMBERED]

    def forget(self, producer: int) -> None:
        """Drop a producer as after `producer.id.expiration.ms`."""
        self.entries.pop(producer, None)


def _plus(sequence: int, count: int) -> int:
    return (sequence + count) % _SEQUENCES
