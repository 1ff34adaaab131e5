"""Assigns records to partitions, and groups them into batches of limited size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from zlib import crc32

from mirror.model.topics import TopicPartition
from mirror.protocol.batches.records import Record

BATCH_BYTES: Final = 512 * 1024
"""Default maximum of the bytes of keys and values in a batch, which fits the default limit of topics."""


def sized_batches(records: Iterable[Record], largest: int = BATCH_BYTES) -> Iterator[list[Record]]:
    """Yield batches of records, in order, of at most `largest` bytes. A larger record has its own batch."""
    batch: list[Record] = []
    size = 0
    for record in records:
        if batch and size + record.payload_bytes > largest:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += record.payload_bytes
    if batch:
        yield batch


def partitioned_batches(
    records: Sequence[Record], places: Sequence[TopicPartition], available: Sequence[TopicPartition] = ()
) -> Iterator[tuple[TopicPartition, list[Record]]]:
    """Assign records to partitions, and yield the batches of each partition.

    `places`: all partitions of the topic. The CRC-32 of the key determines the partition of a record, as in
    librdkafka. Records without a key are distributed evenly over the available partitions; over all if none
    is available.
    """
    by_place: defaultdict[TopicPartition, list[Record]] = defaultdict(list)
    keyless = available or places
    for number, record in enumerate(records):
        if record.key is None:
            place = keyless[number * len(keyless) // len(records)]
        else:
            place = places[crc32(record.key) % len(places)]
        by_place[place].append(record)
    for place, part in by_place.items():
        for batch in sized_batches(part):
            yield place, batch
