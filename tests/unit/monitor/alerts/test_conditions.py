"""From findings to alerts, case by case: a letter a turn, ten seconds apart."""

from __future__ import annotations

from typing import Final

import pytest

from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert
from monitor.alerts.conditions import AlertPatience, Conditions, Moment
from monitor.cycle import Finding
from monitor.incidents import Incident
from monitor.latency import Standing, Verdict

ORDERS: Final = DatastreamName("orders")
OPEN, CLOSED = Incident(is_open=True), Incident()
FINDINGS: Final = {
    "W": Finding(Verdict(Standing.WITHIN, 1.0, "well"), CLOSED, ""),
    "L": Finding(Verdict(Standing.BREACHED, None, "late"), OPEN, "", "east"),
    "w": Finding(Verdict(Standing.WITHIN, 1.0, "well again"), OPEN, ""),
    "H": Finding(Verdict(Standing.HALTED, None, "not copied", is_halted=True), CLOSED, ""),
    "B": Finding(Verdict(Standing.BREACHED, None, "late; not copied", is_halted=True), OPEN, ""),
    "U": Finding(Verdict(Standing.UNKNOWN, None, "nothing was measured"), CLOSED, ""),
}
LETTERS: Final = {
    "HeadraceLatencyObjectiveBreached": "L",
    "HeadraceDatastreamHalted": "H",
    "HeadraceDatastreamUnjudged": "U",
    "HeadraceNothingJudged": "N",
}


def turn(conditions: Conditions, letter: str, number: int) -> list[Alert]:
    """N: nothing can be judged; -: there is no such datastream."""
    now = Moment(10_000 * number, 10.0 * number)
    if letter == "N":
        return conditions.nothing_judged("Pinot does not answer", now)
    return conditions.judged({ORDERS: FINDINGS[letter]} if letter in FINDINGS else {}, now)


@pytest.mark.parametrize(
    ("turns", "fires"),
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
        ("UUUUUUUU", "....UUUU"),
        ("NNNNNNNN", "......NN"),
        ("LNNL", "LLLL"),
        ("LNNNNNNNW", "L" * 7 + "2."),
        ("HHNNNW", "......"),
    ],
)
def test_what_fires(turns: str, fires: str) -> None:
    conditions, found = Conditions(AlertPatience(30.0, 40.0, 60.0, 60.0)), ""
    for number, letter in enumerate(turns):
        names = [LETTERS[one.kind.name] for one in turn(conditions, letter, number)]
        found += "." if not names else names[0] if len(names) == 1 else str(len(names))
    assert found == fires


def test_an_alert_says_since_when_what_and_what_was_done() -> None:
    conditions = Conditions(AlertPatience())
    helped = Finding(FINDINGS["L"].verdict, OPEN, "rebalance r-1 asked for", "east")
    conditions.judged({ORDERS: helped}, Moment(5_000, 5.0))
    (alert,) = conditions.judged({ORDERS: FINDINGS["L"]}, Moment(15_000, 15.0))
    assert (alert.since_ms, alert.datastream, alert.cluster) == (5_000, ORDERS, "east")
    assert alert.description == "late"
    assert alert.done == "rebalance r-1 asked for"
