"""Test when an incident opens, when a rebalance is requested, and when the incident closes."""

from __future__ import annotations

import pytest

from monitor.incidents import Incident, IncidentPolicy, IncidentStep, advance
from monitor.latency import LatencyVerdict, ObjectiveStatus

POLICY = IncidentPolicy(open_after=2, close_after=3, cooldown_seconds=60.0)
LETTERS = {"B": ObjectiveStatus.BREACHED, "W": ObjectiveStatus.WITHIN, "U": ObjectiveStatus.UNKNOWN}
STEPS = {
    "-": (),
    "O": (IncidentStep.OPEN, IncidentStep.HELP),
    "H": (IncidentStep.HELP,),
    "C": (IncidentStep.CLOSE,),
    "o": (IncidentStep.OPEN,),
}


@pytest.mark.parametrize(
    ("verdicts", "steps"),
    [
        ("WWWW", "----"),
        ("BWBW", "----"),
        ("BB", "-O"),
        ("BUB", "--O"),
        ("UUUU", "----"),
        ("BBBBBBBB", "-O-----H"),
        ("BBWWW", "-O--C"),
        ("BBWWBWWW", "-O-----C"),
        ("BBWUWUW", "-O----C"),
        ("BBWWWBB", "-O--C-o"),
        ("BBWWWBBBB", "-O--C-oH-"),
    ],
)
def test_a_verdict_every_ten_seconds(verdicts: str, steps: str) -> None:
    incident, taken = Incident(), list[tuple[IncidentStep, ...]]()
    for number, letter in enumerate(verdicts):
        verdict = LatencyVerdict(LETTERS[letter], None, "")
        incident, found = advance(incident, verdict, POLICY, 10.0 * number)
        taken.append(found)
    assert taken == [STEPS[letter] for letter in steps]


def test_an_incident_closes_when_good_times_have_lasted() -> None:
    policy = IncidentPolicy(open_after=1, close_after=2, cooldown_seconds=60.0, close_seconds=30.0)
    incident, closed = Incident(), list[int]()
    for number, letter in enumerate("BWWWBWWWHWWUWWW"):
        verdict = LatencyVerdict({**LETTERS, "H": ObjectiveStatus.HALTED}[letter], None, "")
        incident, found = advance(incident, verdict, policy, 10.0 * number)
        closed += [number] * (IncidentStep.CLOSE in found)
    assert closed == [12], "30 s in a row; a halt restarts them, an unknown verdict does not"


def test_what_an_outage_has_left_has_a_cooldown_to_show_itself() -> None:
    policy = IncidentPolicy(open_after=1, close_after=1, cooldown_seconds=30.0)
    not_copied = LatencyVerdict(ObjectiveStatus.BREACHED, None, "", is_halted=True)
    for halt in (LatencyVerdict(ObjectiveStatus.HALTED, None, "", is_halted=True), not_copied):
        incident, helped = Incident(), list[float]()
        for now, verdict in enumerate([halt, *[LatencyVerdict(ObjectiveStatus.BREACHED, None, "")] * 4]):
            incident, found = advance(incident, verdict, policy, 10.0 * now)
            helped += [10.0 * now] * (IncidentStep.HELP in found)
        assert helped == [30.0]


def test_an_incident_remembers_since_when_it_is_open() -> None:
    breach = LatencyVerdict(ObjectiveStatus.BREACHED, None, "")
    incident, _ = advance(Incident(), breach, IncidentPolicy(open_after=1), 5.0)
    assert (incident.is_open, incident.opened_at, incident.helped_at) == (True, 5.0, 5.0)
