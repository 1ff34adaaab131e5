"""Test the headline of an incident: the cause of most of its bad seconds, reported once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pytest

from mirror.model.identifiers import DatastreamName
from monitor.causes.diagnosis import CATCH_UPS, Cause, Diagnosis
from monitor.causes.evidence import Evidence
from monitor.causes.inquiry import Inquiry
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.records.record import IncidentRecord, Phase
from monitor.records.tracker import IncidentTracker
from tests.unit.monitor.causes.test_judge import (
    CASES,
    HOLDS_TASK,
    LIMIT_MS,
    Case,
    calm,
    catching_up,
    hot,
    late,
)

ORDERS: Final = DatastreamName("orders")
INTERVAL_SECONDS: Final = 10
LOOKS: Final = 24
NOTHING: Final = Evidence(tuple(calm(n) for n in range(9)))
UNCLEAR: Final = Evidence((late(0), late(1)))
LEFT: Final = Evidence((catching_up(0), catching_up(1)))
EXPLAINED: Final = [one for one in CASES if one.cause is not Cause.UNKNOWN]


def record_of(found: Iterable[Diagnosis | None]) -> IncidentRecord:
    """Return the record of an incident with these diagnoses, one per evaluation."""
    tracker = IncidentTracker()
    known: dict[str, IncidentRecord] = {}
    for number, diagnosis in enumerate(found):
        verdict = LatencyVerdict(ObjectiveStatus.BREACHED, None, "late")
        finding = Evaluation(verdict, Incident(is_open=True), "", "east", diagnosis)
        for record in tracker.judged({ORDERS: finding}, 1_000 + 1_000 * INTERVAL_SECONDS * number):
            known[record.id] = record
    (record,) = known.values()
    return record


def looked_at(history: Sequence[Evidence]) -> list[Diagnosis | None]:
    inquiry = Inquiry()
    found = []
    for number, evidence in enumerate(history):
        inquiry.begin([ORDERS])
        answer = inquiry.check(ORDERS, iter([evidence]).__next__, LIMIT_MS, float(INTERVAL_SECONDS * number))
        found.append(answer.diagnosis)
    return found


def classified(record: IncidentRecord) -> list[str]:
    return [one.text for one in record.timeline if one.phase is Phase.CLASSIFIED]


def of_cause(cause: Cause) -> Diagnosis:
    return Diagnosis(cause, f"{cause}: because")


@pytest.mark.parametrize("case", EXPLAINED, ids=lambda one: one.name)
def test_an_incident_has_the_headline_of_its_history_and_says_it_once(case: Case) -> None:
    """Some looks in between find no cause; in the end the backlog is worked off."""
    seen = Evidence(case.lanes, case.silent)
    history = [seen if number % 4 != 3 else UNCLEAR for number in range(LOOKS)]
    record = record_of(looked_at([*history, *[LEFT] * 3, *[NOTHING] * 6]))
    assert record.cause == case.cause
    assert [one.partition(": ")[0] for one in classified(record)] == [case.cause.value]


def test_there_are_a_hundred_histories_of_every_cause() -> None:
    assert len(EXPLAINED) + len(_ALTERNATING) >= 100
    assert {one.cause for one in EXPLAINED} == set(Cause) - {Cause.UNKNOWN}


_EXACT: Final = {
    Cause.DESTINATION_BOUND: Cause.DESTINATION_AWAY,
    Cause.SOURCE_BOUND: Cause.SOURCE_AWAY,
}
"""Causes that another one explains: a cluster that is slow before it is known to be away."""
_ALTERNATING: Final = [
    (one, other)
    for one in (Cause.HOT_PARTITION, Cause.OUR_QUOTA, Cause.DESTINATION_BOUND, Cause.SOURCE_BOUND)
    for other in Cause
    if other not in (one, Cause.UNKNOWN)
]


@pytest.mark.parametrize(("one", "other"), _ALTERNATING)
def test_causes_that_alternate_are_one_headline(one: Cause, other: Cause) -> None:
    record = record_of(of_cause(other if number % 2 else one) for number in range(LOOKS))
    is_exact = other is _EXACT.get(one)
    assert record.cause == (other if is_exact else one)
    assert len(classified(record)) == 1 + is_exact


def test_hot_partition_and_overloaded_task_do_not_flap() -> None:
    hot_one, held = Evidence((hot(0), late(1, worker_cpu=0.97, cpu=0.2))), Evidence(HOLDS_TASK)
    record = record_of(looked_at([held if number % 2 else hot_one for number in range(LOOKS)]))
    assert len(classified(record)) == 1


def test_another_cause_of_more_bad_seconds_is_the_headline() -> None:
    before, after = [Cause.OVERLOADED_TASK] * 6, [Cause.SOURCE_BOUND] * 20
    record = record_of(map(of_cause, [*before, *after]))
    assert record.cause == Cause.SOURCE_BOUND
    assert len(classified(record)) == 2


@pytest.mark.parametrize("cause", sorted(CATCH_UPS))
def test_what_is_worked_off_is_what_is_left_of_the_cause_before(cause: Cause) -> None:
    found = [*[Cause.DESTINATION_BOUND] * 3, *[cause] * 60]
    record = record_of(map(of_cause, found))
    assert record.cause == Cause.DESTINATION_BOUND


def test_nothing_is_classified_where_nothing_waits() -> None:
    found = looked_at([NOTHING] * 6)
    assert {one.cause for one in found if one is not None} == {Cause.UNKNOWN}
    assert "0 records" not in " ".join(one.sentence for one in found if one is not None)
    assert record_of(looked_at([Evidence(HOLDS_TASK), *[NOTHING] * 30])).cause == Cause.OVERLOADED_TASK
