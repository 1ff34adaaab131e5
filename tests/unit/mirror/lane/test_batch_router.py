"""Test the router with batches of different paths in one response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mirror.errors import BatchTooLarge, CorruptData, PayloadTooLarge, TransformFailed
from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.ledger import OffsetClass, SkippedOffsets
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import OutBatch
from mirror.lane.rules import MergeRule, Refusal, RoutingRules
from mirror.protocol.batches.batch import CONTROL, NO_PRODUCER, TRANSACTIONAL, scan, seal
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record, read_batch
from tests.models.source_log import holed_batch, sealed

MERGING = MergeRule()


def batch(base: int, offsets: Sequence[int], span: int = 0) -> bytearray:
    records = [Record(offset, 5, None, b"%d" % offset) for offset in offsets]
    made = holed_batch(
        records, Codec.NONE, base=base, span=span or (offsets[-1] - base + 1 if offsets else 1)
    )
    return sealed(made, base, Codec.NONE, NO_PRODUCER)


def taken(
    rules: RoutingRules, position: int, *batches: bytearray, end: int | None = None
) -> tuple[list[int], dict[OffsetClass, int]]:
    """Return the source offsets that are sent, and the number of offsets by class."""
    data = b"".join(batches)
    router = BatchRouter(rules, position, ByteBudget(10**9), end)
    router.take(memoryview(data), (), ReceiveBuffer(bytearray(data), None))
    sent: list[int] = []
    offset_classes = {OffsetClass.MIRRORED: 0}
    for item in router.items:
        if isinstance(item, OutBatch):
            sent += [first + step for first, count in item.runs for step in range(count)]
            offset_classes[OffsetClass.MIRRORED] += item.count
        for passed in item.origin.passed if isinstance(item, OutBatch) else (item,):
            offset_classes[passed.offset_class] = offset_classes.get(passed.offset_class, 0) + passed.count
    assert sum(offset_classes.values()) == router.position - position, "every offset has a class"
    return sent, offset_classes


def test_small_batches_behind_opened_records_are_sent_too() -> None:
    rules = RoutingRules(merge=MERGING, opened_below=3, opened_epoch=2**31 - 1)
    sent, offset_classes = taken(rules, 0, batch(0, [0, 1, 2]), batch(3, [3, 4]), batch(5, [5]))
    assert sent == [0, 1, 2, 3, 4, 5]
    assert offset_classes == {OffsetClass.MIRRORED: 6}


def test_holes_at_the_end_of_a_batch_that_is_opened_singly_are_counted() -> None:
    rules = RoutingRules(merge=MERGING, opened_below=10, opened_epoch=2**31 - 1, opens_singly=True)
    sent, offset_classes = taken(rules, 0, batch(0, [0, 2], span=5), batch(5, [], span=2), batch(7, [7]))
    assert sent == [0, 2, 7]
    assert offset_classes == {OffsetClass.MIRRORED: 3, OffsetClass.COMPACTED: 5}


def test_a_start_in_the_holes_at_the_end_of_an_opened_batch_is_counted() -> None:
    rules = RoutingRules(opens_records=True)
    sent, offset_classes = taken(rules, 3, batch(0, [0, 2], span=5), batch(5, [], span=2), batch(7, [7]))
    assert sent == [7]
    assert offset_classes == {OffsetClass.MIRRORED: 1, OffsetClass.COMPACTED: 4}


def test_behind_the_end_nothing_is_taken_but_a_batch_that_reaches_over_it_is_whole() -> None:
    behind = batch(6, [6, 7])
    assert taken(RoutingRules(), 0, batch(0, [0, 1, 2, 3, 4, 5]), behind, end=3) == (
        [0, 1, 2, 3, 4, 5],
        {OffsetClass.MIRRORED: 6},
    )
    assert taken(RoutingRules(), 0, batch(0, [0, 1]), behind, end=4) == (
        [0, 1],
        {OffsetClass.MIRRORED: 2, OffsetClass.COMPACTED: 2},
    )


def bomb(codec: Codec, count: int, size: int = 0, claimed: int | None = None) -> memoryview:
    """Return a small batch that decompresses into `count` records of `size` bytes."""
    batch = write_batch([Record(0, 1, None, bytes(size))] * count, codec)
    if claimed is not None:
        batch[57:61] = claimed.to_bytes(4, "big")
        batch[23:27] = (claimed - 1).to_bytes(4, "big")
        seal(memoryview(batch))
    return memoryview(batch)


def opened(batches: bytes, rules: RoutingRules, room: int = 10**9) -> BatchRouter:
    router = BatchRouter(rules, 0, ByteBudget(10**9), None, room)
    router.take(memoryview(bytearray(batches)), (), ReceiveBuffer(bytearray(), None))
    return router


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(("records", "size"), [(30_000, 0), (10, 300_000)])
def test_a_batch_that_opens_into_too_much_is_named_and_not_opened(
    codec: Codec, records: int, size: int
) -> None:
    rules = RoutingRules(opens_records=True, opened_records=20_000, opened_bytes=2**20)
    batch = bomb(codec, records, size)
    router = BatchRouter(rules, 0, ByteBudget(10**9))
    with pytest.raises(BatchTooLarge, match="at offset 0") as raised:
        router.take(batch, (), ReceiveBuffer(bytearray(), None))
    assert (raised.value.offset, raised.value.last_offset) == (0, records - 1)
    assert (router.position, router.items) == (0, [])
    left_out = replace(rules, unopened={records - 1: Refusal(OffsetClass.FILTERED, 2**31 - 1)})
    (item,) = opened(bytes(batch), left_out).items
    assert isinstance(item, SkippedOffsets)
    assert (item.offset_class, item.count) == (OffsetClass.FILTERED, records)


def test_headers_count_as_records_do() -> None:
    """A record with 60,000 headers has 120,000 bytes, 600 when compressed with zstd."""
    record = Record(0, 1, None, b"", ((b"", None),) * 60_000)
    batch = memoryview(write_batch([record], Codec.ZSTD))
    with pytest.raises(BatchTooLarge) as raised:
        opened(bytes(batch), RoutingRules(opens_records=True, opened_records=50_000))
    assert (raised.value.offset, raised.value.last_offset) == (0, 0)
    router = opened(bytes(batch), RoutingRules(opens_records=True, opened_records=70_000))
    assert router.work > 60_000


@pytest.mark.parametrize(
    "records",
    [[Record(0, 1, None, None)] * 20_001, [Record(0, 1, None, None, ((b"", None),) * 20_000)]],
    ids=["records", "headers"],
)
def test_readers_of_whole_batches_have_a_limit_too(records: list[Record]) -> None:
    batch = memoryview(write_batch(records, Codec.ZSTD))
    header = next(scan(batch))[2]
    assert header is not None
    with pytest.raises(PayloadTooLarge):
        read_batch(batch, header, most=20_000)
    assert len(read_batch(batch, header)) == len(records)


def test_a_marker_with_records_is_not_opened() -> None:
    """A valid control batch has one record; this one is from a malicious broker."""
    batch = bytearray(bomb(Codec.ZSTD, 30_000))
    batch[21:23] = (CONTROL | TRANSACTIONAL | Codec.ZSTD).to_bytes(2, "big")
    batch[43:51] = (7).to_bytes(8, "big")
    seal(memoryview(batch))
    router = BatchRouter(RoutingRules(), 0, ByteBudget(10**9))
    with pytest.raises(PayloadTooLarge):
        router.take(memoryview(batch), ((7, 0),), ReceiveBuffer(bytearray(), None))


def test_a_large_batch_of_large_bytes_is_opened_whatever_the_limit() -> None:
    rules = RoutingRules(opens_records=True, opened_records=2, opened_bytes=1000)
    assert opened(bytes(bomb(Codec.NONE, 1, 100_000)), rules).position == 1


def test_a_count_of_records_that_the_bytes_cannot_hold_is_not_believed() -> None:
    batch = bomb(Codec.LZ4, 3, claimed=200_000)
    with pytest.raises(CorruptData, match="claims 200000 records"):
        opened(bytes(batch), RoutingRules(opens_records=True))


def test_what_there_is_no_room_for_is_left_for_later() -> None:
    log = bytearray()
    for number in range(5):
        batch = bytearray(bomb(Codec.LZ4, 1000))
        batch[0:8] = (number * 1000).to_bytes(8, "big")
        log += batch
    rules = RoutingRules(opens_records=True)
    router = opened(bytes(log), rules, room=1500)
    assert (router.is_cut, router.position) == (True, 2000)
    assert opened(bytes(log), rules).position == 5000


def shouts(record: Record) -> Record | None:
    """Convert a value to upper case; fail or return an invalid result for some values."""
    assert record.value is not None
    if record.value == b"raises":
        raise KeyError(record.value)
    if record.value == b"garbage":
        return "no record"  # type: ignore[return-value]
    if record.value == b"exits":
        raise SystemExit(3)
    if record.value == b"half":
        return record._replace(key="not bytes")  # type: ignore[arg-type]
    return None if record.value == b"dropped" else record._replace(value=record.value.upper())


@pytest.mark.parametrize("bad", [b"raises", b"exits", b"garbage", b"half"])
def test_a_record_that_a_transform_cannot_treat_is_named_and_what_is_before_it_goes_on(bad: bytes) -> None:
    rules = RoutingRules(transforms=(shouts,), transform_names=("shouts:x",))
    before = write_batch([Record(0, 5, None, b"one")])
    after = write_batch([Record(0, 5, None, value) for value in (b"dropped", b"two", bad, b"three")])
    after[0:8] = (1).to_bytes(8, "big")
    router = BatchRouter(rules, 0, ByteBudget(10**9))
    with pytest.raises(TransformFailed, match=r"shouts:x.*offset 3") as raised:
        router.take(memoryview(before + after), (), ReceiveBuffer(bytearray(), None))
    assert raised.value.offset == 3
    assert router.position == 3
    assert sum(item.count for item in router.items if isinstance(item, OutBatch)) == 2
    omitting = replace(rules, omitted={3: Refusal(OffsetClass.DEAD_LETTERED, 2**31 - 1)})
    whole = BatchRouter(omitting, 0, ByteBudget(10**9))
    whole.take(memoryview(before + after), (), ReceiveBuffer(bytearray(), None))
    assert whole.position == 5
