"""Which records were left out on purpose, against the class of every offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.lane.ledger import Ledger, LeftOut, OffsetClass, Uncopied
from mirror.lane.offset_map import OffsetMap

RECORDS = (OffsetClass.FILTERED, OffsetClass.DEAD_LETTERED)
classes_of_offsets = st.lists(st.sampled_from(list(OffsetClass)), max_size=60)


def lane(offset_classes: list[OffsetClass], start: int) -> tuple[Ledger, OffsetMap]:
    ledger, offset_map = Ledger(start), OffsetMap()
    for offset, offset_class in enumerate(offset_classes, start):
        if offset_class is OffsetClass.MIRRORED:
            offset_map.add(offset, 7 * offset, 1)
        ledger.enter(offset_class, 1)
    return ledger, offset_map


@given(classes_of_offsets, st.integers(0, 5), st.integers(0, 70))
def test_what_is_left_of_the_source_is_told_apart_whatever_has_expired(
    offset_classes: list[OffsetClass], start: int, expired: int
) -> None:
    ledger, offset_map = lane(offset_classes, start)
    here = [
        offset_class
        for offset_class in offset_classes[expired:]
        if offset_class in (OffsetClass.MIRRORED, *RECORDS)
    ]
    copied = [
        LeftOut(ledger, offset_map).is_copied(offset)
        for offset, offset_class in enumerate(offset_classes[expired:], start + expired)
        if offset_class in (OffsetClass.MIRRORED, *RECORDS)
    ]
    assert copied == [offset_class is OffsetClass.MIRRORED for offset_class in here]
    assert LeftOut(ledger, offset_map).judge(copied.count(False)) == Uncopied(copied.count(False), 0)


@given(classes_of_offsets, st.integers(0, 400))
def test_what_the_destination_has_lost_is_never_taken_for_left_out(
    offset_classes: list[OffsetClass], lost_from: int
) -> None:
    ledger, offset_map = lane(offset_classes, 0)
    offset_map.forget_targets(lost_from)
    uncopied = sum(
        offset_class in (OffsetClass.MIRRORED, *RECORDS) for offset_class in offset_classes
    ) - offset_map.count(0, len(offset_classes))
    judged = LeftOut(ledger, offset_map).judge(uncopied)
    assert judged == Uncopied(
        sum(offset_class in RECORDS for offset_class in offset_classes), uncopied - judged.left_out
    )


@given(classes_of_offsets, st.integers(0, 400), st.integers(0, 70))
def test_what_the_destination_has_lost_is_missing_also_where_the_source_has_expired_records(
    offset_classes: list[OffsetClass], lost_from: int, expired: int
) -> None:
    ledger, offset_map = lane(offset_classes, 0)
    offset_map.forget_targets(lost_from)
    left_out = LeftOut(ledger, offset_map)
    uncopied = [
        offset_class
        for offset, offset_class in enumerate(offset_classes)
        if offset >= expired
        if offset_class in (OffsetClass.MIRRORED, *RECORDS) and not left_out.is_copied(offset)
    ]
    assert left_out.judge(len(uncopied)).missing >= uncopied.count(OffsetClass.MIRRORED)


def test_no_more_is_left_out_than_the_ledger_counts() -> None:
    ledger, offset_map = lane([OffsetClass.FILTERED, OffsetClass.MIRRORED, OffsetClass.ABORTED], 0)
    assert LeftOut(ledger, offset_map).judge(2) == Uncopied(1, 1)
