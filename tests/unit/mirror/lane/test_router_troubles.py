"""Test the position and the items of a router after a batch that it cannot process."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from mirror.errors import (
    BatchTooLarge,
    CorruptData,
    HeadraceError,
    RecordTooLarge,
    TransformFailed,
    UndecodableBatch,
)
from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import OutBatch, Path
from mirror.lane.rules import MergeRule, Refusal, RoutingRules
from mirror.protocol.batches.batch import HEADER_SIZE, NO_PRODUCER, OVERHEAD
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.records import Record
from tests.models.source_log import holed_batch, old_message, sealed

MERGING: Final = RoutingRules(merge=MergeRule())
OPENING: Final = RoutingRules(opens_records=True)


def batch(
    base: int, places: Sequence[int], span: int = 0, codec: int = Codec.NONE, size: int = 8
) -> bytearray:
    """Return a batch of `span` offsets with records at these places."""
    records = [Record(base + place, 5, None, b"%0*d" % (size, base + place)) for place in places]
    made = holed_batch(records, codec, base=base, span=span or len(places))
    return sealed(made, base, codec, NO_PRODUCER)


def garbled(data: bytearray) -> bytearray:
    """Return the batch with an invalid payload and a correct checksum."""
    base = int.from_bytes(data[:8], "big")
    garbage = data[:HEADER_SIZE] + bytearray(byte ^ 0x5A for byte in data[HEADER_SIZE:])
    return sealed(garbage, base, data[22], NO_PRODUCER)


def cut(data: bytearray) -> bytearray:
    """Return the batch truncated within its last record, with a correct checksum."""
    return sealed(data[:-1], int.from_bytes(data[:8], "big"), data[22], NO_PRODUCER)


def damaged(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


class Taken:
    """Items that a router has made of some batches, and its error."""

    def __init__(
        self, rules: RoutingRules, *data: bytes | bytearray, start: int = 0, end: int | None = None
    ) -> None:
        whole = b"".join(data)
        self.router = BatchRouter(rules, start, ByteBudget(10**9), end)
        self.trouble: HeadraceError | None = None
        try:
            self.router.take(memoryview(bytearray(whole)), (), ReceiveBuffer(bytearray(), None))
        except HeadraceError as error:
            self.trouble = error
        self.ledger = Ledger(start)
        self.sent: list[int] = []
        self.paths: list[Path] = []
        for item in self.router.items:
            if isinstance(item, OutBatch):
                self.ledger.enter_batch(item.runs, item.origin.passed)
                self.sent += [first + step for first, count in item.runs for step in range(count)]
                self.paths.append(item.origin.path)
            else:
                self.ledger.pass_over(item)
        assert self.ledger.next == self.router.position

    @property
    def classes(self) -> dict[str, int]:
        """Offsets by class, without zeros."""
        return {name: count for name, count in self.ledger.by_class().items() if count}


TROUBLES: Final = [
    pytest.param(OPENING, garbled(batch(8, range(4))), UndecodableBatch, id="garbage"),
    pytest.param(OPENING, cut(batch(8, range(4))), UndecodableBatch, id="the end of a record"),
    pytest.param(OPENING, batch(8, [0, 2, 1, 3]), UndecodableBatch, id="offsets that fall"),
    pytest.param(OPENING, batch(8, [0, 1, 1, 3]), UndecodableBatch, id="an offset twice"),
    pytest.param(OPENING, batch(8, [0, 1, 2, 5], 4), UndecodableBatch, id="an offset behind the last"),
    pytest.param(MERGING, garbled(batch(8, [0, 2, 3], 4)), UndecodableBatch, id="garbage with holes"),
    pytest.param(MERGING, cut(batch(8, [0, 2, 3], 4)), UndecodableBatch, id="a cut with holes"),
    pytest.param(MERGING, batch(8, [0, 2, 1], 4), UndecodableBatch, id="offsets that fall, with holes"),
    pytest.param(MERGING, batch(8, [0, 5, 6], 4), UndecodableBatch, id="a false span with holes"),
    pytest.param(
        replace(MERGING, opened_bytes=5_000),
        batch(8, [0, 2, 3], 4, Codec.GZIP, 20_000),
        BatchTooLarge,
        id="too many bytes",
    ),
    pytest.param(MERGING, damaged(batch(8, range(4))), CorruptData, id="a wrong checksum"),
]


@pytest.mark.parametrize(("rules", "bad", "kind"), TROUBLES)
@pytest.mark.parametrize("before", [(), (0,), (0, 4)])
def test_what_lies_before_the_trouble_is_sent_and_all_of_the_rest_waits(
    rules: RoutingRules, bad: bytearray, kind: type[HeadraceError], before: tuple[int, ...]
) -> None:
    start = before[0] if before else 8
    good = [batch(base, range(4)) for base in before] if before != (0,) else [batch(0, range(8))]
    taken = Taken(rules, *good, bad, batch(12, range(4)), start=start)
    assert type(taken.trouble) is kind
    assert taken.router.position == 8
    assert taken.sent == list(range(start, 8))
    assert taken.classes == ({"mirrored": 8} if before else {})
    if isinstance(taken.trouble, BatchTooLarge | UndecodableBatch):
        assert (taken.trouble.offset, taken.trouble.last_offset) == (8, 11)
        again = Taken(
            replace(rules, unopened={11: Refusal(OffsetClass.FILTERED, 2**31 - 1)}),
            bad,
            batch(12, range(4)),
            start=8,
        )
        assert (again.trouble, again.sent) == (None, [12, 13, 14, 15])
        assert again.classes == {"filtered": 4, "mirrored": 4}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("bad", ["garbage", "bomb"])
def test_a_small_batch_that_need_not_be_opened_passes_as_it_is(codec: Codec, bad: str) -> None:
    middle = batch(2, range(2), codec=codec, size=50_000 if bad == "bomb" and codec else 8)
    data = [batch(0, range(2), codec=codec), middle, *(batch(base, range(2), codec=codec) for base in (4, 6))]
    if bad == "garbage" or not codec:
        data[1] = garbled(data[1])
    taken = Taken(replace(MERGING, opened_bytes=5_000), *data)
    assert taken.trouble is None
    assert taken.sent == list(range(8))
    unopened = [
        item.batch
        for item in taken.router.items
        if isinstance(item, OutBatch) and item.origin.path is Path.PASSTHROUGH
    ]
    assert bytes(data[1]) in [bytes(one) for one in unopened]
    assert sum(item.origin.source_batches for item in taken.router.items if isinstance(item, OutBatch)) == 4


def test_the_first_trouble_is_named_though_a_later_one_is_found_before() -> None:
    bad, later = garbled(batch(4, [0, 2], 4)), damaged(batch(12, range(4)))
    taken = Taken(MERGING, batch(0, range(4)), bad, batch(8, range(4)), later)
    assert isinstance(taken.trouble, UndecodableBatch)
    assert (taken.trouble.offset, taken.router.position, taken.sent) == (4, 4, [0, 1, 2, 3])


def test_of_a_large_batch_that_ends_in_garbage_nothing_is_sent() -> None:
    rules = RoutingRules(batch_limit=600, record_limit=600)
    data = batch(4, range(40), size=100)
    taken = Taken(rules, batch(0, range(4)), cut(data), batch(44, range(2)))
    assert isinstance(taken.trouble, UndecodableBatch)
    assert (taken.sent, taken.router.position) == ([0, 1, 2, 3], 4)
    whole = Taken(rules, data, start=4)
    assert (whole.sent, len(whole.paths) > 5) == (list(range(4, 44)), True)


def test_a_record_that_is_too_large_among_holes_keeps_the_classes_of_what_is_before_it() -> None:
    rules = RoutingRules(batch_limit=400, record_limit=400)
    records = [Record(place, 5, None, bytes(600 if place == 7 else 80)) for place in (1, 2, 4, 7, 8)]
    data = sealed(holed_batch(records, Codec.NONE, base=0, span=10), 0, Codec.NONE, NO_PRODUCER)
    taken = Taken(rules, data)
    assert isinstance(taken.trouble, RecordTooLarge)
    assert (taken.trouble.offset, taken.router.position) == (7, 7)
    assert (taken.sent, taken.classes) == ([1, 2, 4], {"mirrored": 3, "compacted": 4})
    again = Taken(replace(rules, omitted={7: Refusal(OffsetClass.DEAD_LETTERED, 2**31 - 1)}), data, start=7)
    assert (again.sent, again.classes) == ([8], {"mirrored": 1, "compacted": 1, "dead_lettered": 1})


def test_what_was_filtered_before_a_record_that_fails_is_not_filtered_again() -> None:
    def fails(record: Record) -> Record | None:
        if record.offset == 3:
            raise ValueError
        return None if record.offset in (1, 2) else record

    rules = RoutingRules(transforms=(fails,), transform_names=("fails",))
    taken = Taken(rules, batch(0, range(5)))
    assert isinstance(taken.trouble, TransformFailed)
    assert (taken.router.position, taken.sent, taken.classes) == (3, [0], {"mirrored": 1, "filtered": 2})


def test_a_batch_whose_records_are_all_left_out_is_followed_by_small_ones() -> None:
    rules = replace(MERGING, omitted=dict.fromkeys((0, 1), Refusal(OffsetClass.FILTERED, 2**31 - 1)))
    taken = Taken(rules, batch(0, range(2)), batch(2, range(2)), batch(4, range(2)))
    assert (taken.sent, taken.classes) == ([2, 3, 4, 5], {"filtered": 2, "mirrored": 4})


def test_an_empty_batch_with_bytes_behind_its_header_is_no_hole() -> None:
    empty = batch(4, [], 4)
    assert Taken(MERGING, batch(0, range(4)), empty, batch(8, range(4))).classes == {
        "mirrored": 8,
        "compacted": 4,
    }
    full = empty + bytes(20)
    struct.pack_into(">i", full, 8, len(full) - OVERHEAD)
    taken = Taken(MERGING, batch(0, range(4)), sealed(full, 4, Codec.NONE, NO_PRODUCER))
    assert isinstance(taken.trouble, UndecodableBatch)
    assert taken.router.position == 4


def wrapped(last: int, *messages: bytes, magic: int = 1, payload: bytes | None = None) -> bytearray:
    """Return a compressed message of an old format that wraps messages or another payload."""
    value = zlib.compress(b"".join(messages) if payload is None else payload, wbits=31)
    head = struct.pack(">bb", magic, Codec.GZIP) + (struct.pack(">q", 5) if magic else b"")
    body = head + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    checked = struct.pack(">I", zlib.crc32(body)) + body
    return bytearray(struct.pack(">qi", last, len(checked)) + checked)


OLD: Final = [bytes(old_message(Record(n, 5, None, b"%d" % n))) for n in range(4)]


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (wrapped(7, payload=b"no messages"), UndecodableBatch),
        (wrapped(7, payload=bytes(50_000)), BatchTooLarge),
        (damaged(wrapped(7, *OLD)), CorruptData),
    ],
)
def test_a_message_of_an_old_format_that_cannot_be_opened_goes_by_policy_too(
    bad: bytearray, kind: type[HeadraceError]
) -> None:
    rules = replace(MERGING, opened_bytes=5_000)
    taken = Taken(rules, wrapped(3, *OLD), bad, batch(8, range(2)))
    assert type(taken.trouble) is kind
    assert (taken.sent, taken.router.position) == ([0, 1, 2, 3], 4)
    if isinstance(taken.trouble, BatchTooLarge | UndecodableBatch):
        assert taken.trouble.last_offset == 7
        again = Taken(
            replace(rules, unopened={7: Refusal(OffsetClass.FILTERED, 2**31 - 1)}),
            bad,
            batch(8, range(2)),
            start=4,
        )
        assert (again.sent, again.classes) == ([8, 9], {"filtered": 4, "mirrored": 2})


@pytest.mark.parametrize("magic", [0, 1])
def test_holes_in_and_between_messages_of_old_formats_are_seen(magic: int) -> None:
    inner = [OLD[0], OLD[2]] if magic else [bytes(wrapped_plain(n)) for n in (4, 6)]
    taken = Taken(MERGING, wrapped(6, *inner, magic=magic), old_message(Record(9, 5, None, b"")))
    assert (taken.sent, taken.classes) == ([4, 6, 9], {"mirrored": 3, "compacted": 7})
    assert Taken(MERGING, old_message(Record(9, 5, None, b"")), end=8).classes == {"compacted": 8}


def wrapped_plain(offset: int) -> bytearray:
    """Return a message of format 0."""
    body = struct.pack(">bbii", 0, 0, -1, 1) + b"x"
    checked = struct.pack(">I", zlib.crc32(body)) + body
    return bytearray(struct.pack(">qi", offset, len(checked)) + checked)
