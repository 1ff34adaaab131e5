"""Algebra of an audit: multisets of records at both ends."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.lane.ledger import Ledger, LeftOut, OffsetClass, Uncopied, UncopiedTally
from mirror.lane.offset_map import OffsetMap
from monitor import audit
from monitor.audit import BUCKETS, AuditResult, DigestSums, portions_of

records = st.tuples(st.integers(0, 3), st.sampled_from([b"a", b"b", b"c", b"d"]))
contents = st.lists(records, max_size=40).map(Counter)


class InMemory:
    """Contents in memory. Counts its reads.

    The offset of a record is its index; offsets that `left_out` does not map to copies are counted.
    """

    def __init__(self, records: Iterable[tuple[int, bytes]], left_out: LeftOut | None = None) -> None:
        self._left_out = left_out
        self._digests = [
            hashlib.blake2b(b"%d;" % partition + value, digest_size=12).digest()
            for partition, value in records
        ]
        self.passes = 0

    def each(self, take: Callable[[bytes], None]) -> Uncopied:
        self.passes += 1
        tally = UncopiedTally(self._left_out) if self._left_out else None
        for offset, digest in enumerate(self._digests):
            if self._left_out is None or tally is None or self._left_out.is_copied(offset):
                take(digest)
            else:
                tally.note(offset)
        return tally.judge() if tally else Uncopied()


def audit_topic(
    topic: str, source: Counter[tuple[int, bytes]], destination: Counter[tuple[int, bytes]]
) -> AuditResult:
    return audit.audit_topic(topic, InMemory(source.elements()), InMemory(destination.elements()))


@given(
    st.lists(
        st.sampled_from([OffsetClass.MIRRORED, OffsetClass.FILTERED, OffsetClass.DEAD_LETTERED]),
        min_size=1,
        max_size=40,
    ),
    st.data(),
)
def test_what_was_left_out_on_purpose_hides_nothing_that_is_missing(
    offset_classes: list[OffsetClass], data: st.DataObject
) -> None:
    """This also holds if skipped records have expired at the source."""
    ledger, offset_map = Ledger(0), OffsetMap()
    for offset, offset_class in enumerate(offset_classes):
        if offset_class is OffsetClass.MIRRORED:
            offset_map.add(offset, 100 + ledger.total(offset_class), 1)
        ledger.enter(offset_class, 1)
    contents = [(0, b"%d" % offset) for offset in range(len(offset_classes))]
    mirrored = [
        offset for offset, offset_class in enumerate(offset_classes) if offset_class is OffsetClass.MIRRORED
    ]
    vanished = data.draw(st.sets(st.sampled_from(mirrored)) if mirrored else st.just(set()))
    there = InMemory(contents[offset] for offset in mirrored if offset not in vanished)
    gone = data.draw(st.integers(0, len(offset_classes)))
    here = InMemory(contents[gone:], Shifted(ledger, offset_map, gone))
    kept = range(gone, len(offset_classes))
    result = audit.audit_topic("t", here, there, unjudged=4)
    assert result.missing == sum(offset in vanished for offset in kept)
    assert result.left_out == sum(offset not in mirrored for offset in kept)
    assert (result.source_records, result.unjudged) == (len(kept), 4)


class Shifted(LeftOut):
    """Records of a source that has expired the first `gone` offsets."""

    def __init__(self, ledger: Ledger, offset_map: OffsetMap, gone: int) -> None:
        super().__init__(ledger, offset_map)
        self._gone = gone

    def is_copied(self, source: int) -> bool:
        return super().is_copied(source + self._gone)

    def stretch_of(self, source: int) -> int:
        return super().stretch_of(source + self._gone)


def many(count: int, salt: bytes = b"") -> InMemory:
    return InMemory((0, salt + b"%d" % number) for number in range(count))


def test_a_side_takes_the_same_memory_whatever_it_holds() -> None:
    sums = DigestSums()
    many(50_000).each(sums.add)
    assert len(sums.counts) == len(sums.sums) == BUCKETS
    assert sum(sums.counts) == 50_000
    assert set(vars(sums)) == {"counts", "sums"}


@given(st.lists(st.tuples(st.integers(), st.integers(1, 900_000)), max_size=40))
def test_no_pass_holds_more_than_there_is_room_for(buckets: list[tuple[int, int]]) -> None:
    buckets = [(number, size) for number, (_, size) in enumerate(buckets)]
    sizes = dict(buckets)
    portions, rest = portions_of(buckets)
    assert len(portions) <= audit.MOST_PASSES
    assert all(0 < sum(sizes[one] for one in part) <= audit.ROOM for part in portions)
    assert sorted([one for part in portions for one in part] + rest) == sorted(sizes)


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (many(3_000), many(0), (3_000, 0, 0)),
        (many(0), many(3_000), (0, 0, 3_000)),
        (many(3_000), many(3_000, b"other"), (3_000, 0, 3_000)),
    ],
)
def test_sides_that_share_nothing_are_counted_exactly(
    here: InMemory, there: InMemory, expected: tuple[int, int, int]
) -> None:
    result = audit.audit_topic("t", here, there)
    assert (result.missing, result.duplicates, result.foreign) == expected
    assert not result.at_least


def test_equal_sides_are_read_once() -> None:
    here, there = many(2_000), many(2_000)
    assert audit.audit_topic("t", here, there).is_complete
    assert (here.passes, there.passes) == (1, 1)


def test_where_too_much_differs_the_counts_are_lower_bounds() -> None:
    here, there = many(40_000), many(40_000, b"other")
    result = audit.audit_topic("t", here, there, room=10)
    assert (result.at_least, result.is_complete) == (True, False)
    assert 0 < result.missing < 40_000
    assert here.passes <= audit.MOST_PASSES + 1


@given(contents)
def test_a_true_copy_is_complete(source: Counter[tuple[int, bytes]]) -> None:
    result = audit_topic("t", source, Counter(source))
    assert result.is_complete
    assert (result.missing, result.duplicates, result.foreign) == (0, 0, 0)
    assert result.source_records == result.destination_records == source.total()


@given(contents, contents)
def test_every_record_is_accounted_for(
    source: Counter[tuple[int, bytes]], destination: Counter[tuple[int, bytes]]
) -> None:
    result = audit_topic("t", source, destination)
    arrived = result.source_records - result.missing
    assert arrived >= 0
    assert result.destination_records == arrived + result.duplicates + result.foreign
    assert result.is_complete == (result.missing == 0 and result.foreign == 0)


@given(contents, contents)
def test_what_is_missing_there_is_surplus_here(
    one: Counter[tuple[int, bytes]], two: Counter[tuple[int, bytes]]
) -> None:
    there, back = audit_topic("t", one, two), audit_topic("t", two, one)
    assert there.missing == back.duplicates + back.foreign


@given(contents, st.lists(records, max_size=10))
def test_repeats_of_source_records_are_duplicates_and_nothing_else(
    source: Counter[tuple[int, bytes]], again: list[tuple[int, bytes]]
) -> None:
    repeated = [record for record in again if record in source]
    result = audit_topic("t", source, source + Counter(repeated))
    assert (result.missing, result.duplicates, result.foreign) == (0, len(repeated), 0)
    assert result.is_complete


@given(contents, records)
def test_a_record_in_the_wrong_partition_is_missing_in_one_and_foreign_in_the_other(
    source: Counter[tuple[int, bytes]], record: tuple[int, bytes]
) -> None:
    source[record] += 1
    moved = Counter(source)
    moved[record] -= 1
    elsewhere = (record[0] + 10, record[1])
    moved[elsewhere] += 1
    result = audit_topic("t", source, +moved)
    assert (result.missing, result.duplicates, result.foreign) == (1, 0, 1)
    assert not result.is_complete


def test_who_waits_is_told_how_many_records_were_read_at_both_ends() -> None:
    told: list[int] = []
    reading = audit.AuditProgress(told.append)
    records = [(0, b"%d" % number) for number in range(15_000)]
    result = audit.audit_topic("t", reading.of(InMemory(records)), reading.of(InMemory(records)))
    assert result.is_complete
    assert told == [10_000, 20_000, 30_000]
