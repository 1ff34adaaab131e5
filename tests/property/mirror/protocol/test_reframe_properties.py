"""Reframing compared with a plain model: decode every record, select, encode again."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import CorruptData
from mirror.protocol.batches import batch as batches
from mirror.protocol.batches.batch import HEADER_SIZE, BatchHeader, ProducerStamp, scan, stamp, verify
from mirror.protocol.batches.compression import Codec, compress
from mirror.protocol.batches.decompression import decompress
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record, check_order, read_batch, read_records
from mirror.protocol.batches.reframe import START, Reframed, Reframer, StopPoint
from mirror.protocol.frame import decode_signed, encode_signed

TIMESTAMPS = st.integers(-1, 2**43)
FIELDS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.binary(max_size=5), FIELDS), max_size=3).map(tuple)
CODECS = st.sampled_from(list(Codec))


@dataclass(frozen=True)
class SourceBatch:
    """A batch as after log cleaning: `records` with their offsets, and gaps between them."""

    data: bytearray
    records: list[Record]

    @property
    def header(self) -> BatchHeader:
        return BatchHeader(self.data)

    @property
    def payload(self) -> bytes:
        return decompress(self.header.codec, self.data[HEADER_SIZE:])


def with_holes(records: Sequence[Record], codec: int, *, base: int, span: int) -> bytearray:
    """Write records at their offset deltas, as after compaction, in a batch of `span` offsets."""
    dense = write_batch(records, Codec.NONE)
    header = BatchHeader(dense)
    builder = bytearray()
    for record in records:
        single = write_batch([record], Codec.NONE)
        payload = bytes(single[HEADER_SIZE:])
        builder += moved(payload, record.timestamp - header.base_timestamp, record.offset - base)
    batch = batches.assemble(
        compress(codec, bytes(builder)),
        codec=codec,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        count=len(records),
    )
    struct.pack_into(">i", batch, 23, span - 1)
    batches.seal(memoryview(batch))
    stamp(memoryview(batch), codec, ProducerStamp(1, 1), 5)
    batch[0:8] = struct.pack(">q", base)
    return batch


def moved(payload: bytes, delta: int, place: int) -> bytes:
    """Return a single record with another timestamp and offset delta."""
    _, position = decode_signed(payload, 0)
    _, position = decode_signed(payload, position + 1)
    _, position = decode_signed(payload, position)
    body = b"\x00" + encode_signed(delta) + encode_signed(place) + payload[position:]
    return encode_signed(len(body)) + body


@st.composite
def source_batches(draw: st.DrawFn, start: int = 0) -> SourceBatch:
    places = sorted(draw(st.sets(st.integers(0, 400), min_size=1, max_size=12)))
    span = places[-1] + 1 + draw(st.integers(0, 3))
    base = start + draw(st.integers(0, 50))
    first_time = draw(TIMESTAMPS)
    records = [
        Record(
            base + place,
            max(-1, first_time + draw(st.integers(-20_000, 20_000))),
            draw(FIELDS),
            draw(FIELDS),
            draw(HEADERS),
        )
        for place in places
    ]
    return SourceBatch(with_holes(records, draw(CODECS), base=base, span=span), records)


@st.composite
def source_logs(draw: st.DrawFn) -> list[SourceBatch]:
    log: list[SourceBatch] = []
    for _ in range(draw(st.integers(1, 4))):
        log.append(draw(source_batches(start=log[-1].header.last_offset + 1 if log else 0)))
    return log


def check(made: Reframed, expected: Sequence[Record]) -> None:
    """Check that the batch is complete and dense, with the expected records and source offsets."""
    (start, end, header), *rest = scan(memoryview(made.batch))
    assert header is not None
    assert not rest
    assert (start, end) == (0, len(made.batch))
    stamp(memoryview(made.batch), header.attributes, ProducerStamp(2, 0), 0)
    header = BatchHeader(made.batch)
    verify(memoryview(made.batch), header)
    assert header.is_dense
    assert header.base_offset == 0
    found = read_batch(memoryview(made.batch), header)
    assert [record.content for record in found] == [record.content for record in expected]
    assert [record.offset for record in found] == list(range(len(expected)))
    sources = [first + step for first, count in made.runs for step in range(count)]
    assert sources == [record.offset for record in expected]
    assert header.max_timestamp == made.times.newest == max(record.timestamp for record in expected)
    assert sum(count for _, count in made.times.by_source) == len(expected)
    assert made.record_count == len(expected)
    for (first, count), (following, _) in zip(made.runs, made.runs[1:], strict=False):
        assert first + count < following


@given(source_logs(), CODECS, st.integers(0, 600))
def test_batch_merge_and_trimming_keeps_every_wanted_record(
    log: list[SourceBatch], codec: Codec, first: int
) -> None:
    reframer = Reframer(codec)
    for batch in log:
        assert reframer.add(batch.payload, batch.header, first, 2**30) is None
    expected = [record for batch in log for record in batch.records if record.offset >= first]
    assert reframer.count == len(expected)
    if expected:
        check(reframer.finish(), expected)


@given(source_logs(), st.data())
def test_nothing_is_kept_of_a_batch_that_ends_inside_a_record(
    log: list[SourceBatch], data: st.DataObject
) -> None:
    reframer = Reframer(Codec.NONE)
    expected: list[Record] = []
    for batch in log:
        is_cut = data.draw(st.booleans())
        if batch.records and is_cut:
            with pytest.raises(CorruptData):
                reframer.add(batch.payload[:-1], batch.header, 0, 2**30)
        else:
            reframer.add(batch.payload, batch.header, 0, 2**30)
            expected += batch.records
    if expected:
        check(reframer.finish(), expected)


@given(source_batches(), st.integers(1, 1_500))
def test_splitting_loses_nothing_and_obeys_the_limit(batch: SourceBatch, limit: int) -> None:
    resume: StopPoint | None = START
    taken = 0
    while resume is not None:
        reframer = Reframer(batch.header.codec)
        resume = reframer.add(batch.payload, batch.header, 0, limit, resume)
        made = reframer.finish()
        check(made, batch.records[taken : taken + made.record_count])
        assert made.record_count == 1 or made.payload_bytes <= limit + 16
        taken += made.record_count
    assert taken == len(batch.records)


@given(source_batches(), CODECS)
def test_append_time_becomes_the_timestamp_of_every_record(batch: SourceBatch, codec: Codec) -> None:
    header = batch.header
    header.attributes |= batches.LOG_APPEND_TIME
    header.max_timestamp = 1_700_000_000_000
    reframer = Reframer(codec)
    reframer.add(batch.payload, header, 0, 2**30)
    check(reframer.finish(), [record._replace(timestamp=1_700_000_000_000) for record in batch.records])


@given(st.lists(st.tuples(TIMESTAMPS, FIELDS, FIELDS, HEADERS), min_size=1, max_size=20), CODECS)
def test_what_is_written_is_read_again(
    contents: list[tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]],
    codec: Codec,
) -> None:
    records = [Record(number, *content) for number, content in enumerate(contents)]
    batch = write_batch(records, codec)
    stamp(memoryview(batch), codec, ProducerStamp(1, 0), 0)
    header = BatchHeader(batch)
    verify(memoryview(batch), header)
    assert read_batch(memoryview(batch), header) == records


@given(st.binary(max_size=300), st.binary(max_size=60), st.integers(1, 5))
def test_nonsense_payloads_are_refused_by_both_readers_alike(data: bytes, tail: bytes, count: int) -> None:
    """The reframer accepts every payload that the full decoder accepts; it may be laxer but never crashes."""
    header = BatchHeader(batches.HEADER.pack(0, 0, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count))
    reframer = Reframer(Codec.NONE)
    try:
        reframer.add(data + tail, header, 0, 2**20)
        accepted = True
    except CorruptData:
        accepted = False
    try:
        check_order(read_records(data + tail, header), header.span)
    except CorruptData:
        return
    assert accepted
