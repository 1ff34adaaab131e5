"""Test the extent of an incident, and its cost."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pytest

from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from monitor.actions import PredictedSaving
from monitor.alerts.catalogue import CATALOGUE
from monitor.burn.rates import Budget
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import NOTHING_KNOWN, DatastreamStates, FleetMovement, Movement, StateCount
from monitor.objectives.late_times import Lateness, TimeInterval
from monitor.records.headline import _IMPLIED
from monitor.records.record import IncidentRecord, Phase, RebalanceGain, record_from_json, record_to_json
from monitor.records.tracker import NO_MATTERS, DatastreamProblem, IncidentTracker, resumed

ORDERS: Final = DatastreamName("orders")
OBJECTIVE: Final = Objective(2_000, 99.5)
AWAY: Final = {ORDERS: [DatastreamProblem("HeadraceSourceAway", "east", "9 partitions waiting")]}
BOTH: Final = {ORDERS: [*AWAY[ORDERS], DatastreamProblem("HeadraceDataLossAhead", "east", "40 min")]}


def a_finding(standing: ObjectiveStatus, left: float | None = None, *, is_open: bool = True) -> Evaluation:
    budgets = (Budget(OBJECTIVE, left, 30),)
    verdict = LatencyVerdict(standing, None, standing.value, budgets=budgets)
    return Evaluation(verdict, Incident(is_open=is_open), "", "east")


def late(left: float | None = None) -> dict[DatastreamName, Evaluation]:
    return {ORDERS: a_finding(ObjectiveStatus.BREACHED, left)}


def well(left: float | None = None, *, is_open: bool = False) -> dict[DatastreamName, Evaluation]:
    return {ORDERS: a_finding(ObjectiveStatus.WITHIN, left, is_open=is_open)}


def phases(record: IncidentRecord) -> list[Phase]:
    return [one.phase for one in record.timeline]


def test_what_partitions_do_is_an_incident_of_a_datastream_without_an_objective() -> None:
    tracker = IncidentTracker()
    (opened,) = tracker.judged({}, 1_000, AWAY)
    assert (opened.id, opened.cluster, opened.is_late) == ("orders-1000", "east", False)
    assert opened.matters == ("HeadraceSourceAway",)
    assert opened.timeline[0].text == "HeadraceSourceAway: 9 partitions waiting"
    assert tracker.judged({}, 11_000, AWAY) == [], "nothing new"
    (more,) = tracker.judged({}, 21_000, BOTH)
    assert more.timeline[-1].text == "HeadraceDataLossAhead: 40 min"
    (closed,) = tracker.judged({}, 31_000)
    assert (closed.id, closed.closed_ms) == (opened.id, 31_000)
    assert phases(closed) == [Phase.DETECTED, Phase.CLASSIFIED, Phase.RECOVERED, Phase.CLOSED]


LOST: Final = {ORDERS: [DatastreamProblem("HeadraceProcessLost", "east", "clicks-1 has no process")]}


def test_records_that_a_problem_delayed_belong_to_its_incident() -> None:
    """They are copied, and known to be late, only after the problem has ended."""
    tracker = IncidentTracker()
    (opened,) = tracker.judged(well(), 1_000, LOST)
    (settling,) = tracker.judged(well(), 9_000)
    assert (settling.is_open, settling.closing_ms) == (True, 39_000)
    delayed = replace(late()[ORDERS], lateness=Lateness(((2_000, 9_000),), is_over=False))
    (found,) = tracker.judged({ORDERS: delayed}, 16_000)
    assert (found.id, found.is_late, found.bad_seconds) == (opened.id, True, 7.0)
    (closed,) = tracker.judged(well(), 60_000)
    assert phases(closed) == [Phase.DETECTED, Phase.RELAPSED, Phase.RECOVERED, Phase.CLOSED]


def test_a_problem_that_returns_belongs_to_its_incident() -> None:
    tracker = IncidentTracker()
    (opened,) = tracker.judged(well(), 1_000, LOST)
    tracker.judged(well(), 9_000)
    (returned,) = tracker.judged(well(), 20_000, LOST)
    assert (returned.id, returned.closing_ms) == (opened.id, None)
    (settling,) = tracker.judged(well(), 30_000)
    assert settling.closing_ms == 60_000
    assert tracker.judged(well(), 50_000) == []
    (closed,) = tracker.judged(well(), 60_000)
    assert phases(closed) == [Phase.DETECTED, Phase.RELAPSED, Phase.RECOVERED, Phase.CLOSED]


def test_an_incident_closes_after_the_clock_has_gone_back() -> None:
    tracker = IncidentTracker()
    tracker.judged(well(), 7_200_000, LOST)
    (settling,) = tracker.judged(well(), 7_210_000)
    assert settling.is_open
    (closed,) = tracker.judged(well(), 3_600_000)
    assert (closed.id, closed.closed_ms) == (settling.id, settling.opened_ms)


def test_a_lost_process_is_the_cause_if_no_record_is_late_enough_for_a_diagnosis() -> None:
    assert set(_IMPLIED) <= {kind.name for kind in CATALOGUE}
    tracker = IncidentTracker()
    tracker.judged(well(), 1_000, LOST)
    tracker.judged(well(), 9_000)
    (closed,) = tracker.judged(well(), 60_000)
    assert (closed.is_open, closed.cause) == (False, Cause.WORKER_LOST)
    tracker = IncidentTracker()
    tracker.judged(with_cause(Cause.INSTANCE_LOST), 1_000, LOST)
    (closed,) = tracker.judged(well(), 9_000)
    assert closed.cause == Cause.INSTANCE_LOST


def moving(partitions: int, idle: int = 0, *, is_complete: bool = True) -> FleetMovement:
    counts = (StateCount(MovementState.SOURCE_AWAY, partitions, "t-0", "no answer", 1_000, idle),)
    movement = Movement(counts if partitions else ())
    return FleetMovement({ORDERS: DatastreamStates("east", movement)}, is_complete)


@pytest.mark.parametrize(
    ("movements", "standing", "bad", "unknown"),
    [
        (moving(3), None, 10, 0),
        (moving(3, idle=2), None, 10, 0),
        (moving(3, idle=3), None, 0, 10),
        (moving(0), None, 0, 10),
        (moving(0, is_complete=False), None, 10, 0),
        (moving(3, idle=3), ObjectiveStatus.UNKNOWN, 0, 10),
        (moving(0), ObjectiveStatus.WITHIN, 0, 0),
        (moving(3, idle=3), ObjectiveStatus.BREACHED, 10, 0),
        (moving(3, idle=3), ObjectiveStatus.HALTED, 0, 0),
        (moving(0), ObjectiveStatus.HALTED, 10, 0),
        (NOTHING_KNOWN, ObjectiveStatus.WITHIN, 10, 0),
    ],
)
def test_bad_seconds_are_those_with_waiting_records_or_a_missed_objective(
    movements: FleetMovement, standing: ObjectiveStatus | None, bad: float, unknown: float
) -> None:
    """The alert fires throughout, because it outlasts its cause."""
    tracker = IncidentTracker()
    tracker.judged({}, 1_000, AWAY, moving(3))
    findings = {} if standing is None else {ORDERS: a_finding(standing)}
    tracker.judged(findings, 11_000, AWAY, movements)
    (record,) = tracker._open.values()
    assert (record.bad_seconds, record.unknown_seconds) == (bad, unknown)


def with_cause(cause: Cause) -> dict[DatastreamName, Evaluation]:
    return {ORDERS: replace(late()[ORDERS], diagnosis=Diagnosis(cause, f"{cause}: because"))}


def causes_of(tracker: IncidentTracker) -> tuple[str, dict[str, float]]:
    (record,) = tracker._open.values()
    return record.cause, dict(record.causes)


def test_a_cluster_that_is_away_is_the_cause_and_what_it_leaves_is_not_another_one() -> None:
    """Records that producers kept meanwhile have old timestamps, as if clocks were wrong."""
    tracker = IncidentTracker()
    known = {ORDERS: [AWAY[ORDERS][0]._replace(cause=Cause.SOURCE_AWAY)]}
    tracker.judged({}, 1_000, known, moving(3))
    tracker.judged({}, 41_000, known, moving(3))
    assert causes_of(tracker) == (Cause.SOURCE_AWAY, {Cause.SOURCE_AWAY: 40.0})
    for number, cause in enumerate((Cause.WRONG_TIMESTAMPS, Cause.UNKNOWN, Cause.BACKLOG), start=5):
        tracker.judged(with_cause(cause), 1_000 + 10_000 * number)
    assert causes_of(tracker) == (Cause.SOURCE_AWAY, {Cause.SOURCE_AWAY: 70.0})


def test_an_outage_that_is_over_before_its_alert_is_the_cause_and_began_before_the_incident() -> None:
    """What arrives after it is late, and looks like a slow source or an overload."""
    tracker = IncidentTracker()
    for now_ms in range(1_000, 41_000, 10_000):
        tracker.judging_failed(now_ms, NO_MATTERS, moving(3))
    tracker.judged(with_cause(Cause.SOURCE_BOUND), 41_000)
    (record,) = tracker._open.values()
    assert (record.cause, record.bad_seconds) == (Cause.SOURCE_AWAY, 30.0)
    tracker.judged(with_cause(Cause.HOT_PARTITION), 51_000)
    assert causes_of(tracker)[0] == Cause.SOURCE_AWAY
    tracker.judged(with_cause(Cause.OUR_QUOTA), 61_000)
    assert causes_of(tracker)[1] == {Cause.SOURCE_AWAY: 40.0, Cause.OUR_QUOTA: 10.0}


@pytest.mark.parametrize(("idle", "last_ms"), [(3, 31_000), (0, 900)])
def test_an_outage_of_an_idle_datastream_or_of_long_ago_explains_nothing(idle: int, last_ms: int) -> None:
    tracker = IncidentTracker()
    tracker.judged({}, last_ms, NO_MATTERS, moving(3, idle))
    tracker.judged(with_cause(Cause.SOURCE_BOUND), 61_000)
    (record,) = tracker._open.values()
    assert (record.cause, record.bad_seconds) == (Cause.SOURCE_BOUND, 0.0)


def test_a_cluster_that_still_does_not_answer_is_away_and_not_slow() -> None:
    tracker = IncidentTracker()
    for number, cause in enumerate([*[Cause.DESTINATION_BOUND] * 4, Cause.DESTINATION_AWAY]):
        tracker.judged(with_cause(cause), 1_000 + 10_000 * number)
    assert causes_of(tracker) == (Cause.DESTINATION_AWAY, {Cause.DESTINATION_AWAY: 40.0})
    tracker.judged(with_cause(Cause.DESTINATION_BOUND), 51_000)
    assert causes_of(tracker) == (Cause.DESTINATION_AWAY, {Cause.DESTINATION_AWAY: 50.0})


def test_a_problem_that_is_a_cause_hides_no_other_cause() -> None:
    tracker = IncidentTracker()
    known = {ORDERS: [AWAY[ORDERS][0]._replace(cause=Cause.SOURCE_AWAY)]}
    tracker.judged(with_cause(Cause.OUR_QUOTA), 1_000)
    tracker.judged(with_cause(Cause.OUR_QUOTA), 31_000, known)
    assert causes_of(tracker)[0] == Cause.OUR_QUOTA


def test_a_problem_that_lasts_clearly_longer_than_the_first_cause_is_the_cause() -> None:
    tracker = IncidentTracker()
    known = {ORDERS: [AWAY[ORDERS][0]._replace(cause=Cause.SOURCE_AWAY)]}
    tracker.judged(with_cause(Cause.DESTINATION_AWAY), 1_000)
    tracker.judged(with_cause(Cause.DESTINATION_AWAY), 9_000)
    for now_ms in (19_000, 29_000, 39_000, 49_000):
        tracker.judged(late(), now_ms, known)
    assert causes_of(tracker) == (Cause.SOURCE_AWAY, {Cause.DESTINATION_AWAY: 8.0, Cause.SOURCE_AWAY: 40.0})


def test_a_datastream_that_is_late_because_its_source_is_away_is_one_incident() -> None:
    tracker = IncidentTracker()
    (opened,) = tracker.judged(late(), 1_000)
    (seen,) = tracker.judged(late(), 11_000, AWAY)
    assert (seen.id, seen.matters) == (opened.id, ("HeadraceSourceAway",))
    assert not tracker.judged(late(), 21_000), "the alert has ended, the datastream is still late"
    (goes_on,) = tracker.judged(well(), 31_000, AWAY)
    assert (goes_on.is_open, goes_on.is_late) == (True, False)
    (settling,) = tracker.judged(well(), 41_000)
    assert (settling.is_open, settling.closing_ms) == (True, 61_000)
    (closed,) = tracker.judged(well(), 61_000)
    told = [Phase.DETECTED, Phase.CLASSIFIED, Phase.RECOVERED, Phase.CLOSED]
    assert (closed.id, phases(closed)) == (opened.id, told)


def test_what_becomes_late_during_an_incident_is_part_of_it() -> None:
    tracker = IncidentTracker()
    (opened,) = tracker.judged(well(), 1_000, AWAY)
    (seen,) = tracker.judged(late(), 11_000, AWAY)
    assert (seen.id, seen.is_late) == (opened.id, True)
    assert seen.timeline[-1].phase is Phase.CLASSIFIED
    assert seen.timeline[-1].text.endswith(": breached")


@pytest.mark.parametrize(
    ("before", "after", "spent"), [(0.75, 0.5, 0.25), (0.5, 0.75, 0.0), (None, 0.5, None)]
)
def test_it_cost_what_is_left_less_of_the_budget(
    before: float | None, after: float, spent: float | None
) -> None:
    tracker = IncidentTracker()
    tracker.judged(late(before), 1_000)
    tracker.judged(late(after), 11_000)
    (closed,) = tracker.judged(well(), 21_000)
    (cost,) = closed.costs
    assert cost.objective == "99.5 % within 2 s over 30 d"
    assert (cost.before, cost.now, cost.spent) == (before, after, spent)


def test_its_time_is_bad_well_or_unknown() -> None:
    tracker = IncidentTracker()
    tracker.judged(late(), 0)
    tracker.judged(late(), 10_000)
    tracker.judged(well(is_open=True), 15_000)
    tracker.judging_failed(35_000)
    tracker.judging_failed(55_000, AWAY)
    tracker.judged({ORDERS: a_finding(ObjectiveStatus.UNKNOWN)}, 56_000)
    tracker.judged(late(), 600_000)
    (closed,) = tracker.judged(well(), 601_000)
    assert closed.bad_seconds == 10 + 20
    assert closed.unknown_seconds == 20 + 1 + 544, "time without evaluations is unknown"
    assert closed.judged_ms == 601_000


def test_what_it_costs_is_written_each_minute() -> None:
    tracker = IncidentTracker()
    written = [len(tracker.judged(late(), 10_000 * number)) for number in range(13)]
    assert written == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]


def test_while_nothing_can_be_judged_what_was_late_stays_so_and_what_was_seen_may_end() -> None:
    tracker = IncidentTracker()
    tracker.judged(late(), 0)
    assert tracker.judging_failed(10_000) == []
    assert tracker.judged(late(), 20_000) == []
    other = IncidentTracker()
    other.judged({}, 0, AWAY)
    (closed,) = other.judging_failed(10_000, NO_MATTERS)
    assert not closed.is_open


def test_a_cause_is_noted_when_it_is_another_one_and_its_figures_stay_the_newest() -> None:
    hot = Diagnosis(Cause.HOT_PARTITION, "hot partition: t-1 has 90 % of the load", {"share": 0.9})
    tracker = IncidentTracker()
    (opened,) = tracker.judged({ORDERS: replace(a_finding(ObjectiveStatus.BREACHED), diagnosis=hot)}, 1_000)
    assert (opened.cause, opened.evidence) == ("hot partition", {"share": 0.9})
    assert opened.timeline[-1].text == hot.sentence
    more, unclear = replace(hot, evidence={"share": 0.95}), Diagnosis(Cause.UNKNOWN, "nobody knows")
    assert not tracker.judged({ORDERS: replace(a_finding(ObjectiveStatus.BREACHED), diagnosis=more)}, 11_000)
    assert not tracker.judged(
        {ORDERS: replace(a_finding(ObjectiveStatus.BREACHED), diagnosis=unclear)}, 21_000
    )
    (closed,) = tracker.judged(well(), 31_000)
    assert (closed.cause, closed.evidence) == ("hot partition", {"share": 0.95})
    assert phases(closed) == [Phase.DETECTED, Phase.CLASSIFIED, Phase.RECOVERED, Phase.CLOSED]


def test_a_decision_to_do_nothing_is_no_act_so_that_no_cool_down_begins_with_it() -> None:
    tracker, found = IncidentTracker(), Diagnosis(Cause.BROKER_QUOTA, "a broker throttles")
    breached = replace(a_finding(ObjectiveStatus.BREACHED), diagnosis=found)
    decided = replace(breached, decision="a rebalance would not help: 0 partitions move")
    (record,) = tracker.judged({ORDERS: decided}, 1_000)
    assert phases(record) == [Phase.DETECTED, Phase.CLASSIFIED, Phase.DECIDED]
    assert resumed(record, 2_000, 100.0).helped_at is None
    assert not tracker.judged({ORDERS: decided}, 2_000), "reported once"
    acted = replace(breached, decision="rebalance r-1 asked for: 2 partitions move", has_acted=True)
    (record,) = tracker.judged({ORDERS: acted}, 3_000)
    assert phases(record)[2:] == [Phase.DECIDED, Phase.ACTED]
    assert resumed(record, 5_000, 100.0).helped_at == 98.0


def test_what_repeats_is_one_entry_that_says_how_often_and_since_when() -> None:
    record = IncidentRecord("x", "orders", "east", 0).noted(0, Phase.DETECTED, "late")
    for number in range(6):
        record = record.noted(60_000 * number + 1, Phase.RELAPSED, f"p99 is {number * 1_000} ms")
        record = record.noted(60_000 * number + 2, Phase.RECOVERED, f"p99 is {number} ms")
        record = record.noted(60_000 * number + 3, Phase.DECIDED, f"no rebalance: {number} of 24 asked for")
    assert phases(record) == [Phase.DETECTED, Phase.RELAPSED, Phase.RECOVERED, Phase.DECIDED]
    assert re.fullmatch(r"p99 is 5000 ms \(6 times .*\b00:00:00\b.*\)", record.timeline[1].text_with_times)
    assert record.timeline[1].time_ms == 300_001
    assert record_from_json(record_to_json(record)) == record


def test_a_recovered_incident_says_when_it_closes() -> None:
    tracker = IncidentTracker()
    tracker.judged(late(), 1_000)
    recovered = {ORDERS: replace(well(is_open=True)[ORDERS], closes_in=600.0)}
    (record,) = tracker.judged(recovered, 11_000)
    assert record.closing_ms == 611_000
    assert not tracker.judged({ORDERS: replace(recovered[ORDERS], closes_in=590.0)}, 21_000), "no change"
    (record,) = tracker.judged(late(), 31_000)
    assert record.closing_ms is None
    tracker.judged(recovered, 41_000)
    (closed,) = tracker.judged(well(), 51_000)
    assert closed.closing_ms is None


@pytest.mark.parametrize(
    ("worth", "expected", "saved"),
    [
        (PredictedSaving(300.0, "saves", 400.0), RebalanceGain(11_000, 400.0, 300.0, 50.0), 350.0),
        (PredictedSaving(None, "saves an unknown time"), RebalanceGain(11_000, None, None, 50.0), None),
        (PredictedSaving(10.0, "saves", 20.0), RebalanceGain(11_000, 20.0, 10.0, 50.0), -30.0),
    ],
)
def test_what_a_rebalance_has_saved_stands_beside_what_was_predicted(
    worth: PredictedSaving, expected: RebalanceGain, saved: float | None
) -> None:
    tracker = IncidentTracker()
    tracker.judged(late(), 1_000)
    acted = replace(late()[ORDERS], action="rebalance r-1 asked for", worth=worth)
    (before,) = tracker.judged({ORDERS: acted}, 11_000)
    assert before.gain is not None
    assert before.gain.saved is None, "not over yet"
    (recovered,) = tracker.judged(well(is_open=True), 31_000)
    assert recovered.gain == replace(expected, lasted=20.0)
    (relapsed,) = tracker.judged(late(), 41_000)
    assert relapsed.gain == replace(expected, lasted=None)
    tracker.judged(well(is_open=True), 61_000)
    (closed,) = tracker.judged(well(), 71_000)
    assert (closed.gain, closed.gain and closed.gain.saved) == (expected, saved)
    assert record_from_json(record_to_json(closed)) == closed


def late_at(*intervals: TimeInterval, is_over: bool = False) -> dict[DatastreamName, Evaluation]:
    return {ORDERS: replace(late()[ORDERS], lateness=Lateness(intervals, is_over))}


def bad_seconds(tracker: IncidentTracker) -> float:
    (record,) = tracker._open.values()
    return record.bad_seconds


def test_bad_seconds_are_those_of_late_records_and_not_of_windows_that_contain_them() -> None:
    """The objective is missed for a minute after the last late record."""
    tracker = IncidentTracker()
    tracker.judged(late_at((5_000, 10_000)), 10_000)
    for now_ms in range(20_000, 90_000, 10_000):
        tracker.judged(late_at((5_000, 28_000), (30_000, 31_500)), now_ms)
    assert bad_seconds(tracker) == 23 + 1.5
    tracker.judged(well(is_open=True), 90_000)
    assert bad_seconds(tracker) == 23 + 1.5


def test_partitions_that_stand_still_are_bad_beside_measured_lateness() -> None:
    tracker = IncidentTracker()
    tracker.judged(late_at((5_000, 10_000)), 10_000, AWAY, moving(3))
    tracker.judged(late_at((5_000, 10_000)), 20_000, AWAY, moving(3))
    assert bad_seconds(tracker) == 19, "since the partitions wait"


def test_partitions_that_have_reported_no_late_records_since_do_not_stand_still() -> None:
    """Their state and its alert last a little longer."""
    tracker = IncidentTracker()
    tracker.judged(late_at((5_000, 10_000)), 10_000, AWAY, moving(3))
    tracker.judged(late_at((5_000, 12_000), is_over=True), 20_000, AWAY, moving(3))
    assert bad_seconds(tracker) == 11, "the partitions wait since the first second"


def throttled() -> FleetMovement:
    counts = (StateCount(MovementState.THROTTLED, 3, "t-0", "a quota", 1_000),)
    return FleetMovement({ORDERS: DatastreamStates("east", Movement(counts))}, is_complete=True)


def test_partitions_that_are_copied_in_time_are_not_bad_while_an_alert_about_them_lasts() -> None:
    matter = {ORDERS: [DatastreamProblem("HeadraceBrokersThrottle", "west", "a quota")]}
    tracker = IncidentTracker()
    tracker.judged(late_at((5_000, 10_000)), 10_000, matter, throttled())
    tracker.judged(late_at((5_000, 10_000)), 20_000, matter, throttled())
    tracker.judged(well(is_open=True), 30_000, matter, throttled())
    assert bad_seconds(tracker) == 5


def test_an_incident_does_not_count_the_time_of_the_one_before_it() -> None:
    """Neither late records that are still in the window, nor the outage that explains them."""
    tracker = IncidentTracker()
    tracker.judged(late_at((5_000, 10_000)), 10_000, AWAY, moving(3))
    (closed,) = tracker.judged(well(), 30_000)
    assert closed.closed_ms == 30_000
    tracker.judged(late_at((5_000, 10_000), (31_000, 33_000)), 40_000)
    assert bad_seconds(tracker) == 2


def test_two_outages_in_a_minute_are_not_one_that_lasted() -> None:
    def away(since_ms: int) -> FleetMovement:
        counts = (StateCount(MovementState.SOURCE_AWAY, 3, "t-0", "no answer", since_ms),)
        return FleetMovement({ORDERS: DatastreamStates("east", Movement(counts))}, is_complete=True)

    tracker = IncidentTracker()
    tracker.judged({}, 10_000, NO_MATTERS, away(5_000))
    tracker.judged({}, 20_000, NO_MATTERS, moving(0))
    tracker.judged({}, 50_000, NO_MATTERS, away(45_000))
    tracker.judged(late(), 51_000)
    assert bad_seconds(tracker) == 5 + 5


def test_the_next_monitor_counts_the_lateness_since_the_last_evaluation_of_its_predecessor() -> None:
    first, second = IncidentTracker(), IncidentTracker()
    first.judged(late_at((5_000, 10_000)), 10_000)
    (record,) = first._open.values()
    second.judged(late_at((5_000, 28_000)), 40_000)
    second.restore([record])
    assert bad_seconds(second) == 5 + 18
    second.judged(late_at((5_000, 28_000), (45_000, 50_000)), 50_000)
    assert bad_seconds(second) == 5 + 18 + 5


def test_the_next_monitor_counts_nothing_of_an_incident_that_was_closed() -> None:
    first, second = IncidentTracker(), IncidentTracker()
    first.judged(late_at((5_000, 10_000)), 10_000)
    (closed,) = first.judged(well(), 20_000)
    second.judged(late_at((5_000, 10_000), (21_000, 25_000)), 40_000)
    second.restore([closed])
    assert bad_seconds(second) == 4
