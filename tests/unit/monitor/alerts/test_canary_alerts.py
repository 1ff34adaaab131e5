"""The alert of a canary that fails is held back by the alert that explains it; that of a loss is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicNaming
from monitor.alerts.alert import Alert
from monitor.alerts.canaries import LOST_SECONDS, canary_alerts
from monitor.alerts.catalogue import CANARY_LOST, CANARY_UNAVAILABLE, AlertPatience, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.alerts.stored_alerts import InheritedAlerts, read_alerts
from monitor.canary.canary_watch import CanaryPath, CanaryState
from monitor.canary.ledger import CanaryFigures
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


ORDERS = DatastreamName("orders")
PATH = CanaryPath.of("orders", ClusterRef("east"), ClusterRef("west"), TopicNaming("*"))
RESTARTED_MS = 2_000_000
States = Mapping[DatastreamName, CanaryState]


def states(figures: CanaryFigures) -> States:
    return {ORDERS: CanaryState(PATH, figures)}


FRESH = states(CanaryFigures(produced=1, produce_availability=1.0, silent_seconds=1.0))
"""A canary that has just started."""
HEALTHY = states(CanaryFigures(produced=9, consumed=9, produce_availability=1.0, consume_availability=1.0))
LOSSY = states(CanaryFigures(produced=9, consumed=8, lost=1, lost_seconds=100.0))
SILENT = states(CanaryFigures(produced=400, produce_availability=1.0, silent_seconds=400.0))


class Restart:
    """A monitor that continues the alerts that its predecessor has stored at `RESTARTED_MS`."""

    def __init__(self, former: States) -> None:
        self.conditions = Conditions(AlertPatience())
        own = canary_alerts(former, RESTARTED_MS, [])
        stored = InheritedAlerts().records([replace(alert, since_ms=1_000) for alert in own])
        inherited = [found.alert for found in read_alerts(stored.values())]
        self.firing = self.conditions.resume(inherited, ClockReading(RESTARTED_MS, 0.0))

    def firing_after(self, seconds: float, seen: States | None) -> list[str]:
        """Return the alerts that fire after an evaluation `seconds` after the restart."""
        now = ClockReading(RESTARTED_MS + int(seconds * 1_000), seconds)
        own = list(canary_alerts(seen, now.ms, self.firing))
        self.firing = self.conditions.judged({}, now, movement(None), own)
        assert all(alert.since_ms == 1_000 for alert in self.firing)
        return [alert.kind.name for alert in self.firing]


def test_the_alert_about_a_loss_survives_a_restart_until_its_end() -> None:
    monitor = Restart(LOSSY)
    end = LOST_SECONDS - 100.0
    assert monitor.firing_after(10.0, None) == [CANARY_LOST.name]
    assert monitor.firing_after(20.0, FRESH) == [CANARY_LOST.name]
    assert monitor.conditions.inherited == frozenset()  # receivers get it again
    assert monitor.firing_after(end - 1.0, HEALTHY) == [CANARY_LOST.name]
    assert monitor.firing_after(end + 1.0, HEALTHY) == []


def test_a_later_loss_extends_the_alert_of_a_previous_monitor() -> None:
    monitor = Restart(LOSSY)
    monitor.firing_after(10.0, LOSSY)
    assert monitor.firing_after(LOST_SECONDS - 100.0, FRESH) == [CANARY_LOST.name]


def test_the_alert_about_a_loss_ends_with_the_canary() -> None:
    assert Restart(LOSSY).firing_after(10.0, {}) == []


def test_the_alert_about_an_unavailable_canary_survives_a_restart_until_records_arrive() -> None:
    monitor = Restart(SILENT)
    assert monitor.firing_after(10.0, FRESH) == [CANARY_UNAVAILABLE.name]
    assert monitor.firing_after(290.0, FRESH) == [CANARY_UNAVAILABLE.name]
    assert monitor.firing_after(300.0, HEALTHY) == [CANARY_UNAVAILABLE.name]
    assert monitor.firing_after(400.0, HEALTHY) == []


def test_the_stored_end_follows_later_losses_but_not_clock_noise() -> None:
    told, first = InheritedAlerts(), replace(LOSES, since_ms=1, until_ms=900_000)
    stored = told.records([first])
    assert told.records([replace(first, until_ms=900_020)]) == stored
    ((alert, _),) = read_alerts(told.records([replace(first, until_ms=990_000)]).values())
    assert alert == replace(first, description=alert.description, until_ms=990_000)
