"""Test alerts about states of partitions: one per cause, none that the alert of the objective covers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pytest

from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert, Severity, Style
from monitor.alerts.catalogue import LONG_PAUSE, AlertPatience, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.alerts.stored_alerts import matters_of
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import (
    NOTHING_KNOWN,
    DatastreamStates,
    FleetMovement,
    LossAhead,
    Movement,
    StateCount,
)

BEGIN_MS: Final = 1_764_000_000_000
ORDERS: Final = DatastreamName("orders")
WELL: Final = {ORDERS: Evaluation(LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well"), Incident(), "")}
LATE: Final = {
    ORDERS: Evaluation(LatencyVerdict(ObjectiveStatus.BREACHED, None, "late"), Incident(is_open=True), "")
}
HALTED: Final = {
    ORDERS: Evaluation(
        LatencyVerdict(ObjectiveStatus.HALTED, None, "not copied", is_halted=True), Incident(), ""
    )
}
STALL, SOURCE_AWAY, REWIND = MovementState.STALL, MovementState.SOURCE_AWAY, MovementState.REWIND
PAUSED: Final = MovementState.PAUSED_BY_ITSELF
TRANSACTION = MovementState.WAITING_FOR_TRANSACTION


def a_count(state: MovementState, partitions: int = 3) -> StateCount:
    return StateCount(state, partitions, "t-1", "no progress at 7", BEGIN_MS)


def moving(*states: MovementState, loss: LossAhead | None = None, is_complete: bool = True) -> FleetMovement:
    movement = Movement(tuple(a_count(one) for one in states), loss)
    return FleetMovement({ORDERS: DatastreamStates("east", movement)}, is_complete)


class Monitor:
    """Conditions judged every ten seconds."""

    def __init__(self) -> None:
        self.conditions, self.number = Conditions(AlertPatience()), 0

    def run(
        self,
        movements: FleetMovement,
        times: int = 1,
        findings: dict[DatastreamName, Evaluation] | None = None,
    ) -> list[Alert]:
        found: list[Alert] = []
        for _ in range(times):
            self.number += 1
            now = ClockReading(BEGIN_MS + 10_000 * self.number, 10.0 * self.number)
            found = self.conditions.judged(findings if findings is not None else {}, now, movements)
        return found

    def blind(self, movements: FleetMovement, times: int = 1) -> list[Alert]:
        found: list[Alert] = []
        for _ in range(times):
            self.number += 1
            now = ClockReading(BEGIN_MS + 10_000 * self.number, 10.0 * self.number)
            found = self.conditions.judging_failed("Pinot is away", now, movements)
        return found


def names(alerts: list[Alert]) -> list[str]:
    return sorted(one.kind.name.removeprefix("Headrace") for one in alerts)


def test_catching_up_is_progress_and_a_warning_when_it_takes_long() -> None:
    monitor, catching = Monitor(), moving(MovementState.CATCHING_UP)
    assert monitor.run(catching, 180) == []
    (warning,) = monitor.run(catching)
    assert (names([warning]), warning.kind.severity) == (["CatchingUp"], Severity.WARNING)
    assert matters_of([warning]) == {}
    assert monitor.run(moving(), 7) == []


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (STALL, "PartitionsStalled"),
        (MovementState.STOP, "PartitionsStopped"),
        (REWIND, "PartitionsRewound"),
        (MovementState.PAUSED_BY_ITSELF, "PartitionsPausedThemselves"),
        (SOURCE_AWAY, "SourceAway"),
        (MovementState.DESTINATION_AWAY, "DestinationAway"),
        (MovementState.TRUNCATED, "SourceTruncated"),
        (MovementState.RECREATED, "TopicRecreated"),
        (MovementState.WARN, None),
        (MovementState.THROTTLED, None),
        (MovementState.PAUSED_BY_USER, None),
    ],
)
def test_a_state_that_lasts_is_one_alert_of_a_datastream_without_an_objective_too(
    state: MovementState, kind: str | None
) -> None:
    monitor = Monitor()
    assert monitor.run(moving(state), 6) == []
    assert names(monitor.run(moving(state))) == ([kind] if kind else [])
    assert monitor.run(moving(), 6) == []


def test_the_number_of_partitions_and_the_worst_are_annotations_and_no_labels() -> None:
    (alert,) = Monitor().run(moving(STALL), 7)
    assert alert.summary.startswith("orders: 3 partitions stalled")
    assert re.fullmatch(r"t-1\b.* 2025-11-24T16:00:00\.000Z: no progress at 7", alert.description)
    notice = Style({}, "", "").notice(alert)
    assert (notice.annotations["partitions"], notice.annotations["worst_partition"]) == ("3", "t-1")
    assert notice.labels.keys() == {"alertname", "severity", "service", "datastream", "cluster"}


def test_an_open_transaction_is_an_alert_after_it_should_have_ended() -> None:
    monitor = Monitor()
    assert monitor.run(moving(TRANSACTION), 90) == []
    assert names(monitor.run(moving(TRANSACTION))) == ["TransactionOpen"]


def test_what_comes_and_goes_is_one_alert_until_it_is_gone_for_a_while() -> None:
    monitor = Monitor()
    (first,) = monitor.run(moving(STALL), 7)
    for _ in range(4):
        (still,) = monitor.run(moving(), 4)
        (still,) = monitor.run(moving(STALL))
        assert still.since_ms == first.since_ms
    assert names(monitor.run(moving(), 5)) == ["PartitionsStalled"]
    assert monitor.run(moving()) == []


@pytest.mark.parametrize(
    ("findings", "kind"), [(LATE, "LatencyObjectiveBreached"), (HALTED, "DatastreamHalted")]
)
def test_a_state_that_begins_within_another_alert_is_named_there(
    findings: dict[DatastreamName, Evaluation], kind: str
) -> None:
    monitor = Monitor()
    (alert,) = monitor.run(moving(PAUSED, STALL), 9, findings)
    assert names([alert]) == [kind]
    assert re.findall(r"\b3 partitions (\w+)[^;]* \(t-1\)", alert.description) == ["paused", "stalled"]
    assert names(monitor.run(moving(STALL), 7, WELL)) == ["PartitionsStalled"], "outlasts the other alert"


def test_a_state_that_was_an_alert_before_stays_one() -> None:
    monitor = Monitor()
    assert names(monitor.run(moving(STALL), 7, WELL)) == ["PartitionsStalled"]
    both = ["LatencyObjectiveBreached", "PartitionsStalled"]
    assert names(monitor.run(moving(STALL, PAUSED), 9, LATE)) == both


def test_data_that_will_be_lost_are_an_alert_whatever_else_is_the_matter() -> None:
    loss = LossAhead(2, "t-1", 2400.0, 7200.0)
    monitor = Monitor()
    assert names(monitor.run(moving(MovementState.PAUSED_BY_USER, loss=loss), 2)) == []
    (alert,) = monitor.run(moving(MovementState.PAUSED_BY_USER, loss=loss))
    assert alert.kind.name == "HeadraceDataLossAhead"
    assert "orders" in alert.summary
    assert "40 min" in alert.summary
    assert re.search("t-1 in 40 min.* 2 h; 2 partitions", alert.description)
    assert names(monitor.run(moving(STALL, loss=loss), 1, LATE)) == [
        "DataLossAhead",
        "LatencyObjectiveBreached",
    ]


def test_a_loss_that_is_far_away_is_none_yet() -> None:
    monitor = Monitor()
    assert monitor.run(moving(loss=LossAhead(1, "t-1", 14_401.0)), 9) == []
    assert monitor.run(moving(loss=LossAhead(1, "t-1", 1_020.0, share=0.09)), 9) == []
    (alert,) = monitor.run(moving(loss=LossAhead(1, "t-1", 0.0, share=0.1)), 3)
    assert "t-1 now" in alert.description


def test_nothing_is_over_while_not_all_instances_are_heard() -> None:
    monitor = Monitor()
    (first,) = monitor.run(moving(STALL), 7)
    assert monitor.run(moving(is_complete=False), 30) == [first]
    assert monitor.run(NOTHING_KNOWN, 30) == [first]
    assert names(monitor.blind(NOTHING_KNOWN, 30)) == ["NothingJudged", "PartitionsStalled"]
    assert monitor.run(FleetMovement({}, is_complete=True)) == [], "the datastream is gone"


def test_partitions_of_an_instance_that_responds_now_and_then_fire_like_others() -> None:
    monitor = Monitor()
    for _ in range(3):
        assert monitor.run(moving(STALL)) == []
        assert monitor.run(moving(is_complete=False)) == []
    assert [one.kind.name for one in monitor.run(moving(STALL))] == ["HeadracePartitionsStalled"]


def test_what_was_over_or_unseen_for_long_starts_anew() -> None:
    for between in (moving(), moving(is_complete=False)):
        monitor = Monitor()
        monitor.run(moving(STALL))
        monitor.run(between, 7)
        assert monitor.run(moving(STALL)) == []


def test_what_partitions_do_is_known_without_measurements() -> None:
    monitor = Monitor()
    assert names(monitor.blind(moving(STALL), 7)) == ["NothingJudged", "PartitionsStalled"]
    assert names(monitor.blind(moving(), 6)) == ["NothingJudged"]
    monitor.run(moving(), 1, LATE)
    assert names(monitor.blind(moving(STALL), 9)) == ["LatencyObjectiveBreached", "NothingJudged"]


def away(since_ms: int) -> FleetMovement:
    movement = Movement((replace(a_count(SOURCE_AWAY), since_ms=since_ms),))
    return FleetMovement({ORDERS: DatastreamStates("east", movement)}, True)


def of_cause(cause: Cause, action: str = "") -> dict[DatastreamName, Evaluation]:
    return {ORDERS: replace(LATE[ORDERS], diagnosis=Diagnosis(cause, f"{cause}: why"), action=action)}


def test_a_source_that_dies_while_a_datastream_is_late_for_something_else_is_a_new_alert() -> None:
    monitor = Monitor()
    monitor.run(NOTHING_KNOWN, 30, of_cause(Cause.OVERLOADED_TASK, "rebalance r-1 asked for"))
    since_ms = BEGIN_MS + 10_000 * monitor.number
    dead = away(since_ms)
    assert names(monitor.run(dead, 6, LATE)) == ["LatencyObjectiveBreached"], "patience"
    found = monitor.run(dead, 1, of_cause(Cause.SOURCE_BOUND))
    assert names(found) == ["LatencyObjectiveBreached", "SourceAway"]
    (late,) = [one for one in found if one.kind.name == "HeadraceLatencyObjectiveBreached"]
    assert late.summary.endswith(": source-bound")
    assert late.done == "", "the action concerned another cause"


def test_a_source_that_is_why_a_datastream_is_late_is_no_second_alert() -> None:
    monitor = Monitor()
    dead = away(BEGIN_MS + 5_000)
    monitor.run(NOTHING_KNOWN, 2, of_cause(Cause.SOURCE_BOUND))
    assert names(monitor.run(dead, 30, of_cause(Cause.SOURCE_BOUND))) == ["LatencyObjectiveBreached"]


def test_the_action_stays_while_the_cause_does() -> None:
    monitor = Monitor()
    monitor.run(NOTHING_KNOWN, 2, of_cause(Cause.OVERLOADED_TASK, "rebalance r-1 asked for"))
    (late,) = monitor.run(NOTHING_KNOWN, 2, of_cause(Cause.OVERLOADED_TASK))
    assert late.done == "rebalance r-1 asked for"
    (late,) = monitor.run(NOTHING_KNOWN, 2, of_cause(Cause.UNKNOWN))
    assert late.done == "rebalance r-1 asked for"


@pytest.mark.parametrize(
    ("hours", "since_ms", "fires"), [(23, BEGIN_MS, False), (25, BEGIN_MS, True), (25, None, False)]
)
def test_a_pause_by_an_operator_warns_after_a_day_even_if_the_monitor_is_new(
    hours: int, since_ms: int | None, fires: bool
) -> None:
    count = replace(a_count(MovementState.PAUSED_BY_USER), since_ms=since_ms)
    monitor = Monitor()
    monitor.number = hours * 360
    paused = FleetMovement({ORDERS: DatastreamStates("east", Movement((count,)))}, is_complete=True)
    assert monitor.run(paused) == []
    found = monitor.run(paused, 6)
    assert [(one.kind, one.partitions, one.worst) for one in found] == [(LONG_PAUSE, 3, "t-1")] * fires
    assert monitor.run(moving(), 7) == []
