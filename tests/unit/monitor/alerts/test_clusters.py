"""Test that a fault of a cluster is one alert, whatever it affects, and so is the catch-up afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert, Style
from monitor.alerts.catalogue import AlertPatience, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.alerts.silence import Silence
from monitor.alerts.stored_alerts import matters_of
from monitor.burn.rates import Budget, BurnResult, read_rule
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import DatastreamStates, FleetMovement, Movement, StateCount
from monitor.objectives.late_times import Lateness

BEGIN_MS: Final = 1_764_000_000_000
NAMES: Final = ("clicks", "orders", "users")
CLUSTERS: Final = {MovementState.SOURCE_AWAY: "east", MovementState.DESTINATION_AWAY: "west"}
LATE: Final = Evaluation(
    LatencyVerdict(ObjectiveStatus.BREACHED, None, "late"), Incident(is_open=True), "", "east"
)
WELL: Final = Evaluation(LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well"), Incident(), "", "east")
HALTED: Final = Evaluation(
    LatencyVerdict(ObjectiveStatus.HALTED, None, "not copied", is_halted=True), Incident(), "", "east"
)
UNJUDGED: Final = Evaluation(
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

    def run(self, times: int, moving: FleetMovement, findings: Mapping[str, Evaluation] = {}) -> list[Alert]:
        alerts: list[Alert] = []
        for _ in range(times):
            self.number += 1
            now = ClockReading(BEGIN_MS + 10_000 * self.number, 10.0 * self.number)
            found = {DatastreamName(name): one for name, one in findings.items()}
            alerts = self.conditions.judged(found, now, moving)
            self.pages |= {(one.kind.name.removeprefix("Headrace"), one.datastream) for one in alerts}
        return alerts


def every(finding: Evaluation) -> dict[str, Evaluation]:
    return dict.fromkeys(NAMES, finding)


@pytest.mark.parametrize(
    ("state", "kind"),
    [(MovementState.SOURCE_AWAY, "SourceAway"), (MovementState.DESTINATION_AWAY, "DestinationAway")],
)
@pytest.mark.parametrize("finding", [LATE, HALTED, UNJUDGED])
def test_a_dead_cluster_and_the_catch_up_after_it_are_one_page(
    state: MovementState, kind: str, finding: Evaluation
) -> None:
    monitor, away = Monitor(), movements(dict.fromkeys(NAMES, state))
    (alert,) = monitor.run(90, away, every(finding))
    assert (alert.kind.name, alert.datastreams) == (f"Headrace{kind}", NAMES)
    assert (alert.cluster, alert.partitions, alert.worst) == (CLUSTERS[state], 6, "clicks-0")
    catching_up = movements(dict.fromkeys(NAMES, MovementState.CATCHING_UP))
    monitor.run(100, catching_up, every(LATE))
    assert monitor.run(20, movements({}), every(WELL)) == []
    assert monitor.pages == {(kind, "")}


def test_a_cluster_that_answers_nothing_is_one_page_before_partitions_say_so() -> None:
    """The cluster is frozen: requests wait for a response, and therefore records are late."""
    frozen = Diagnosis(Cause.DESTINATION_BOUND, "produce has waited 9 s", {"produce_unanswered_seconds": 9.0})
    late = Evaluation(LATE.verdict, LATE.incident, "", "east", frozen)
    monitor = Monitor()
    (alert,) = monitor.run(7, movements({}), every(late))
    assert (alert.kind.name, alert.cluster, alert.datastreams) == ("HeadraceDestinationAway", "west", NAMES)
    assert monitor.pages == {("DestinationAway", "")}


def test_a_cluster_that_is_slow_for_a_moment_hides_nothing() -> None:
    slow = Diagnosis(Cause.DESTINATION_BOUND, "produce has waited 2 s", {"produce_unanswered_seconds": 2.0})
    monitor = Monitor()
    assert (
        monitor.run(2, movements({}), {"orders": Evaluation(LATE.verdict, LATE.incident, "", "east", slow)})
        == []
    )
    monitor.run(1, movements({}), {"orders": LATE})
    assert monitor.pages == {("LatencyObjectiveBreached", "orders")}


def test_what_does_not_catch_up_in_time_is_an_alert_of_its_own() -> None:
    monitor, away = Monitor(), movements({"orders": MovementState.SOURCE_AWAY})
    monitor.run(10, away, {"orders": LATE})
    monitor.run(179, movements({"orders": MovementState.WARN}), {"orders": LATE})
    assert monitor.pages == {("SourceAway", "")}
    monitor.run(2, movements({"orders": MovementState.WARN}), {"orders": LATE})
    assert monitor.pages == {("SourceAway", ""), ("LatencyObjectiveBreached", "orders")}


def test_what_is_late_again_after_it_has_caught_up_is_an_alert_of_its_own() -> None:
    monitor, away = Monitor(), movements({"orders": MovementState.SOURCE_AWAY})
    monitor.run(10, away, {"orders": LATE})
    monitor.run(1, movements({}), {"orders": WELL})
    monitor.run(1, movements({}), {"orders": LATE})
    assert monitor.pages == {("SourceAway", ""), ("LatencyObjectiveBreached", "orders")}


def test_windows_of_error_budgets_that_hold_the_outage_page_nobody() -> None:
    fast = BurnResult(read_rule("14.4 over 1 h and 5 m"), 20.0, 20.0)
    budgets = (Budget(Objective(2_000, 99.5), 0.5, 30, (fast,)),)
    late = Evaluation(
        LatencyVerdict(ObjectiveStatus.BREACHED, None, "late", budgets=budgets), LATE.incident, "", "east"
    )
    well = Evaluation(
        LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well", budgets=budgets), WELL.incident, "", "east"
    )
    monitor = Monitor()
    monitor.run(10, movements({"orders": MovementState.SOURCE_AWAY}), {"orders": late})
    monitor.run(60, movements({}), {"orders": well})
    assert monitor.pages == {("SourceAway", "")}


@pytest.mark.parametrize("state", [*CLUSTERS, MovementState.STALL, MovementState.STOP])
def test_a_datastream_without_traffic_pages_nobody(state: MovementState) -> None:
    monitor, idle = Monitor(), {"clicks": 2, "orders": 1}
    monitor.run(90, movements({"clicks": state}, idle), {"clicks": UNJUDGED} if state in CLUSTERS else {})
    assert monitor.pages == set()
    (alert, *_) = monitor.run(10, movements({"clicks": state, "orders": state}, idle))
    assert alert.datastream in ("", "orders")
    assert alert.datastreams == (("orders",) if state in CLUSTERS else ())


def test_a_datastream_whose_own_alert_came_first_is_in_the_list_of_the_cluster() -> None:
    monitor, away = Monitor(), movements(dict.fromkeys(NAMES, MovementState.DESTINATION_AWAY))
    monitor.run(2, movements({}), {"orders": LATE})
    alerts = {one.kind.name: one for one in monitor.run(9, away, every(LATE))}
    assert alerts["HeadraceDestinationAway"].datastreams == NAMES
    assert alerts["HeadraceDestinationAway"].partitions == 6
    assert monitor.pages == {("LatencyObjectiveBreached", "orders"), ("DestinationAway", "")}


def test_where_all_have_their_own_alert_the_cluster_has_none_and_budgets_page_nobody() -> None:
    fast = BurnResult(read_rule("14.4 over 1 h and 5 m"), 20.0, 20.0)
    budgets = (Budget(Objective(2_000, 99.5), 0.5, 30, (fast,)),)
    late = Evaluation(
        LatencyVerdict(ObjectiveStatus.BREACHED, None, "late", budgets=budgets), LATE.incident, "", "east"
    )
    monitor, away = Monitor(), movements({"orders": MovementState.DESTINATION_AWAY})
    monitor.run(2, movements({}), {"orders": LATE})
    monitor.run(20, away, {"orders": late})
    assert monitor.pages == {("LatencyObjectiveBreached", "orders")}


def test_measurements_of_a_cluster_that_is_away_are_no_second_page() -> None:
    conditions, pages = Conditions(AlertPatience()), set[str]()
    away = movements(dict.fromkeys(NAMES, MovementState.DESTINATION_AWAY))
    for number in range(20):
        now = ClockReading(BEGIN_MS + 10_000 * number, 10.0 * number)
        pages |= {one.kind.name for one in conditions.judging_failed("no answer", now, away)}
    assert pages == {"HeadraceDestinationAway"}
    for number in range(20, 30):
        now = ClockReading(BEGIN_MS + 10_000 * number, 10.0 * number)
        pages |= {one.kind.name for one in conditions.judging_failed("no answer", now, movements({}))}
    assert pages == {"HeadraceDestinationAway", "HeadraceNothingJudged"}, "the cluster is back"


def of_cause(cause: Cause, evidence: Mapping[str, float | str] = {}) -> Evaluation:
    return Evaluation(
        LATE.verdict, LATE.incident, "", "east", Diagnosis(cause, f"{cause}: because", evidence)
    )


@pytest.mark.parametrize(
    ("finding", "kind", "cluster"),
    [
        (of_cause(Cause.INSTANCE_LOST), "ProcessLost", ""),
        (of_cause(Cause.WORKER_LOST), "ProcessLost", ""),
        (of_cause(Cause.BROKER_QUOTA, {"quota": "destination brokers"}), "BrokersThrottle", "west"),
        (of_cause(Cause.BROKER_QUOTA, {"quota": "source brokers"}), "BrokersThrottle", "east"),
    ],
)
def test_a_fault_of_several_datastreams_is_one_page_and_none_if_it_is_over_soon(
    finding: Evaluation, kind: str, cluster: str
) -> None:
    monitor = Monitor()
    monitor.run(5, movements({}), every(finding))
    monitor.run(3, movements({}), every(of_cause(Cause.BACKLOG)))
    monitor.run(20, movements({}), every(WELL))
    assert monitor.pages == set()
    (alert,) = monitor.run(8, movements({}), every(finding))
    assert (alert.kind.name, alert.cluster, alert.datastreams) == (f"Headrace{kind}", cluster, NAMES)
    monitor.run(20, movements({}), every(of_cause(Cause.BACKLOG)))
    monitor.run(20, movements({}), every(WELL))
    assert monitor.pages == {(kind, "")}


def test_a_worker_that_does_not_respond_is_one_page_for_all_of_its_datastreams() -> None:
    """Also where its successor takes long to start, and for none without traffic."""

    def stopped(state: MovementState, without_process: int) -> FleetMovement:
        known = movements(dict.fromkeys(NAMES, state), {"clicks": 2})
        return FleetMovement(
            {
                name: replace(
                    one,
                    movement=Movement((replace(one.movement.states[0], without_process=without_process),)),
                )
                for name, one in known.datastreams.items()
            },
            is_complete=True,
        )

    monitor, silent = Monitor(), stopped(MovementState.STOP, 1)
    (alert,) = monitor.run(8, silent, every(HALTED))
    assert (alert.kind.name, alert.datastreams) == ("HeadraceProcessLost", ("orders", "users"))
    monitor.run(8, stopped(MovementState.STALL, 0), every(HALTED))
    monitor.run(3, movements({}), every(of_cause(Cause.WORKER_LOST)))
    monitor.run(20, movements({}), every(WELL))
    assert monitor.pages == {("ProcessLost", "")}


@pytest.mark.parametrize("cause", [Cause.WORKER_LOST, Cause.INSTANCE_LOST, Cause.BROKER_QUOTA])
def test_a_fault_pages_nobody_once_its_records_are_no_longer_late(cause: Cause) -> None:
    """The windows of objectives still contain them, and so the diagnosis remains."""
    over = replace(of_cause(cause), lateness=Lateness(((BEGIN_MS, BEGIN_MS + 2_000),), is_over=True))
    monitor = Monitor()
    monitor.run(2, movements({}), {"orders": of_cause(cause)})
    monitor.run(30, movements({}), {"orders": over})
    assert monitor.pages == set()


def test_what_is_left_of_a_fault_without_an_alert_pages_when_it_lasts() -> None:
    monitor = Monitor()
    monitor.run(5, movements({}), {"orders": of_cause(Cause.INSTANCE_LOST)})
    monitor.run(5, movements({}), {"orders": of_cause(Cause.BACKLOG)})
    assert monitor.pages == set()
    monitor.run(2, movements({}), {"orders": of_cause(Cause.BACKLOG)})
    assert monitor.pages == {("LatencyObjectiveBreached", "orders")}


@pytest.mark.parametrize("state", [MovementState.STALL, MovementState.STOP, MovementState.PAUSED_BY_ITSELF])
def test_lateness_that_follows_partitions_that_stood_still_is_no_second_page(state: MovementState) -> None:
    monitor, still = Monitor(), movements({"orders": state})
    monitor.run(8, still)
    (first,) = monitor.pages
    monitor.run(8, movements({"orders": MovementState.CATCHING_UP}), {"orders": of_cause(Cause.BACKLOG)})
    monitor.run(20, movements({}), {"orders": WELL})
    assert monitor.pages == {first}
    monitor.run(2, movements({}), {"orders": LATE})
    assert len(monitor.pages) == 2, "it is late again"


def test_lateness_of_another_cause_pages_beside_partitions_that_stand_still() -> None:
    monitor, still = Monitor(), movements({"orders": MovementState.PAUSED_BY_ITSELF})
    monitor.run(8, still)
    monitor.run(3, still, {"orders": of_cause(Cause.OVERLOADED_TASK)})
    assert ("LatencyObjectiveBreached", "orders") in monitor.pages


def test_a_budget_that_burns_just_before_an_incident_opens_is_no_page_of_its_own() -> None:
    fast = BurnResult(read_rule("14.4 over 1 h and 5 m"), 20.0, 20.0)
    budgets = (Budget(Objective(2_000, 99.5), 0.5, 30, (fast,)),)
    opening, late, well = (
        replace(one, verdict=one.verdict.with_budgets(budgets), incident=incident)
        for one, incident in ((LATE, Incident()), (LATE, LATE.incident), (WELL, Incident()))
    )
    monitor = Monitor()
    for finding in (opening, late, late):
        monitor.run(1, movements({}), {"orders": finding})
        assert {one.name for one in monitor.conditions.inhibited} == {"HeadraceErrorBudgetBurning"}
    monitor.run(1, movements({}), {"users": opening})
    assert len(monitor.conditions.inhibited) == 1
    monitor.run(1, movements({}), {"users": well})
    assert not monitor.conditions.inhibited, "no incident opened"


def test_two_clusters_are_two_alerts_and_the_incidents_are_of_the_datastreams() -> None:
    monitor = Monitor()
    moving = movements({"clicks": MovementState.SOURCE_AWAY, "orders": MovementState.DESTINATION_AWAY})
    alerts = monitor.run(7, moving)
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
    (alert,) = monitor.run(7, movements(dict.fromkeys(NAMES, MovementState.SOURCE_AWAY)))
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
