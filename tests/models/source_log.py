"""Plain model of a source partition: batches as stored by brokers, and the records to mirror."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from mirror.lane.ledger import OffsetClass
from mirror.protocol.batches import batch as batches
from mirror.protocol.batches.batch import HEADER_SIZE, BatchHeader, ProducerStamp, stamp
from mirror.protocol.batches.compression import Codec, compress
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.legacy import last_offset
from mirror.protocol.batches.records import Record
from mirror.protocol.frame import decode_signed, encode_signed


def header_of(batch: bytes | bytearray | memoryview) -> BatchHeader:
    """Return the header of the batch at the beginning of these bytes."""
    return BatchHeader(batch)


def last_of(batch: bytes | bytearray) -> int:
    """Return the last offset of a batch or of a message of an old format."""
    return last_offset(memoryview(batch)) if is_old(batch) else header_of(batch).last_offset


def is_old(batch: bytes | bytearray) -> bool:
    """Return whether it is a message of an old format."""
    return batch[16] < 2


def old_message(record: Record) -> bytearray:
    """Return a record in format 1, uncompressed."""
    fields = [
        struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
        for field in (record.key, record.value)
    ]
    body = struct.pack(">bbq", 1, 0, record.timestamp) + b"".join(fields)
    checked = struct.pack(">I", zlib.crc32(body)) + body
    return bytearray(struct.pack(">qi", record.offset, len(checked)) + checked)


def holed_batch(records: Sequence[Record], codec: int, *, base: int, span: int) -> bytearray:
    """Return a batch as after compaction: records at their own offsets within `span`, or none."""
    first_time = records[0].timestamp if records else 0
    payload = b"".join(
        _placed(record, record.timestamp - first_time, record.offset - base) for record in records
    )
    batch = batches.assemble(
        compress(codec, payload),
        codec=codec,
        base_timestamp=first_time,
        max_timestamp=max((record.timestamp for record in records), default=-1),
        count=len(records),
    )
    struct.pack_into(">i", batch, 23, span - 1)
    return batch


def _placed(record: Record, delta: int, place: int) -> bytes:
    payload = bytes(write_batch([record])[HEADER_SIZE:])
    _, position = decode_signed(payload, 0)
    _, position = decode_signed(payload, position + 1)
    _, position = decode_signed(payload, position)
    body = b"\x00" + encode_signed(delta) + encode_signed(place) + payload[position:]
    return encode_signed(len(body)) + body


def sealed(batch: bytearray, base: int, attributes: int, producer_id: int = 1, epoch: int = 4) -> bytearray:
    """Give a batch its offset, leader epoch, attributes and a valid checksum, as a broker stores it."""
    stamp(memoryview(batch), attributes, ProducerStamp(producer_id, 0), 5)
    struct.pack_into(">h", batch, 21, attributes)
    batches.seal(memoryview(batch))
    struct.pack_into(">qii", batch, 0, base, len(batch) - batches.OVERHEAD, epoch)
    return batch


@dataclass
class SourceLog:
    """Partition: stored batches in order, and the expected class of every offset."""

    batches: list[bytearray] = field(default_factory=list)
    visible: list[Record] = field(default_factory=list)
    """Records that a read_committed mirror copies, with source offsets and final timestamps."""
    offset_classes: dict[int, OffsetClass] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker) of aborted transactions."""
    start: int = 0
    end: int = 0

    def fetch(self, position: int, size: int) -> memoryview:
        """Return data from the batch at `position` on, cut at `size` bytes; the first batch is whole."""
        found = bytearray()
        for batch in self.batches:
            if last_of(batch) < position:
                continue
            if found and len(found) + len(batch) > size:
                found += batch[: max(size - len(found), 0)]
                break
            found += batch
        return memoryview(found)

    def aborted_in(self, position: int) -> list[tuple[int, int]]:
        """Return the aborted transactions with a marker at or after `position`, as listed by a broker."""
        return [(producer, first) for producer, first, marker in self.aborted if marker >= position]


