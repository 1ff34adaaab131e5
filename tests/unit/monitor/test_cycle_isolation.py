"""Test that one late datastream does not affect the evaluation of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mirror.model.identifiers import DatastreamName
from monitor.causes.evidence import Evidence
from monitor.causes.inquiry import MOST_QUESTIONS
from monitor.cycle import MonitorCycle
from monitor.incidents import IncidentPolicy
from monitor.latency import ObjectiveStatus, ObjectiveSubject, Source
from monitor.ports import Preview
from tests.fakes.clock import ManualClock
from tests.unit.monitor.test_cycle import BAD, ORDERS, SOURCE, THROTTLED, Rig, World, a_subject

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


def test_no_rebalance_is_requested_before_the_cause_is_checked() -> None:
    rig = Rig()
    rig.world.wanted = {name: a_subject() for name in MANY}
    rig.world.seen = {SOURCE: {"t": BAD}}
    rig.world.why = THROTTLED
    for _ in range(4):
        rig.clock.advance(10.0)
        rig.cycle.evaluate()
    assert (rig.world.asked, rig.world.previews) == ([], 0)


class Malformed(World):
    """Service whose reports on the datastream `odd` cannot be parsed. `step`: malformed report."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step
        odd = Source("odd", "east")
        self.wanted = {ORDERS: a_subject(), ODD: replace(a_subject(), source=odd)}
        self.seen = {SOURCE: {"t": BAD}, odd: {"t": BAD}}

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        if (self.step, subject.source.group) == ("evidence", "odd"):
            raise KeyError("lanes")
        return super().evidence(subject)

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        if (self.step, name) == ("preview", ODD):
            raise KeyError("sentence")
        return super().preview_rebalance(name)


ODD: Final = DatastreamName("odd")


@pytest.mark.parametrize("step", ["evidence", "preview"])
def test_an_unexpected_error_about_one_datastream_leaves_the_verdicts_of_the_others(step: str) -> None:
    world, clock = Malformed(step), ManualClock()
    cycle = MonitorCycle(world, world, IncidentPolicy(open_after=1), clock, 60.0)
    for _ in range(3):
        clock.advance(60.0)
        found = cycle.evaluate()
    assert [one.verdict.standing for one in found.values()] == [ObjectiveStatus.BREACHED] * 2
    assert found[ORDERS].diagnosis is not None
    assert "KeyError" in found[ODD].action
