"""Test that a fault of a cluster is one alert, whatever it affects, and so is the catch-up afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from mirror.model.datastreams.objectives.objective import Objective
from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert, Style
from monitor.alerts.conditions import AlertPatience, ClockReading, Conditions
from monitor.alerts.silence import Silence
from monitor.alerts.told import matters_of
from monitor.burn.rates import Budget, BurnResult, read_rule
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.cycle import TurnResult
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import DatastreamStates, FleetMovement, Movement, StateCount

BEGIN_MS: Final = 1_764_000_000_000
NAMES: Final = ("clicks", "orders", "users")
CLUSTERS: Final = {MovementState.SOURCE_AWAY: "east", MovementState.DESTINATION_AWAY: "west"}
LATE: Final = TurnResult(
    LatencyVerdict(ObjectiveStatus.BREACHED, None, "late"), Incident(is_open=True), "", "east"
)
WELL: Final = TurnResult(LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well"), Incident(), "", "east")
HALTED: Final = TurnResult(
    LatencyVerdict(ObjectiveStatus.HALTED, None, "not copied", is_halted=True), Incident(), "", "east"
)
UNJUDGED: Final = TurnResult(
    LatencyVerdict(ObjectiveStatus.UNKNOWN, None, "nothing was measured"), Incident(), "", "east"
)


def movements(states: Mapping[str, MovementState], idle: Mapping[str, int] = {}) -> FleetMovement:
    """Return the movement of all three datastreams: OK unless given in `states`."""
    found = {}
    for name in NAMES:
        state = states.get(name)
        counts = (
            ()
            if state is None
            else (StateCount(state, 2, f"{name}-0", "no answer", BEGIN_MS, idle.get(name, 0)),)
        )
        found[DatastreamName(name)] = DatastreamStates("east", Movement(counts), "west")
    return FleetMovement(found, is_complete=True)


class Monitor:
    """Conditions judged every ten seconds, with every alert that ever fired."""

    def __init__(self) -> None:
        self.conditions, self.number = Conditions(AlertPatience()), 0
        self.pages: set[tuple[str, str]] = set()

    def turns(
        self, times: int, moving: FleetMovement, findings: Mapping[str, TurnResult] = {}
    ) -> list[Alert]:
        alerts: list[Alert] = []
        for _ in range(times):
            self.number += 1
            now = ClockReading(BEGIN_MS + 10_000 * self.number, 10.0 * self.number)
            found = {DatastreamName(name): one for name, one in findings.items()}
            alerts = self.conditions.judged(found, now, moving)
            self.pages |= {(one.kind.name.removeprefix("Headrace"), one.datastream) for one in alerts}
        return alerts


def every(finding: TurnResult) -> dict[str, TurnResult]:
    return dict.fromkeys(NAMES, finding)


@pytest.mark.parametrize(
    ("state", "kind"),
    [(MovementState.SOURCE_AWAY, "SourceAway"), (MovementState.DESTINATION_AWAY, "DestinationAway")],
)
@pytest.mark.parametrize("finding", [LATE, HALTED, UNJUDGED])
def test_a_dead_cluster_and_the_catch_up_after_it_are_one_page(
    state: MovementState, kind: str, finding: TurnResult
) -> None:
    monitor, away = Monitor(), movements(dict.fromkeys(NAMES, state))
    (alert,) = monitor.turns(90, away, every(finding))
    assert (alert.kind.name, alert.datastreams) == (f"Headrace{kind}", NAMES)
    assert (alert.cluster, alert.partitions, alert.worst) == (CLUSTERS[state], 6, "clicks-0")
    catching_up = movements(dict.fromkeys(NAMES, MovementState.CATCHING_UP))
    monitor.turns(100, catching_up, every(LATE))
    assert monitor.turns(20, movements({}), every(WELL)) == []
    assert monitor.pages == {(kind, "")}


def test_a_cluster_that_answers_nothing_is_one_page_before_partitions_say_so() -> None:
    """The cluster is frozen: requests wait for a response, and therefore records are late."""
    frozen = Diagnosis(Cause.DESTINATION_BOUND, "produce has waited 9 s", {"produce_unanswered_seconds": 9.0})
    late = TurnResult(LATE.verdict, LATE.incident, "", "east", frozen)
    monitor = Monitor()
    (alert,) = monitor.turns(7, movements({}), every(late))
    assert (alert.kind.name, alert.cluster, alert.datastreams) == ("HeadraceDestinationAway", "west", NAMES)
    assert monitor.pages == {("DestinationAway", "")}


def test_a_cluster_that_is_slow_for_a_moment_hides_nothing() -> None:
    slow = Diagnosis(Cause.DESTINATION_BOUND, "produce has waited 2 s", {"produce_unanswered_seconds": 2.0})
    monitor = Monitor()
    assert (
        monitor.turns(2, movements({}), {"orders": TurnResult(LATE.verdict, LATE.incident, "", "east", slow)})
        == []
    )
    monitor.turns(1, movements({}), {"orders": LATE})
    assert monitor.pages == {("LatencyObjectiveBreached", "orders")}


def test_what_does_not_catch_up_in_time_is_an_alert_of_its_own() -> None:
    monitor, away = Monitor(), movements({"orders": MovementState.SOURCE_AWAY})
    monitor.turns(10, away, {"orders": LATE})
    monitor.turns(179, movements({"orders": MovementState.WARN}), {"orders": LATE})
    assert monitor.pages == {("SourceAway", "")}
    monitor.turns(2, movements({"orders": MovementState.WARN}), {"orders": LATE})
    assert monitor.pages == {("SourceAway", ""), ("LatencyObjectiveBreached", "orders")}


def test_what_is_late_again_after_it_has_caught_up_is_an_alert_of_its_own() -> None:
    monitor, away = Monitor(), movements({"orders": MovementState.SOURCE_AWAY})
    monitor.turns(10, away, {"orders": LATE})
    monitor.turns(1, movements({}), {"orders": WELL})
    monitor.turns(1, movements({}), {"orders": LATE})
    assert monitor.pages == {("SourceAway", ""), ("LatencyObjectiveBreached", "orders")}


def test_windows_of_error_budgets_that_hold_the_outage_page_nobody() -> None:
    fast = BurnResult(read_rule("14.4 over 1 h and 5 m"), 20.0, 20.0)
    budgets = (Budget(Objective(2_000, 99.5), 0.5, 30, (fast,)),)
    late = TurnResult(
        LatencyVerdict(ObjectiveStatus.BREACHED, None, "late", budgets=budgets), LATE.incident, "", "east"
    )
    well = TurnResult(
        LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well", budgets=budgets), WELL.incident, "", "east"
    )
    monitor = Monitor()
    monitor.turns(10, movements({"orders": MovementState.SOURCE_AWAY}), {"orders": late})
    monitor.turns(60, movements({}), {"orders": well})
    assert monitor.pages == {("SourceAway", "")}


@pytest.mark.parametrize("state", [*CLUSTERS, MovementState.STALL, MovementState.STOP])
def test_a_datastream_without_traffic_pages_nobody(state: MovementState) -> None:
    monitor, idle = Monitor(), {"clicks": 2, "orders": 1}
    monitor.turns(90, movements({"clicks": state}, idle), {"clicks": UNJUDGED} if state in CLUSTERS else {})
    assert monitor.pages == set()
    (alert, *_) = monitor.turns(10, movements({"clicks": state, "orders": state}, idle))
    assert alert.datastream in ("", "orders")
    assert alert.datastreams == (("orders",) if state in CLUSTERS else ())


def test_two_clusters_are_two_alerts_and_the_incidents_are_of_the_datastreams() -> None:
    monitor = Monitor()
    moving = movements({"clicks": MovementState.SOURCE_AWAY, "orders": MovementState.DESTINATION_AWAY})
    alerts = monitor.turns(7, moving)
    assert {(one.cluster, one.datastreams) for one in alerts} == {
        ("east", ("clicks",)),
        ("west", ("orders",)),
    }
    assert len({one.key for one in alerts}) == 2
    assert {name: [one.name for one in each] for name, each in matters_of(alerts).items()} == {
        "clicks": ["HeadraceSourceAway"],
        "orders": ["HeadraceDestinationAway"],
    }


def test_an_alert_of_a_cluster_has_its_name_as_a_label_and_the_datastreams_as_an_annotation() -> None:
    monitor = Monitor()
    (alert,) = monitor.turns(7, movements(dict.fromkeys(NAMES, MovementState.SOURCE_AWAY)))
    notice = Style({}, "", "http://here").notice(alert)
    assert notice.labels == {
        "alertname": "HeadraceSourceAway",
        "severity": "critical",
        "service": "headrace",
        "cluster": "east",
    }
    assert notice.annotations["datastreams"] == "clicks, orders, users"
    now_ms = BEGIN_MS
    assert not Silence("orders", now_ms + 1).covers(alert, now_ms), "other datastreams are not silenced"
    assert Silence("*s", now_ms + 1).covers(alert, now_ms)