FIELDS = st.none() | st.binary(max_size=60)
RECORDS = st.tuples(
    st.integers(0, 2**42), FIELDS, FIELDS, st.just(()) | st.just(((b"h", None), (b"h", b"x")))
)


KINDS = ["dense", "dense", "dense", "holes", "empty", "append", "abort", "marker", "gap"]


@st.composite
def source_logs(draw: st.DrawFn, most_batches: int = 8, old_formats: bool = False) -> SourceLog:
    """Draw dense, holed, empty, append-time, transactional, aborted and control batches in any order.

    `old_formats`: with messages of an old format between them.
    """
    log = SourceLog()
    log.start = log.end = draw(st.integers(0, 40))
    open_aborts: dict[int, int] = {}
    for _ in range(draw(st.integers(1, most_batches))):
        kind = draw(st.sampled_from([*KINDS, "old", "old"] if old_formats else KINDS))
        if kind == "gap":
            log.end += draw(st.integers(1, 5))
        elif kind == "old":
            _add_old(draw, log)
        elif kind == "marker":
            _add_marker(draw, log, open_aborts)
        else:
            _add_batch(draw, log, kind, open_aborts)
    for producer in list(open_aborts):
        _add_abort_marker(log, producer, open_aborts)
    return log


def _add_batch(draw: st.DrawFn, log: SourceLog, kind: str, open_aborts: dict[int, int]) -> None:
    codec = draw(st.sampled_from(list(Codec)))
    contents = draw(st.lists(RECORDS, min_size=1, max_size=6))
    places = list(range(len(contents)))
    if kind == "holes":
        places = sorted(draw(st.sets(st.integers(0, 90), min_size=len(contents), max_size=len(contents))))
    span = places[-1] + 1 + (draw(st.integers(0, 3)) if kind in ("holes", "empty") else 0)
    base = log.end
    records = [Record(base + place, *content) for place, content in zip(places, contents, strict=True)]
    attributes, producer = int(codec), 1
    if kind == "empty":
        records = []
    if kind == "abort":
        producer = draw(st.sampled_from([7, 8]))
        attributes |= batches.TRANSACTIONAL
        open_aborts.setdefault(producer, base)
    batch = holed_batch(records, codec, base=base, span=span)
    if kind == "append":
        attributes |= batches.LOG_APPEND_TIME
        stamped = draw(st.integers(0, 2**42))
        struct.pack_into(">q", batch, 35, stamped)
        records = [record._replace(timestamp=stamped) for record in records]
    log.batches.append(sealed(batch, base, attributes, producer))
    log.end = base + span
    offset_class = OffsetClass.ABORTED if kind == "abort" else OffsetClass.MIRRORED
    for record in records:
        log.offset_classes[record.offset] = offset_class
    if kind != "abort":
        log.visible += records


def _add_old(draw: st.DrawFn, log: SourceLog) -> None:
    timestamp, key, value, _ = draw(RECORDS)
    record = Record(log.end, timestamp, key, value)
    log.batches.append(old_message(record))
    log.offset_classes[record.offset] = OffsetClass.MIRRORED
    log.visible.append(record)
    log.end += 1


def _add_marker(draw: st.DrawFn, log: SourceLog, open_aborts: dict[int, int]) -> None:
    if draw(st.booleans()) and open_aborts:
        _add_abort_marker(log, draw(st.sampled_from(sorted(open_aborts))), open_aborts)
    else:
        _control(log, producer=9, kind=1)


def _add_abort_marker(log: SourceLog, producer: int, open_aborts: dict[int, int]) -> None:
    log.aborted.append((producer, open_aborts.pop(producer), log.end))
    _control(log, producer, kind=0)


def _control(log: SourceLog, producer: int, kind: int) -> None:
    record = Record(log.end, 1, struct.pack(">hh", 0, kind), b"\x00\x00\x00\x00\x00\x00")
    batch = holed_batch([record], Codec.NONE, base=log.end, span=1)
    log.batches.append(sealed(batch, log.end, batches.TRANSACTIONAL | batches.CONTROL, producer))
    log.offset_classes[log.end] = OffsetClass.CONTROL
    log.end += 1
