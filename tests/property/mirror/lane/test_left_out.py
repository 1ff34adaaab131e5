"""Records that were skipped on purpose, compared with the class of every offset."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mirror.audit.record_tally import LeftOut, Uncopied, UncopiedTally
from mirror.lane.ledger import Ledger, OffsetClass, SkippedOffsets, Unaccounted, compacted
from mirror.lane.offset_map import OffsetMap
from mirror.protocol.batches.holes import OffsetHole, Span
from tests.builders import enter

RECORDS = (OffsetClass.FILTERED, OffsetClass.DEAD_LETTERED)
classes_of_offsets = st.lists(st.sampled_from(list(OffsetClass)), max_size=90)


def lane(offset_classes: list[OffsetClass], start: int) -> tuple[Ledger, OffsetMap]:
    ledger, offset_map = Ledger(start), OffsetMap()
    for offset, offset_class in enumerate(offset_classes, start):
        if offset_class is OffsetClass.MIRRORED:
            offset_map.add(offset, 7 * offset, 1)
        enter(ledger, offset_class, 1)
    return ledger, offset_map


def judged(left_out: LeftOut, served: list[int]) -> Uncopied:
    """Return the audit result for the records that the source returns."""
    tally = UncopiedTally(left_out)
    for offset in served:
        if not left_out.is_copied(offset):
            tally.note(offset)
    return tally.judge()


def stored(ledger: Ledger) -> Ledger:
    """Return the ledger as read by the next owner."""
    return Ledger.from_json(json.loads(json.dumps(ledger.to_json())), ledger.next)


@given(classes_of_offsets, st.integers(0, 5), st.integers(0, 70))
def test_what_is_left_of_the_source_is_told_apart_whatever_has_expired(
    offset_classes: list[OffsetClass], start: int, expired: int
) -> None:
    ledger, offset_map = lane(offset_classes, start)
    kept = list(enumerate(offset_classes[expired:], start + expired))
    served = [offset for offset, one in kept if one in (OffsetClass.MIRRORED, *RECORDS)]
    expected = Uncopied(sum(one in RECORDS for _, one in kept), 0)
    assert judged(LeftOut(stored(ledger), offset_map), served) == expected


@given(classes_of_offsets, st.integers(0, 90))
def test_a_record_that_the_source_still_has_is_missing_whatever_its_class_says(
    offset_classes: list[OffsetClass], expired: int
) -> None:
    """This also holds if the same number of skipped records has expired."""
    ledger, offset_map = lane(offset_classes, 0)
    assume(len(ledger.left_out) <= 32)
    served = list(range(len(offset_classes)))[expired:]
    counted = [offset_classes[offset] for offset in served]
    assert judged(LeftOut(stored(ledger), offset_map), served) == Uncopied(
        sum(one in RECORDS for one in counted),
        sum(one not in (OffsetClass.MIRRORED, *RECORDS) for one in counted),
    )


@given(classes_of_offsets, st.integers(0, 400))
def test_what_the_destination_has_lost_is_never_taken_for_left_out(
    offset_classes: list[OffsetClass], lost_from: int
) -> None:
    ledger, offset_map = lane(offset_classes, 0)
    served = [n for n, one in enumerate(offset_classes) if one in (OffsetClass.MIRRORED, *RECORDS)]
    offset_map.forget_targets(lost_from)
    found = judged(LeftOut(ledger, offset_map), served)
    lost = sum(one is OffsetClass.MIRRORED for one in offset_classes) - offset_map.count(
        0, len(offset_classes)
    )
    assert found == Uncopied(sum(one in RECORDS for one in offset_classes), lost)


@given(classes_of_offsets, st.integers(0, 400), st.integers(0, 70))
@example([OffsetClass.FILTERED, OffsetClass.MIRRORED] * 100, 0, 5)
def test_what_the_destination_has_lost_is_missing_also_where_the_source_has_expired_records(
    offset_classes: list[OffsetClass], lost_from: int, expired: int
) -> None:
    ledger, offset_map = lane(offset_classes, 0)
    offset_map.forget_targets(lost_from)
    left_out = LeftOut(ledger, offset_map)
    served = [
        offset
        for offset, one in enumerate(offset_classes)
        if offset >= expired and one in (OffsetClass.MIRRORED, *RECORDS)
    ]
    lost = [
        offset
        for offset in served
        if offset_classes[offset] is OffsetClass.MIRRORED and not left_out.is_copied(offset)
    ]
    assert judged(left_out, served).missing >= len(lost)


def test_more_stretches_than_are_stored_are_joined_and_still_count_exactly() -> None:
    ledger, offset_map = lane([OffsetClass.FILTERED, OffsetClass.MIRRORED] * 1_000, 0)
    assert 1 < len(ledger.left_out) <= 32
    assert sum(one.records for one in ledger.left_out) == 1_000
    assert judged(LeftOut(stored(ledger), offset_map), list(range(2_000))) == Uncopied(1_000, 0)
    assert judged(LeftOut(stored(ledger), OffsetMap(1)), list(range(1_000, 1_400))).missing > 150
    far = ledger.next
    enter(ledger, OffsetClass.COMPACTED, 5_000)
    assert judged(LeftOut(ledger, offset_map), list(range(far + 100, far + 200))) == Uncopied(0, 100)


def test_what_the_source_has_expired_is_forgotten() -> None:
    ledger, _ = lane([OffsetClass.FILTERED, OffsetClass.MIRRORED] * 4, 0)
    ledger.prune(3)
    assert [one.first for one in ledger.left_out] == [4, 6]


def test_a_ledger_of_a_version_that_stored_only_counts_is_judged_by_these() -> None:
    ledger, offset_map = lane([OffsetClass.FILTERED, OffsetClass.MIRRORED, OffsetClass.ABORTED], 0)
    document = ledger.to_json()
    del document["left_out"]
    assert judged(LeftOut(Ledger.from_json(document, 3), offset_map), [0, 2]) == Uncopied(1, 1)


def test_where_stretches_are_joined_what_the_destination_has_lost_is_missing_first() -> None:
    ledger, offset_map = lane([OffsetClass.FILTERED, *[OffsetClass.MIRRORED] * 4, OffsetClass.FILTERED], 0)
    document = ledger.to_json()
    del document["left_out"]
    offset_map.forget_targets(14)
    left_out = LeftOut(Ledger.from_json(document, 6), offset_map)
    assert judged(left_out, list(range(6))) == Uncopied(2, 3)
    assert judged(left_out, [1, 2, 3, 4]) == Uncopied(0, 3)


@pytest.mark.parametrize("count", [1, 300])
def test_offsets_are_compacted_away_only_where_a_batch_shows_it(count: int) -> None:
    ledger = Ledger(10)
    with pytest.raises(Unaccounted):
        ledger.enter(OffsetClass.COMPACTED, count)
    with pytest.raises(Unaccounted):
        SkippedOffsets(OffsetClass.COMPACTED, 10, 10 + count)
    with pytest.raises(Unaccounted):
        SkippedOffsets(OffsetClass.FILTERED, 10, 10 + count, OffsetHole(10, 10 + count, Span(10, 10 + count)))
    for evidence in (Span(0, 10), Span(9, 9 + count), Span(10, 9 + count)):
        with pytest.raises(ValueError):
            OffsetHole(10, 10 + count, evidence)
    assert ledger.next == 10
    ledger.pass_over(compacted(OffsetHole(10, 10 + count, Span(10 + count, 11 + count))))
    ledger.pass_over(compacted(OffsetHole(10 + count, 11 + count, Span(0, 400))))
    assert (ledger.next, ledger.total(OffsetClass.COMPACTED)) == (11 + count, 1 + count)


def test_a_ledger_takes_offsets_in_their_order_and_without_gaps() -> None:
    ledger = Ledger(0)
    skipped = SkippedOffsets(OffsetClass.FILTERED, 3, 5)
    with pytest.raises(Unaccounted):
        ledger.pass_over(skipped)
    for runs in (((0, 2), (5, 1)), ((0, 4), (5, 1)), ((0, 3), (6, 1))):
        with pytest.raises(Unaccounted):
            Ledger(0).enter_batch(runs, [skipped])
    ledger.enter_batch(((0, 3), (5, 1)), [skipped])
    assert ledger.by_class()["mirrored"] == 4
    assert (ledger.next, ledger.is_balanced) == (6, True)
