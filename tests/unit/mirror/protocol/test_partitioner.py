"""Test the assignment of records to partitions and batches."""

from __future__ import annotations

from zlib import crc32

from mirror.model.topics import TopicPartition
from mirror.protocol.batches.partitioner import partitioned_batches, sized_batches
from mirror.protocol.batches.records import Record


def test_batches_keep_the_order_and_limit_the_size() -> None:
    values = {b"a": b"x" * 400_000, b"b": None, b"c": b"x" * 2_000_000, b"d": b"", b"e": b"x" * 400_000}
    records = [Record(0, 7, key, value) for key, value in values.items()]
    keys = [[record.key for record in batch] for batch in sized_batches(records)]
    assert keys == [[b"a", b"b"], [b"c"], [b"d", b"e"]]
    assert list(sized_batches([])) == []


def test_a_key_determines_the_partition_and_records_without_key_are_distributed() -> None:
    places = [TopicPartition("t", number) for number in range(3)]
    keyed = [Record(0, 7, b"%d" % number, None) for number in range(30)]
    found = dict(partitioned_batches(keyed, places))
    assert sorted(record for batch in found.values() for record in batch) == sorted(keyed)
    for place, batch in found.items():
        assert {crc32(record.key or b"") % 3 for record in batch} == {place.partition}
    spread = partitioned_batches([Record(0, 7, None, b"v")] * 30, places)
    assert [(place, len(batch)) for place, batch in spread] == [(place, 10) for place in places]
