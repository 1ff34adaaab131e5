"""Selection of the hours to roll up."""

from __future__ import annotations

from pinot.partitions.rollups import HOUR_MS, Hour
from pmp.rollup import hours_to_roll_up

FIRST, SECOND = Hour("a", 0), Hour("a", HOUR_MS)


def test_hours_whose_rollup_knows_fewer_samples_are_behind() -> None:
    sampled = {SECOND: 5, FIRST: 3, Hour("b", 0): 1}
    rolled_up = {FIRST: 2, Hour("b", 0): 1}
    assert hours_to_roll_up(sampled, rolled_up) == [FIRST, SECOND]


def test_an_hour_whose_samples_are_partly_gone_keeps_its_rollup() -> None:
    assert hours_to_roll_up({FIRST: 2}, {FIRST: 9, SECOND: 4}) == []
