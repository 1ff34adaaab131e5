"""Test that one late datastream does not affect the evaluation of the others."""

from __future__ import annotations

from typing import Final

from mirror.model.identifiers import DatastreamName
from monitor.causes.inquiry import MOST_QUESTIONS
from tests.unit.monitor.test_cycle import BAD, SOURCE, Rig, a_subject

MANY: Final = [DatastreamName(f"d-{number:02}") for number in range(MOST_QUESTIONS + 5)]


def test_the_cause_of_every_late_datastream_is_checked_in_turn() -> None:
    rig = Rig()
    rig.world.wanted = {name: a_subject() for name in MANY}
    rig.world.seen = {SOURCE: {"t": BAD}}
    for _ in range(4):
        rig.clock.advance(10.0)
        found = rig.cycle.evaluate()
    assert [*found] == MANY, "in the order of names"
    assert [name for name in MANY if found[name].diagnosis is None] == []
    assert rig.world.looked == 3 * MOST_QUESTIONS
