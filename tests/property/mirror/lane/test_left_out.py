"""Which records were left out on purpose, against the fate of every offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.lane.ledger import Fate, Ledger, LeftOut, Uncopied
from mirror.lane.offset_map import OffsetMap

RECORDS = (Fate.FILTERED, Fate.DEAD_LETTERED)
fates_of_offsets = st.lists(st.sampled_from(list(Fate)), max_size=60)


def lane(fates: list[Fate], start: int) -> tuple[Ledger, OffsetMap]:
    ledger, offset_map = Ledger(start), OffsetMap()
    for offset, fate in enumerate(fates, start):
        if fate is Fate.MIRRORED:
            offset_map.add(offset, 7 * offset, 1)
        ledger.enter(fate, 1)
    return ledger, offset_map


@given(fates_of_offsets, st.integers(0, 5), st.integers(0, 70))
def test_what_is_left_of_the_source_is_told_apart_whatever_has_expired(
    fates: list[Fate], start: int, expired: int
) -> None:
    ledger, offset_map = lane(fates, start)
    here = [fate for fate in fates[expired:] if fate in (Fate.MIRRORED, *RECORDS)]
    copied = [
        LeftOut(ledger, offset_map).is_copied(offset)
        for offset, fate in enumerate(fates[expired:], start + expired)
        if fate in (Fate.MIRRORED, *RECORDS)
    ]
    assert copied == [fate is Fate.MIRRORED for fate in here]
    assert LeftOut(ledger, offset_map).judge(copied.count(False)) == Uncopied(copied.count(False), 0)


@given(fates_of_offsets, st.integers(0, 400))
def test_what_the_destination_has_lost_is_never_taken_for_left_out(fates: list[Fate], lost_from: int) -> None:
    ledger, offset_map = lane(fates, 0)
    offset_map.forget_targets(lost_from)
    uncopied = sum(fate in (Fate.MIRRORED, *RECORDS) for fate in fates) - offset_map.count(0, len(fates))
    judged = LeftOut(ledger, offset_map).judge(uncopied)
    assert judged == Uncopied(sum(fate in RECORDS for fate in fates), uncopied - judged.left_out)


def test_no_more_is_left_out_than_the_ledger_counts() -> None:
    ledger, offset_map = lane([Fate.FILTERED, Fate.MIRRORED, Fate.ABORTED], 0)
    assert LeftOut(ledger, offset_map).judge(2) == Uncopied(1, 1)
