"""Test the scanning, verification and stamping of batches."""

from __future__ import annotations

import struct

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from mirror.errors import CorruptData
from mirror.protocol.batches import batch as batches
from mirror.protocol.batches.batch import BatchHeader, ProducerStamp, scan, seal, stamp, verify
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record, read_batch

SHARED_CODECS = [codec for codec in Codec if codec != Codec.SNAPPY]
"""Codecs that kafka-python supports with the installed packages; snappy is tested with real brokers."""
IDENTITY = ProducerStamp(producer_id=4711, epoch=3)


def a_batch(offset: int = 0, count: int = 3, codec: int = Codec.NONE) -> bytearray:
    """Return a whole batch as a broker would send it."""
    records = [Record(0, 1_000 + number, b"k%d" % number, b"v" * 50) for number in range(count)]
    batch = write_batch(records, codec)
    stamp(memoryview(batch), codec, ProducerStamp(9, 0), 77)
    batch[0:8] = struct.pack(">q", offset)
    return batch


def header_of(batch: bytearray) -> BatchHeader:
    return BatchHeader(batch)


def test_scan_finds_every_whole_batch_and_stops_at_the_one_that_is_cut_off() -> None:
    data = bytes(a_batch(0) + a_batch(3) + a_batch(6)[:-1])
    found = [(start, header.base_offset) for start, _, header in scan(memoryview(data)) if header]
    assert found == [(0, 0), (len(a_batch()), 3)]


@pytest.mark.parametrize("size", range(17))
def test_scan_of_less_than_a_head_finds_nothing(size: int) -> None:
    assert list(scan(memoryview(bytes(a_batch()[:size])))) == []


def test_scan_hands_out_old_formats_without_a_header() -> None:
    message = struct.pack(">qiIbb", 5, 14, 0, 1, 0) + b"\xff" * 8
    assert [(start, end, header) for start, end, header in scan(memoryview(message))] == [(0, 26, None)]


@pytest.mark.parametrize(
    ("length", "magic", "words"),
    [(48, 2, "length of 48"), (-1, 2, "length of -1"), (13, 1, "length of 13"), (100, 3, "format 3")],
)
def test_scan_refuses_what_cannot_be(length: int, magic: int, words: str) -> None:
    data = struct.pack(">qiib", 0, length, 0, magic) + bytes(200)
    with pytest.raises(CorruptData, match=words):
        list(scan(memoryview(data)))


def test_verify_finds_every_flipped_bit_under_the_checksum() -> None:
    batch = a_batch()
    verify(memoryview(batch), header_of(batch))
    for position in range(batches.CHECKED_FROM, len(batch), 7):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptData, match="checksum"):
            verify(memoryview(damaged), header_of(damaged))


@pytest.mark.parametrize(("count", "last_delta"), [(4, 2), (-1, 2), (0, -2), (3, -1)])
def test_verify_refuses_impossible_counts(count: int, last_delta: int) -> None:
    batch = a_batch()
    struct.pack_into(">i", batch, 23, last_delta)
    struct.pack_into(">i", batch, 57, count)
    seal(memoryview(batch))
    with pytest.raises(CorruptData, match="claims"):
        verify(memoryview(batch), header_of(batch))


def test_stamp_changes_the_identity_and_nothing_that_a_consumer_sees() -> None:
    batch = a_batch(offset=500)
    before = read_batch(memoryview(batch), header_of(batch))
    struct.pack_into(">h", batch, 21, batches.DELETE_HORIZON | batches.LOG_APPEND_TIME)
    seal(memoryview(batch))
    stamp(memoryview(batch), header_of(batch).attributes, IDENTITY, 12)
    header = header_of(batch)
    verify(memoryview(batch), header)
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (
        0,
        4711,
        3,
        12,
    )
    assert header.attributes == 0
    after = read_batch(memoryview(batch), header)
    assert [record.content for record in after] == [record.content for record in before]


@pytest.mark.parametrize("at", [62, 100, -1])
def test_bytes_damaged_after_they_were_verified_do_not_get_a_right_checksum(at: int) -> None:
    batch = a_batch()
    verify(memoryview(batch), header_of(batch))
    batch[at] ^= 0x20
    stamp(memoryview(batch), header_of(batch).attributes, IDENTITY, 12)
    with pytest.raises(CorruptData, match="checksum"):
        verify(memoryview(batch), header_of(batch))


def test_stamp_sets_and_clears_the_transactional_bit() -> None:
    batch = a_batch(codec=Codec.LZ4)
    stamp(memoryview(batch), header_of(batch).attributes, IDENTITY._replace(transactional=True), 0)
    assert header_of(batch).attributes == Codec.LZ4 | batches.TRANSACTIONAL
    stamp(memoryview(batch), header_of(batch).attributes, IDENTITY, 0)
    assert header_of(batch).attributes == Codec.LZ4


def test_sequences_wrap_to_zero() -> None:
    assert batches.next_sequence(0, 10) == 10
    assert batches.next_sequence(2**31 - 5, 10) == 5
    assert batches.next_sequence(2**31 - 10, 10) == 0


@pytest.mark.parametrize("codec", SHARED_CODECS)
def test_another_implementation_reads_what_we_write(codec: Codec) -> None:
    records = [
        Record(0, 1_000, b"key", b"value", ((b"h", b"x"), (b"h", None), (b"", b""))),
        Record(1, 900, None, b""),
        Record(2, 1_500, b"", None),
    ]
    batch = write_batch(records, codec)
    stamp(memoryview(batch), codec, IDENTITY, 0)
    theirs = DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    read = [
        Record(one.offset, one.timestamp, one.key, one.value, tuple((k.encode(), v) for k, v in one.headers))
        for one in theirs
    ]
    assert read == records


@pytest.mark.parametrize("codec", SHARED_CODECS)
def test_we_read_what_another_implementation_writes(codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec.value,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    for number in range(20):
        builder.append(number, 1_000 + number * 40, b"k%d" % number, b"v" * 300, [("h", b"%d" % number)])
    batch = bytearray(builder.build())
    verify(memoryview(batch), header_of(batch))
    records = read_batch(memoryview(batch), header_of(batch))
    assert records == [
        Record(number, 1_000 + number * 40, b"k%d" % number, b"v" * 300, ((b"h", b"%d" % number),))
        for number in range(20)
    ]


@pytest.mark.parametrize(
    ("attributes", "base", "newest", "first"),
    [
        (0, 5_000, 9_000, 5_000),
        (batches.LOG_APPEND_TIME, 5_000, 9_000, 9_000),
        (batches.DELETE_HORIZON, 5_000, 9_000, 9_000),
        (0, -1, 9_000, 9_000),
        (0, -1, -1, -1),
        (0, 12_000, 9_000, 9_000),
    ],
    ids=["create time", "append time", "delete horizon", "no first", "none", "damaged"],
)
def test_the_first_timestamp_is_that_of_a_record(attributes: int, base: int, newest: int, first: int) -> None:
    header = header_of(a_batch())
    header.attributes |= attributes
    header.base_timestamp, header.max_timestamp = base, newest
    assert header.first_timestamp == first
