"""Batches that go different ways, next to each other in one response."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.lane.intake import Intake
from mirror.lane.ledger import Fate
from mirror.lane.memory import ByteBudget, Slab
from mirror.lane.outgoing import Outgoing
from mirror.lane.rules import IntakeRules, MergeRule
from mirror.wire.batch import NO_PRODUCER
from mirror.wire.compression import Codec
from mirror.wire.records import Record
from tests.models.source_log import holed_batch, sealed

MERGING = MergeRule()


def batch(base: int, offsets: Sequence[int], span: int = 0) -> bytearray:
    records = [Record(offset, 5, None, b"%d" % offset) for offset in offsets]
    made = holed_batch(
        records, Codec.NONE, base=base, span=span or (offsets[-1] - base + 1 if offsets else 1)
    )
    return sealed(made, base, Codec.NONE, NO_PRODUCER)


def taken(
    rules: IntakeRules, position: int, *batches: bytearray, end: int | None = None
) -> tuple[list[int], dict[Fate, int]]:
    """Source offsets that are sent, and the counts by fate."""
    data = b"".join(batches)
    intake = Intake(rules, position, ByteBudget(10**9), end)
    intake.take(memoryview(data), (), Slab(bytearray(data), None))
    sent: list[int] = []
    fates = {Fate.MIRRORED: 0}
    for item in intake.items:
        if isinstance(item, Outgoing):
            sent += [first + step for first, count in item.runs for step in range(count)]
            fates[Fate.MIRRORED] += item.count
        for passed in (item.passed or ()) if isinstance(item, Outgoing) else (item,):
            fates[passed.fate] = fates.get(passed.fate, 0) + passed.count
    assert sum(fates.values()) == intake.position - position, "every offset has a fate"
    return sent, fates


def test_small_batches_behind_opened_records_are_sent_too() -> None:
    rules = IntakeRules(merge=MERGING, opened_below=3)
    sent, fates = taken(rules, 0, batch(0, [0, 1, 2]), batch(3, [3, 4]), batch(5, [5]))
    assert sent == [0, 1, 2, 3, 4, 5]
    assert fates == {Fate.MIRRORED: 6}


def test_holes_at_the_end_of_a_batch_that_is_opened_singly_are_counted() -> None:
    rules = IntakeRules(merge=MERGING, opened_below=10, opens_singly=True)
    sent, fates = taken(rules, 0, batch(0, [0, 2], span=5), batch(5, [], span=2), batch(7, [7]))
    assert sent == [0, 2, 7]
    assert fates == {Fate.MIRRORED: 3, Fate.COMPACTED: 5}


def test_a_start_in_the_holes_at_the_end_of_an_opened_batch_is_counted() -> None:
    rules = IntakeRules(opens_records=True)
    sent, fates = taken(rules, 3, batch(0, [0, 2], span=5), batch(5, [], span=2), batch(7, [7]))
    assert sent == [7]
    assert fates == {Fate.MIRRORED: 1, Fate.COMPACTED: 4}


def test_behind_the_end_nothing_is_taken_but_a_batch_that_reaches_over_it_is_whole() -> None:
    behind = batch(6, [6, 7])
    assert taken(IntakeRules(), 0, batch(0, [0, 1, 2, 3, 4, 5]), behind, end=3) == (
        [0, 1, 2, 3, 4, 5],
        {Fate.MIRRORED: 6},
    )
    assert taken(IntakeRules(), 0, batch(0, [0, 1]), behind, end=4) == (
        [0, 1],
        {Fate.MIRRORED: 2, Fate.COMPACTED: 2},
    )
