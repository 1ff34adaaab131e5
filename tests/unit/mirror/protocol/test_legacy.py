"""Test messages of formats 0 and 1 written by another implementation."""

from __future__ import annotations

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror.errors import CorruptData
from mirror.protocol.batches.batch import scan
from mirror.protocol.batches.legacy import last_offset, read_message
from mirror.protocol.batches.records import Record


def written(magic: int, codec: int) -> bytearray:
    builder = LegacyRecordBatchBuilder(magic, codec, 10**6)
    builder.append(0, timestamp=1_000, key=b"a", value=b"x" * 200)
    builder.append(1, timestamp=2_000, key=None, value=b"y" * 200)
    builder.append(2, timestamp=3_000, key=b"c", value=None)
    data = bytearray(builder.build())
    if codec:
        data[0:8] = (2).to_bytes(8, "big")  # like a broker: the outer offset is the last inner one
    return data


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 3)])
def test_messages_are_read_with_their_offsets(magic: int, codec: int) -> None:
    data = memoryview(written(magic, codec))
    records = [record for start, end, _ in scan(data) for record in read_message(data[start:end])]
    stamps = [1_000, 2_000, 3_000] if magic else [-1, -1, -1]
    assert records == [
        Record(0, stamps[0], b"a", b"x" * 200),
        Record(1, stamps[1], None, b"y" * 200),
        Record(2, stamps[2], b"c", None),
    ]


def test_a_broker_moves_a_compressed_message_by_its_outer_offset() -> None:
    data = written(1, 1)
    data[0:8] = (1_002).to_bytes(8, "big")
    assert last_offset(memoryview(data)) == 1_002
    assert [record.offset for record in read_message(memoryview(data))] == [1_000, 1_001, 1_002]


@pytest.mark.parametrize("position", [17, 20, 40, 60])
def test_damage_is_found(position: int) -> None:
    data = written(1, 0)
    data[position] ^= 1
    (start, end, _), *_ = scan(memoryview(data))
    with pytest.raises(CorruptData):
        read_message(memoryview(data)[start:end])
