"""What a partition remembers of its producers, and how it judges their sequence numbers.

Source: Apache Kafka 4.1, `ProducerStateManager`, `ProducerAppendInfo`, `ProducerStateEntry`; the outcomes are
those that real brokers gave in tests/contract/kafka.
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
    """`recent`: (first sequence, last sequence, base offset, when stored) of the epoch's last batches."""

    epoch: int
    recent: list[tuple[int, int, int, int]] = field(default_factory=list)
    last_timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        """-1 when nothing but a marker is known of the epoch."""
        return self.recent[-1][1] if self.recent else -1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a batch. `duplicate_of`: the base offset of the same batch, stored before."""

    error: int = 0
    duplicate_of: int = -1
    stored_ms: int = -1


class ProducerTable:
    """The producers of one partition."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}

    def judge(self, batch: Any, *, bumps_epochs: bool = False) -> Verdict:
        """Whether a batch (kafka-python's view of it) follows what its producer sent before.

        `bumps_epochs`: it belongs to a transaction of KIP-890's second part, where a producer that nothing is
        known of must begin with sequence 0.
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
        """The batch is in the log now."""
        entry = self.entries.get(batch.producer)
        if entry is None or entry.epoch < batch.producer_epoch:
            entry = self.entries[batch.producer] = ProducerEntry(batch.producer_epoch)
        entry.last_timestamp = batch.max_timestamp
        if not batch.is_control:
            last = _plus(batch.sequence, batch.count - 1)
            entry.recent.append((batch.sequence, last, batch.base, batch.appended_ms))
            del entry.recent[:-_REMEMBERED]

    def forget(self, producer: int) -> None:
        """As when nothing was heard of a producer for `producer.id.expiration.ms`."""
        self.entries.pop(producer, None)


def _plus(sequence: int, count: int) -> int:
    return (sequence + count) % _SEQUENCES
