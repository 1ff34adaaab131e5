"""Matching of records against a model: multisets of contents at both sides."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.audit.matcher import REPLACED_TIME, Matcher, MatchRules
from mirror.audit.verdicts import PartitionFindings, Verdict
from mirror.audit.windows import COUNTED, WindowTally
from mirror.protocol.batches.records import Record
from tests.examples import examples

CONTENTS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), max_size=30)


@dataclass
class StatedCopies:
    """Account that states the copies in a mapping from source to destination offsets."""

    copies: dict[int, int]
    skipped: list[int] = field(default_factory=list)

    def is_expected(self, source: int) -> bool:
        if source not in self.copies:
            self.skipped.append(source)
        return source in self.copies

    def origin(self, target: int) -> int | None:
        return next((here for here, there in self.copies.items() if there == target), None)

    def place(self, source: int) -> int | None:
        return self.copies.get(source)


def record(offset: int, value: bytes, key: bytes | None = None, timestamp: int = 1_000) -> Record:
    return Record(offset, timestamp, key, value)


def matched(
    here: list[Record],
    there: list[Record],
    account: StatedCopies | None = None,
    rules: MatchRules | None = None,
) -> PartitionFindings:
    matcher = Matcher(rules or MatchRules(), account)
    matcher.source.extend(here)
    matcher.target.extend(there)
    surplus = matcher.finish()
    for one in here:
        surplus.show(one)
    return surplus.judge()


def numbered(values: list[bytes]) -> list[Record]:
    return [record(offset, value) for offset, value in enumerate(values)]


@given(CONTENTS, CONTENTS, st.booleans())
@settings(max_examples=examples(300))
def test_every_record_is_counted_once(here: list[bytes], there: list[bytes], has_map: bool) -> None:
    account = StatedCopies({offset: offset for offset in range(len(here))}) if has_map else None
    counts = matched(numbered(here), numbered(there), account).counts
    arrived = counts.equal + counts.altered
    assert arrived + counts.missing == len(here)
    assert arrived + counts.duplicated + counts.foreign == len(there)
    common = (Counter(here) & Counter(there)).total()
    assert counts.equal == common


@given(CONTENTS)
def test_equal_sides_are_complete(values: list[bytes]) -> None:
    found = matched(numbered(values), numbered(values))
    assert (found.counts.verdict(), found.findings, found.counts.equal) == (
        Verdict.COMPLETE,
        [],
        len(values),
    )


@given(st.lists(st.binary(min_size=1, max_size=2), max_size=30, unique=True), st.data())
def test_a_surplus_record_is_a_duplicate_exactly_if_the_source_has_it(
    values: list[bytes], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(values)))
    extra = data.draw(st.sampled_from([*values[:place], b"strange"]))
    found = matched(numbered(values), numbered([*values[:place], extra, *values[place:]]))
    expected = Verdict.DUPLICATED if extra in values else Verdict.FOREIGN
    assert found.counts.verdict() is expected
    assert (found.counts.duplicated + found.counts.foreign, found.counts.missing) == (1, 0)


@given(st.integers(1, 12), st.data())
def test_of_two_copies_the_one_of_the_map_is_at_its_place(length: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(first + 1, length))
    values = [b"%d" % n for n in range(length)]
    again = end - first
    account = StatedCopies({n: n if n < first else n + again for n in range(length)})
    counts = matched(numbered(values), numbered([*values[:end], *values[first:]]), account).counts
    assert (counts.equal, counts.duplicated, counts.misplaced, counts.reordered) == (length, again, 0, 0)


@given(st.permutations([b"%d" % n for n in range(8)]))
def test_another_order_is_altered(order: list[bytes]) -> None:
    values = [b"%d" % n for n in range(8)]
    found = matched(numbered(values), numbered(order))
    assert (found.counts.equal, found.counts.missing, found.counts.foreign) == (8, 0, 0)
    assert bool(found.counts.reordered) == (order != values)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 10))
def test_without_room_the_totals_remain(here: int, there: int, room: int) -> None:
    one, two = [record(n, b"%d" % n) for n in range(here)], [record(n, b"x%d" % n) for n in range(there)]
    found = matched(one, two, rules=MatchRules(room=room))
    counts = found.counts
    assert found.at_least == (max(here, there) > room)
    assert counts.altered + counts.missing == here
    assert counts.altered + counts.foreign == there


@given(st.lists(st.tuples(st.sampled_from([b"k", b"l", b"m"]), st.booleans()), max_size=20), st.data())
def test_compaction_of_the_destination_explains_all_but_the_last_record_of_a_key(
    entries: list[tuple[bytes, bool]], data: st.DataObject
) -> None:
    here = [
        Record(offset, 1_000, key, b"%d" % offset if has_value else None)
        for offset, (key, has_value) in enumerate(entries)
    ]
    last = {one.key: one.offset for one in here}
    removable = [one.offset for one in here if last[one.key] != one.offset or one.value is None]
    gone = data.draw(st.sets(st.sampled_from(removable))) if removable else set()
    account = StatedCopies({one.offset: one.offset for one in here})
    there = [one for one in here if one.offset not in gone]
    found = matched(here, there, account, MatchRules(target_compacts=True))
    assert (found.counts.verdict(), found.counts.target_compacted) == (Verdict.COMPLETE, len(gone))
    kept = [one for one in there if one.value is not None and last[one.key] == one.offset]
    if kept:
        lost = data.draw(st.sampled_from(kept))
        found = matched(
            here, [one for one in there if one is not lost], account, MatchRules(target_compacts=True)
        )
        assert [(one.verdict, one.source_offset) for one in found.findings] == [
            (Verdict.MISSING, lost.offset)
        ]


def test_compaction_of_the_source_explains_records_that_only_the_map_and_the_destination_have() -> None:
    account = StatedCopies({0: 0, 1: 1, 2: 2})
    everything = [record(n, b"%d" % n) for n in range(3)]
    found = matched(everything[2:], everything, account, MatchRules(source_compacts=True))
    assert (found.counts.verdict(), found.counts.source_compacted) == (Verdict.COMPLETE, 2)
    assert matched(everything[2:], everything, account).counts.foreign == 2


def test_a_replaced_timestamp_is_no_difference() -> None:
    here, there = [record(0, b"a"), record(1, b"b")], [record(0, b"b"), record(1, b"a")]
    replaced = [one._replace(timestamp=REPLACED_TIME) for one in there]
    assert matched(here, replaced).counts.altered == 0
    assert matched(here[:1], [record(0, b"a", timestamp=2)]).counts.altered == 1


def test_transformed_records_are_compared_by_the_map_alone() -> None:
    account = StatedCopies({0: 0, 1: 1, 3: 3})
    here = [record(n, b"%d" % n) for n in range(4)]
    there = [record(n, b"changed") for n in (0, 2, 3)]
    found = matched(here, there, account, MatchRules(compares_content=False))
    assert (found.counts.equal, found.counts.missing, found.counts.duplicated) == (2, 1, 1)
    assert account.skipped == [2]


def test_records_of_other_writers_in_a_shared_topic_are_unrelated() -> None:
    account = StatedCopies({0: 0, 1: 2})
    here = [record(0, b"a"), record(1, b"b")]
    there = [record(0, b"a"), record(1, b"theirs"), record(2, b"b")]
    found = matched(here, there, account, MatchRules(shares_target=True))
    assert (found.counts.verdict(), found.counts.unrelated) == (Verdict.COMPLETE, 1)


@given(CONTENTS, CONTENTS, st.booleans(), st.booleans(), st.integers(1, 60))
@settings(max_examples=examples(150))
def test_windows_add_up_to_the_partition(
    here: list[bytes], there: list[bytes], has_map: bool, compacts: bool, room: int
) -> None:
    tally = WindowTally(10, now_ms=5)
    stamps = [-2, 3, 3, 12, 29, 7]

    def stamped(values: list[bytes]) -> list[Record]:
        return [record(n, value, value, stamps[n % len(stamps)]) for n, value in enumerate(values)]

    account = StatedCopies({offset: offset for offset in range(0, len(here), 2)}) if has_map else None
    rules = MatchRules(target_compacts=compacts, windows=tally, room=room)
    counts = matched(stamped(here), stamped(there), account, rules).counts
    skipped = len(account.skipped) if account is not None else 0
    tally.settle(skipped // 2)
    found = {name: sum(getattr(one, name) for one in tally.windows.values()) for name in COUNTED}
    assert found["records"] == counts.equal - counts.reordered
    assert found["duplicated"] == counts.duplicated
    assert found["explained"] == counts.target_compacted + skipped - skipped // 2
    absent = counts.missing + counts.altered + counts.reordered + skipped // 2
    assert found["missing"] + found["altered"] <= absent + room + len(here)
    if room > len(here) + len(there):
        assert found["missing"] + found["altered"] == absent
        assert found["foreign"] == counts.foreign
    assert all(start % 10 == 0 and start >= 0 for start in tally.windows)
