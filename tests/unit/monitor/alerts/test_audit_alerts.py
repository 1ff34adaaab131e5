"""Alerts about continuous audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mirror.audit.verdicts import Verdict
from mirror.errors import NotFound
from mirror.jobs.audits.summary import AuditFault, TopicAudit, merged, planned_audits, through_of
from mirror.model.datastreams.audit_mode import AUDIT_MODE
from mirror.model.identifiers import DatastreamName, Epoch, TaskName
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition
from monitor.alerts.audits import AuditWatch, audit_alerts, audits_of_answer
from monitor.alerts.catalogue import AUDIT_DIFFERENCE
from tests.builders import a_datastream
from tests.unit.monitor.alerts.test_retirement_alerts import Answering

CLICKS = DatastreamName("clicks")
FAULT = AuditFault(3, 600_000, Verdict.MISSING, 7, 40, -1)


def topic(
    name: str, through_ms: int | None = 5, faults: Sequence[AuditFault] = (), number: int = 0
) -> TopicAudit:
    return TopicAudit(
        DatastreamName("orders"), name, (number,), through_ms, 0, tuple(faults), 0, "", expected=2
    )


def test_a_datastream_with_differences_has_one_alert_with_offsets() -> None:
    (alert,) = audit_alerts([topic("a"), topic("b", None, [FAULT]), topic("c", None, [FAULT] * 9)])
    assert (alert.kind, alert.datastream, alert.since_ms) == (AUDIT_DIFFERENCE, "orders", 600_000)
    assert "b-3" in alert.description
    assert "40" in alert.description
    assert not [*audit_alerts([topic("a")])]


def test_a_difference_remains_while_an_instance_does_not_respond() -> None:
    found, clicks = topic("b", None, [FAULT]), replace(topic("c", None, [FAULT]), datastream=CLICKS)
    answers = iter([([found], True), ([], False), ([clicks], False), ([clicks], True)])
    watch = AuditWatch(lambda: next(answers))
    names = [{alert.datastream for alert in watch.alerts(0)} for _ in range(4)]
    assert names == [{"orders"}, {"orders"}, {"orders", "clicks"}, {"clicks"}]


def test_the_response_of_a_service_says_whether_every_instance_has_responded() -> None:
    partial: Any = Answering({"topics": [], "is_complete": False})
    older: Any = Answering(NotFound("no such path"))
    assert audits_of_answer(partial) == ([], False)
    assert audits_of_answer(older) == ([], True), "an older version has no audits"


def test_audits_of_instances_add_up_and_an_unknown_time_remains_unknown() -> None:
    (one,) = merged([topic("a", 9, [FAULT]), topic("a", 4, number=1)])
    assert (one.partitions, one.complete_through_ms, one.faults) == ((0, 1), 4, (FAULT,))
    assert through_of([one]) == 4
    assert through_of([one, topic("b", None)]) is None
    assert through_of([]) is None


def test_a_topic_is_complete_only_with_all_partitions() -> None:
    """Between two owners, no instance audits a partition."""
    first, second = topic("a", 9), topic("a", 9, number=1)
    assert through_of(merged([first, first])) is None
    assert through_of(merged([first, first, second])) == 9
    grown = replace(second, expected=3)
    assert through_of(merged([first, grown])) is None
    assert through_of(merged([first, grown, topic("a", None, number=2)])) is None


def test_a_planned_topic_that_no_instance_audits_makes_the_datastream_incomplete() -> None:
    orders = a_datastream("orders", metadata={AUDIT_MODE: "full"})
    ignored = a_datastream("ignored", metadata={AUDIT_MODE: "off"})
    places = frozenset(TopicPartition(name, number) for name in "ab" for number in range(2))
    tasks = [TaskPlacement(TaskName(f"{d.name}-0"), d.group, None, places) for d in (orders, ignored)]
    planned = [*planned_audits([orders, ignored], Plan(Epoch(1), tuple(tasks), 0, ""))]
    whole = [topic(name, 9, number=number) for name in "ab" for number in range(2)]
    assert {(one.datastream, one.topic) for one in planned} == {("orders", "a"), ("orders", "b")}
    assert through_of(merged([*planned, *whole[:2]])) is None
    assert through_of(merged([*planned, *whole])) == 9
