"""Test how findings become alerts: one letter per evaluation, ten seconds apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert, Severity
from monitor.alerts.catalogue import AlertPatience, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.burn.rates import Budget, BurnResult, read_rule
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import DatastreamStates, FleetMovement, Movement, StateCount
from monitor.objectives.late_times import Lateness
from monitor.records.record import IncidentRecord

ORDERS: Final = DatastreamName("orders")
OPEN, CLOSED = Incident(is_open=True), Incident()
FINDINGS: Final = {
    "W": Evaluation(LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well"), CLOSED, ""),
    "L": Evaluation(LatencyVerdict(ObjectiveStatus.BREACHED, None, "late"), OPEN, "", "east"),
    "w": Evaluation(LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well again"), OPEN, ""),
    "H": Evaluation(LatencyVerdict(ObjectiveStatus.HALTED, None, "not copied", is_halted=True), CLOSED, ""),
    "B": Evaluation(
        LatencyVerdict(ObjectiveStatus.BREACHED, None, "late; not copied", is_halted=True), OPEN, ""
    ),
    "l": Evaluation(
        LatencyVerdict(ObjectiveStatus.BREACHED, None, "late once"), Incident(is_open=True, breaches=1), ""
    ),
    "T": Evaluation(
        LatencyVerdict(ObjectiveStatus.BREACHED, None, "late"),
        OPEN,
        "",
        diagnosis=Diagnosis(Cause.WRONG_TIMESTAMPS, "wrong timestamps"),
    ),
    "U": Evaluation(LatencyVerdict(ObjectiveStatus.UNKNOWN, None, "nothing was measured"), CLOSED, ""),
}
LETTERS: Final = {
    "HeadraceLatencyObjectiveBreached": "L",
    "HeadraceDatastreamHalted": "H",
    "HeadraceDatastreamUnjudged": "U",
    "HeadraceNothingJudged": "N",
    "HeadraceWrongTimestamps": "T",
}


def evaluate(conditions: Conditions, letter: str, number: int) -> list[Alert]:
    """Evaluate once. N: nothing can be judged; -: the datastream does not exist."""
    now = ClockReading(10_000 * number, 10.0 * number)
    if letter == "N":
        return conditions.judging_failed("Pinot does not answer", now)
    return conditions.judged({ORDERS: FINDINGS[letter]} if letter in FINDINGS else {}, now)


@pytest.mark.parametrize(
    ("evaluations", "fires"),
    [
        ("WWWW", "...."),
        ("LLwwW", "LLLL."),
        ("HHHHHH", "...HHH"),
        ("HHWHHH", "......"),
        ("HHHHWHWWWWWWW", "...HHHHHHHH.."),
        ("HHHHBBLLLLLLL", "...HHH" + "2" * 5 + "LL"),
        ("LLBBBL", "LLLLLL"),
        ("HHHH-H", "...H.."),
        ("LL-L", "LL.L"),
        ("L" + "w" * 20 + "L", "L" * 18 + "..." + "L"),
        ("L" + "w" * 20 + "lw", "L" * 18 + "....."),
        (
            "L" + "w" * 20 + "L" + "w" * 30 + "LWLw" + "w" * 20,
            "L" * 18 + "..." + "L" * 32 + ".LL" + "L" * 16 + "....",
        ),
        ("L" * 14 + "B" * 4 + "H" * 2, "L" * 17 + "2HH"),
        ("UUUUUUUU", "....UUUU"),
        ("NNNNNNNN", "......NN"),
        ("LNNL", "LLLL"),
        ("LNNNNNNNW", "L" * 7 + "2."),
        ("HHNNNW", "......"),
        ("TTTW", "TTT."),
        ("TTLLW", "TTLL."),
        ("LLTTw", "LLLLL"),
        ("THHHHH", "T...HH"),
    ],
)
def test_what_fires(evaluations: str, fires: str) -> None:
    conditions, found = Conditions(AlertPatience(30.0, 40.0, 60.0, 60.0)), ""
    for number, letter in enumerate(evaluations):
        names = [LETTERS[one.kind.name] for one in evaluate(conditions, letter, number)]
        found += "." if not names else names[0] if len(names) == 1 else str(len(names))
    assert found == fires


def test_an_error_budget_that_burns_is_an_alert_while_it_does() -> None:
    fast, slow = read_rule("14.4 over 1 h and 5 m"), read_rule("1 over 3 d")
    objective = Objective(2_000, 99.5)

    def fires(at: int, *burns: BurnResult) -> list[str]:
        verdict = LatencyVerdict(
            ObjectiveStatus.WITHIN, 1.0, "well", budgets=(Budget(objective, 0.5, 30, burns),)
        )
        found = conditions.judged({ORDERS: Evaluation(verdict, CLOSED, "")}, ClockReading(at, float(at)))
        assert all(" 50% " in one.description for one in found)
        return [one.kind.name for one in found]

    conditions = Conditions(AlertPatience())
    assert fires(1, BurnResult(fast, 20.0, 20.0), BurnResult(slow, 2.0, 2.0)) == [
        "HeadraceErrorBudgetBurning"
    ]
    assert fires(2, BurnResult(fast, 20.0, 0.0), BurnResult(slow, 2.0, 2.0)) == ["HeadraceErrorBudgetWearing"]
    assert fires(3, BurnResult(fast, 20.0, None), BurnResult(slow, None, None)) == [
        "HeadraceErrorBudgetWearing"
    ]
    assert fires(4, BurnResult(fast, 20.0, 0.0), BurnResult(slow, 0.5, 0.5)) == []
    assert fires(5, BurnResult(fast, 20.0, None), BurnResult(slow, None, None)) == []


def test_a_budget_that_burns_near_its_limit_is_one_alert() -> None:
    fast, slow = read_rule("14.4 over 1 h and 5 m"), read_rule("1 over 3 d")

    def fires(at: int, short: float | None, days: float | None) -> list[str]:
        burns = BurnResult(fast, 20.0, short), BurnResult(slow, days, days)
        verdict = LatencyVerdict(
            ObjectiveStatus.WITHIN, 1.0, "well", budgets=(Budget(Objective(2_000, 99.5), 0.5, 30, burns),)
        )
        found = conditions.judged({ORDERS: Evaluation(verdict, CLOSED, "")}, ClockReading(at, float(at)))
        return [one.kind.name.removeprefix("HeadraceErrorBudget") for one in found]

    conditions = Conditions(AlertPatience())
    assert fires(1, 14.0, 0.9) == []
    assert fires(2, 15.0, 0.9) == ["Burning"]
    assert fires(3, 11.0, 0.9) == ["Burning"], "lasts down to three quarters of its rate"
    assert fires(4, None, 1.5) == ["Burning"], "unknown rates end nothing, one cause fires once"
    assert fires(5, 10.0, 1.5) == ["Wearing"]
    assert fires(6, 15.0, 0.8) == ["Wearing", "Burning"], "each alert ends separately"
    assert fires(7, 10.0, None) == ["Wearing"], "known windows end it despite unknown ones"
    assert fires(8, 10.0, 0.7) == []


def test_an_alert_says_since_when_what_and_what_was_done() -> None:
    conditions = Conditions(AlertPatience())
    helped = Evaluation(FINDINGS["L"].verdict, OPEN, "rebalance r-1 asked for", "east")
    conditions.judged({ORDERS: helped}, ClockReading(5_000, 5.0))
    (alert,) = conditions.judged({ORDERS: FINDINGS["L"]}, ClockReading(15_000, 15.0))
    assert (alert.since_ms, alert.datastream, alert.cluster) == (5_000, ORDERS, "east")
    assert alert.description == "late"
    assert alert.done == "rebalance r-1 asked for"


def test_wrong_timestamps_page_nobody() -> None:
    conditions = Conditions(AlertPatience())
    assert {one.kind.severity for one in evaluate(conditions, "T", 1)} == {Severity.WARNING}


def test_an_incident_pages_nobody_once_its_records_are_no_longer_late() -> None:
    """The window still shows them. Records that are late again page."""

    def fires(at: int, *, is_over: bool) -> list[str]:
        finding = replace(FINDINGS["L"], lateness=Lateness(((0, 900),), is_over))
        found = conditions.judged({ORDERS: finding}, ClockReading(at * 1_000, float(at)))
        return [one.kind.name for one in found]

    conditions = Conditions(AlertPatience())
    assert fires(1, is_over=True) == fires(2, is_over=True) == []
    assert fires(3, is_over=False) == ["HeadraceLatencyObjectiveBreached"]
    assert fires(4, is_over=True) == ["HeadraceLatencyObjectiveBreached"], "it resolves by the objective"


BURNING: Final = Evaluation(
    LatencyVerdict(
        ObjectiveStatus.WITHIN,
        1.0,
        "well",
        budgets=(
            Budget(
                Objective(2_000, 99.5),
                0.5,
                30,
                (BurnResult(read_rule("14.4 over 1 h and 5 m"), 20.0, 20.0),),
            ),
        ),
    ),
    CLOSED,
    "",
)


@pytest.mark.parametrize(("closed_ms", "is_inhibited"), [(None, True), (50_000, True), (-3_000_000, False)])
def test_a_budget_that_burns_because_of_an_incident_of_the_previous_monitor_pages_nobody(
    closed_ms: int | None, is_inhibited: bool
) -> None:
    conditions = Conditions(AlertPatience())
    conditions.expect_past()

    def pages(at: int) -> list[str]:
        found = conditions.judged({ORDERS: BURNING}, ClockReading(at * 1_000, float(at)))
        return [one.kind.name for one in found if one.key not in conditions.inhibited]

    assert pages(60) == [], "the incidents of the previous monitor are not known yet"
    record = IncidentRecord("orders-1", "orders", "east", 1, closed_ms)
    conditions.remember([record], ClockReading(61_000, 61.0))
    assert pages(62) == ([] if is_inhibited else ["HeadraceErrorBudgetBurning"])


def test_a_budget_that_burns_pages_although_the_past_stays_unknown() -> None:
    conditions = Conditions(AlertPatience())
    conditions.expect_past()
    finding = {ORDERS: BURNING}
    assert conditions.judged(finding, ClockReading(1_000, 1.0)) == []
    assert len(conditions.judged(finding, ClockReading(61_000, 61.0))) == 1


def test_the_time_of_an_outage_of_the_measurements_does_not_count_as_unexplained() -> None:
    """They are at the cluster that does not respond, which was not known at once."""
    away = FleetMovement(
        {
            ORDERS: DatastreamStates(
                "east",
                Movement((StateCount(MovementState.DESTINATION_AWAY, 2, "t-0", "no answer", 1),)),
                "west",
            )
        },
        is_complete=True,
    )
    calm = FleetMovement({ORDERS: DatastreamStates("east", Movement(), "west")}, is_complete=True)
    conditions, found = Conditions(AlertPatience(blind_after_seconds=60.0)), list[str]()
    for at in range(0, 200, 10):
        moving = away if 10 < at < 70 else calm
        alerts = conditions.judging_failed("no answer", ClockReading(at * 1_000, float(at)), moving)
        found += [one.kind.name for one in alerts if one.kind.name == "HeadraceNothingJudged"][: at < 130]
    assert found == []


@pytest.mark.parametrize(
    ("evaluations", "fires"),
    [
        ("LLoooooooo", "." * 10),
        ("LLLo" * 4, "." * 16),
        ("LLLLL", "...LL"),
        ("LLLLoo", "...LLL"),
        ("oLooooLooooLoooooooLL", "." * 19 + "LL"),
        ("oLoooowwoLooooLooooLoo", "." * 22),
        ("LULULU" * 3 + "L", "." * 18 + "L"),
        ("LLBBHHHH", "." * 5 + "HHH"),
    ],
)
def test_late_records_page_once_they_last_or_return_again_and_again(evaluations: str, fires: str) -> None:
    """o: the window contains late records, but none is late any longer."""
    over = replace(FINDINGS["L"], lateness=Lateness(((0, 2_000),), is_over=True))
    conditions, found = Conditions(AlertPatience(late_seconds=30.0)), ""
    for number, letter in enumerate(evaluations):
        now = ClockReading(10_000 * number, 10.0 * number)
        alerts = conditions.judged({ORDERS: {**FINDINGS, "o": over}[letter]}, now)
        found += "".join(LETTERS[one.kind.name] for one in alerts) or "."
    assert found == fires


def test_late_records_that_paged_nobody_inhibit_no_page_of_a_budget() -> None:
    burns = (BurnResult(read_rule("14.4 over 1 h and 5 m"), 20.0, 20.0),)
    budgets = (Budget(Objective(2_000, 99.5), 0.5, 30, burns),)
    well = replace(FINDINGS["w"], verdict=replace(FINDINGS["w"].verdict, budgets=budgets))
    conditions = Conditions(AlertPatience(late_seconds=30.0))
    assert conditions.judged({ORDERS: FINDINGS["L"]}, ClockReading(0, 0.0)) == []
    assert [one.kind.name for one in conditions.judged({ORDERS: well}, ClockReading(10_000, 10.0))] == [
        "HeadraceErrorBudgetBurning"
    ]
    assert conditions.inhibited == frozenset()
