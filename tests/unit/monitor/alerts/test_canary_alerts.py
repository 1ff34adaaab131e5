"""The alert of a canary that fails is held back by the alert that explains it; that of a loss is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import CANARY_LOST, CANARY_UNAVAILABLE, AlertPatience, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.movement.states import MovementState
from monitor.movement.summary import DatastreamStates, FleetMovement, Movement, StateCount

FAILS = Alert(CANARY_UNAVAILABLE, "the canary of orders fails", "", 0, "orders", "east")
LOSES = Alert(CANARY_LOST, "orders has lost canary records", "", 0, "orders", "east")


def movement(state: MovementState | None) -> FleetMovement:
    counts = () if state is None else (StateCount(state, 1, "orders-0", "no answer", 0, 0),)
    return FleetMovement(
        {DatastreamName("orders"): DatastreamStates("east", Movement(counts), "west")}, is_complete=True
    )


def fired(state: MovementState | None, own: Sequence[Alert], evaluations: int = 20) -> set[str]:
    """Return the alerts that have ever fired in that many evaluations at intervals of ten seconds."""
    conditions, found = Conditions(AlertPatience()), set[str]()
    for number in range(evaluations):
        now = ClockReading(10_000 * number, 10.0 * number)
        found |= {one.kind.name for one in conditions.judged({}, now, movement(state), own)}
    return found


def test_a_failing_canary_is_an_alert_after_a_while_and_a_loss_at_once() -> None:
    assert fired(None, [FAILS], 3) == set()
    assert fired(None, [FAILS]) == {CANARY_UNAVAILABLE.name}
    assert fired(None, [LOSES], 1) == {CANARY_LOST.name}


@pytest.mark.parametrize("state", [MovementState.SOURCE_AWAY, MovementState.DESTINATION_AWAY])
def test_a_cluster_that_is_away_explains_a_failing_canary(state: MovementState) -> None:
    found = fired(state, [FAILS, LOSES])
    assert CANARY_UNAVAILABLE.name not in found
    assert CANARY_LOST.name in found
    assert len(found) == 2


def test_it_resolves_when_the_canary_is_well_again() -> None:
    conditions = Conditions(AlertPatience())
    for number in range(10):
        conditions.judged({}, ClockReading(10_000 * number, 10.0 * number), movement(None), [FAILS])
    later = [
        conditions.judged({}, ClockReading(10_000 * number, 10.0 * number), movement(None), [])
        for number in range(10, 20)
    ]
    assert [one.kind for one in later[0]] == [CANARY_UNAVAILABLE]
    assert later[-1] == []
