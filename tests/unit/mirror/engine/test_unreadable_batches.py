"""Test batches that must be opened and cannot be, for every cause, policy and guarantee.

There are good batches around them. No record that the source still has may be passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, Final

import pytest
import zstandard

from mirror.lane.ledger import OffsetClass
from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.lanes import LanePaused, LaneStopped
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Guarantee, OnRejection
from tests.fakes.broker import batches
from tests.fakes.broker.accounts import DeadLetter, check_accounts, letters_of
from tests.fakes.broker.batches import Content
from tests.fakes.broker.contents import committed
from tests.fakes.broker.mirrored import MirroredFakes

NewFakes = Callable[..., MirroredFakes]
GZIP, LZ4, ZSTD = 1, 3, 4
SPAN: Final = 4
"""Number of offsets in every batch."""
LIMIT: Final = 20_000
DEFAULT_BYTES: Final = "1048588"
OPTIONS: Final[Mapping[str, Any]] = {"opened_batch_bytes": LIMIT}
PARTITIONS: Final = 3
TIGHT: Final[Mapping[str, Any]] = {
    "buffer_bytes": 150_000,
    "live_buffer_bytes": 150_000,
    "fetch_bytes": 80_000,
    "live_fetch_bytes": 80_000,
    "request_bytes": 30_000,
}


@dataclass(frozen=True)
class Cause:
    """Cause for which batches must be opened.

    `shape`: function that gives a batch this cause; `policy`: options of the datastream; `max_message_bytes`:
    setting of the destination topic; `starts_inside`: the log starts within its first batch.
    """

    name: str
    codec: int
    shape: Callable[[bytes], bytes] = lambda data: data
    policy: Mapping[str, Any] = field(default_factory=dict)
    max_message_bytes: str = DEFAULT_BYTES
    starts_inside: bool = False


def with_append_time(data: bytes) -> bytes:
    read = batches.view(data)
    return batches.restamped(
        data, attributes=read.attributes | batches.APPEND_TIME, max_timestamp=read.max_timestamp + 5
    )


CAUSES: Final = [
    Cause("merging", ZSTD),
    Cause("a start inside", GZIP, starts_inside=True),
    Cause("holes", LZ4, shape=lambda data: batches.emptied(data, [0, 2])),
    Cause("append time", ZSTD, shape=with_append_time),
    Cause("a split", GZIP, max_message_bytes="600"),
    Cause("a transform", LZ4, policy={"transforms": ("drop-header:none",)}),
    Cause("the record path", ZSTD, policy={"path": CopyPath.RECORD}),
]
NOISE: Final = Random(1).randbytes(300)
KINDS: Final = ["undecodable", "too large", "damaged"]
PLACES: Final = ["before", "behind", "both"]
"""Position of the good batches, relative to the bad one."""


@dataclass(frozen=True)
class Case:
    """One cell of the matrix."""

    cause: Cause
    kind: str
    place: str
    policy: OnRejection
    guarantee: Guarantee

    def __str__(self) -> str:
        return f"{self.cause.name}-{self.kind}-{self.place}-{self.policy}-{self.guarantee}"

    @property
    def passes(self) -> bool:
        """True if nothing has to be opened: small batches that cannot be merged pass one by one."""
        return self.cause.name == "merging" and self.kind == "too large"

    @property
    def halts(self) -> bool:
        """True if the lane pauses before the bad batch, with any policy if it is damaged."""
        return not self.passes and (self.policy is OnRejection.PAUSE or self.kind == "damaged")


def cells() -> Iterator[Case]:
    """Yield the whole matrix. A log that starts within the bad batch has no batch before it."""
    for cause, kind, place, policy, guarantee in product(CAUSES, KINDS, PLACES, OnRejection, Guarantee):
        if not (cause.starts_inside and place != "behind"):
            yield Case(cause, kind, place, policy, guarantee)


QUICK: Final = [
    case
    for number, case in enumerate(cells())
    if case.place == ("behind" if case.cause.starts_inside else "both")
    and (case.guarantee is Guarantee.EFFECTIVELY_ONCE or number % 7 == 0)
]
DEEP: Final = [case for case in cells() if case not in QUICK]


class Log:
    """A source partition with one bad batch, and its expected copy."""

    def __init__(self, fakes: MirroredFakes, case: Case) -> None:
        self._fakes, self._case = fakes, case
        fakes.make_topic("t", max_message_bytes=case.cause.max_message_bytes)
        before, behind = {"before": (3, 0), "behind": (0, 3), "both": (3, 3)}[case.place]
        for _ in range(before):
            self.add_good()
        self.base = fakes.source.log("t").end
        self.good = self._good()
        fakes.source.append("t", self._bad())
        for _ in range(behind):
            self.add_good()
        if case.cause.starts_inside:
            fakes.source.log("t").delete_before(self.first)
        self.end = fakes.source.log("t").end

    @property
    def first(self) -> int:
        """Offset of the first record of the bad batch that has to be copied."""
        return self.base + 2 if self._case.cause.starts_inside else self.base

    @property
    def bad(self) -> bytes:
        """The bad batch as stored."""
        (found,) = [batch.data for batch in self._fakes.source.log("t").batches if batch.base == self.base]
        return found

    def _records(self, size: int) -> list[Content]:
        first, now_ms = self._fakes.source.log("t").end, self._fakes.clock.now_ms()
        return [(now_ms, b"key", b"%0*d" % (size, n), [("h", b"x")]) for n in range(first, first + SPAN)]

    def _good(self) -> bytes:
        return self._case.cause.shape(batches.build(self._records(40), codec=self._case.cause.codec))

    def add_good(self) -> None:
        """Append a good batch."""
        self._fakes.source.append("t", self._good())

    def _bad(self) -> bytes:
        is_split, is_large = (
            self._case.cause.max_message_bytes != DEFAULT_BYTES,
            self._case.kind == "too large",
        )
        records = self._records((200_000 if is_split else 40_000) if is_large else 40)
        if is_split and not is_large:
            records = [
                (at, key, value + NOISE[:300], headers) for at, key, value, headers in records if value
            ]
        data = self._case.cause.shape(batches.build(records, codec=self._case.cause.codec))
        if self._case.kind == "undecodable":
            return batches.undecodable(data)
        if self._case.kind == "damaged":
            return data[:-1] + bytes([data[-1] ^ 1])
        return data

    def mend(self) -> None:
        """Replace the bad batch with a good one, as an operator would."""
        self._fakes.source.log("t").compact(self.base, self.good)

    def check(self, *, without_bad: bool) -> None:
        """Check that the destination has exactly these records in order; at-least-once may repeat some."""
        bad = range(self.first, self.base + SPAN) if without_bad else range(0)
        here = [one.content for one in committed(self._fakes.source.log("t")) if one.offset not in bad]
        there = [one.content for one in self._fakes.copied("t")]
        if self._case.guarantee is Guarantee.AT_LEAST_ONCE:
            there = list(dict.fromkeys(there))
        assert there == here


def check_cell(new_fakes: NewFakes, case: Case, *, crashes: bool = False) -> None:
    """Copy the log, with a crash if `crashes`, and compare every record and every offset class."""
    fakes = new_fakes(options=OPTIONS)
    log = Log(fakes, case)
    policy = CopyPolicy(guarantee=case.guarantee, on_rejection=case.policy, **case.cause.policy)
    fakes.start("t", policy=policy)
    if crashes:
        fakes.run(0.2)
        fakes.restart("t", policy=policy)
    if case.halts:
        expect_halt(fakes, log)
    else:
        expect_policy(fakes, log, case, is_exact=not crashes)
    check_accounts(fakes, "t")


def expect_halt(fakes: MirroredFakes, log: Log) -> None:
    """Check that the lane copies up to the bad batch, pauses, and continues once that is repaired."""
    reason = fakes.run_until_paused("t")
    assert f"offset {log.base}" in reason
    fakes.run(20)
    lane = fakes.lane("t")
    assert (lane.state, lane.checkpoint) == (LaneState.PAUSED, log.first)
    check_accounts(fakes, "t")
    log.mend()
    fakes.run_to("t", log.end)
    log.check(without_bad=False)


def expect_policy(fakes: MirroredFakes, log: Log, case: Case, *, is_exact: bool) -> None:
    """Check that the policy was applied to the bad batch only."""
    fakes.run_to("t", log.end)
    lane, left_out = fakes.lane("t"), 0 if case.passes else log.base + SPAN - log.first
    log.check(without_bad=not case.passes)
    is_skipped = case.policy is OnRejection.SKIP
    assert lane.progress.ledger.total(OffsetClass.FILTERED) == (left_out if is_skipped else 0)
    assert lane.progress.ledger.total(OffsetClass.DEAD_LETTERED) == (0 if is_skipped else left_out)
    letters = letters_of(fakes, "t")
    assert set(letters) == (set() if is_skipped or case.passes else {DeadLetter(log.first, log.bad)})
    assert len(letters) <= 1 or not is_exact
    assert not fakes.pauses(lane.key)


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_no_record_is_passed_over(new_fakes: NewFakes, case: Case) -> None:
    check_cell(new_fakes, case)


@pytest.mark.parametrize("case", [case for case in QUICK if case.place == "both"][::3], ids=str)
def test_an_owner_that_is_killed_on_the_way_passes_nothing_over(new_fakes: NewFakes, case: Case) -> None:
    check_cell(new_fakes, case, crashes=True)


@pytest.mark.deep
@pytest.mark.parametrize("case", DEEP, ids=str)
def test_an_owner_that_is_killed_passes_nothing_over_in_any_cell(new_fakes: NewFakes, case: Case) -> None:
    check_cell(new_fakes, case, crashes=True)


@pytest.mark.deep
@pytest.mark.parametrize("case", DEEP, ids=str)
def test_no_record_is_passed_over_in_any_cell(new_fakes: NewFakes, case: Case) -> None:
    check_cell(new_fakes, case)


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_without_room_in_memory_no_record_is_passed_over(
    new_fakes: NewFakes, cause: Cause, guarantee: Guarantee
) -> None:
    """The destination is frozen for a while, and records read meanwhile are dropped again."""
    fakes = new_fakes(options=TIGHT)
    is_split = cause.max_message_bytes != DEFAULT_BYTES
    fakes.make_topic("t", PARTITIONS, max_message_bytes="20000" if is_split else DEFAULT_BYTES)
    append_noise(fakes, cause, 0, SPAN)
    if cause.starts_inside:
        fakes.source.log("t").delete_before(2)
    fakes.start("t", PARTITIONS, policy=CopyPolicy(guarantee=guarantee, **cause.policy))
    for number in range(PARTITIONS):
        fakes.run_to("t", SPAN, number)
    for broker in fakes.target.brokers:
        fakes.target.freeze(broker)
    append_noise(fakes, cause, SPAN, 60)
    fakes.run_until(lambda: fakes.context.live_budget.free < TIGHT["live_fetch_bytes"], "no memory remains")
    fakes.run(20)
    for broker in fakes.target.brokers:
        fakes.target.thaw(broker)
    for number in range(PARTITIONS):
        fakes.run_to("t", 60, number)
        check_accounts(fakes, "t", number)
    fakes.check("t", PARTITIONS)


def append_noise(fakes: MirroredFakes, cause: Cause, first: int, end: int) -> None:
    """Append poorly compressible batches with these record numbers to every partition."""
    random = Random(first)
    for number, base in product(range(PARTITIONS), range(first, end, SPAN)):
        plain = fakes.records(base, SPAN)
        records = [(at, key, b"%r" % value + random.randbytes(6_000), more) for at, key, value, more in plain]
        fakes.source.append("t", cause.shape(batches.build(records, codec=cause.codec)), number)


@pytest.mark.parametrize("policy", OnRejection)
def test_a_start_inside_of_a_batch_that_opens_into_too_much_counts_no_record_as_compacted(
    new_fakes: NewFakes, policy: OnRejection
) -> None:
    fakes = new_fakes(options={"opened_batch_bytes": 500_000})
    fakes.make_topic("t")
    now_ms = fakes.clock.now_ms()
    fakes.source.write("t", [(now_ms, None, bytes(20_000), [])] * 60, codec=ZSTD)
    fakes.source.log("t").delete_before(30)
    fakes.write("t", 60, 5)
    fakes.start("t", end_offset=65, policy=CopyPolicy(on_rejection=policy))
    lane = fakes.lane("t")
    fakes.run(60)
    classes = {OnRejection.SKIP: "filtered", OnRejection.DEAD_LETTER: "dead_lettered"}
    if policy is OnRejection.PAUSE:
        assert (lane.state, lane.checkpoint) == (LaneState.PAUSED, 30)
        return
    (stopped,) = [one for one in fakes.events if isinstance(one, LaneStopped)]
    assert stopped.next_offset == 65
    assert {name: count for name, count in lane.progress.ledger.by_class().items() if count} == {
        "mirrored": 5,
        classes[policy]: 30,
    }


@pytest.mark.parametrize("bad", ["several frames", "undecodable"])
@pytest.mark.parametrize("policy", OnRejection)
def test_small_batches_around_a_bad_one_arrive_and_the_copy_ends(
    new_fakes: NewFakes, policy: OnRejection, bad: str
) -> None:
    fakes = new_fakes()
    fakes.make_topic("t")
    for number in range(60):
        data = batches.build(fakes.records(4 * number, 4), codec=ZSTD)
        if number == 20:
            data = in_frames(data) if bad == "several frames" else batches.undecodable(data)
        fakes.source.append("t", data)
    fakes.start("t", end_offset=240, policy=CopyPolicy(on_rejection=policy))
    if bad == "undecodable" and policy is OnRejection.PAUSE:
        fakes.run_until_paused("t")
        assert fakes.lane("t").checkpoint == 80
        assert [int(one.value or b"-1") for one in fakes.copied("t")] == list(range(80))
        fakes.source.log("t").compact(80, batches.build(fakes.records(80, 4), codec=ZSTD))
        bad = "mended"
    fakes.run_until(lambda: not fakes.engine.lanes.by_key, "the copy ends")
    missing = set() if bad != "undecodable" else set(range(80, 84))
    assert [int(one.value or b"-1") for one in fakes.copied("t")] == sorted(set(range(240)) - missing)


def in_frames(data: bytes) -> bytes:
    """Return the batch with its records in two zstd frames after a skippable frame."""
    payload = zstandard.ZstdDecompressor().decompressobj().decompress(data[batches.HEADER_BYTES :])
    frames = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    frames += zstandard.compress(payload[:50]) + zstandard.compress(payload[50:])
    return batches.resized(data, frames)


@pytest.mark.parametrize("kind", ["undecodable", "damaged"])
def test_what_lies_behind_the_end_of_a_copy_is_no_trouble(fakes: MirroredFakes, kind: str) -> None:
    fakes.make_topic("t")
    for first in (0, 4):
        fakes.write("t", first, 4, codec=GZIP)
    data = batches.build(fakes.records(8, 4), codec=GZIP)
    bad = batches.undecodable(data) if kind == "undecodable" else data[:-1] + b"\x01"
    fakes.source.append("t", bad[:16] + (b"\x02" if kind == "undecodable" else b"\x07") + bad[17:])
    fakes.start("t", end_offset=8)
    fakes.run_until(lambda: not fakes.engine.lanes.by_key, "the copy ends")
    assert [int(one.value or b"-1") for one in fakes.copied("t")] == list(range(8))
    assert not [one for one in fakes.events if isinstance(one, LanePaused)]
