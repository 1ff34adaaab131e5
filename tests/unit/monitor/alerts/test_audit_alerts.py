"""Alerts about continuous audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mirror.audit.verdicts import Verdict
from mirror.errors import NotFound, Unreachable
from mirror.jobs.audits.summary import AuditFault, TopicAudit, merged, planned_audits, through_of
from mirror.model.datastreams.audit_mode import AUDIT_MODE
from mirror.model.identifiers import DatastreamName, Epoch, TaskName
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition
from monitor.alerts.audits import audit_alerts, audits_of_answer
from monitor.alerts.catalogue import AUDIT_DIFFERENCE
from monitor.alerts.service_watch import ServiceWatch
from monitor.ports import InstanceClient
from tests.builders import a_datastream

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


def watch_of(*answers: tuple[Sequence[TopicAudit], bool] | Exception) -> ServiceWatch[TopicAudit]:
    """Return a watch with one response for each evaluation. A response may be incomplete."""
    left = list(answers)

    def read() -> tuple[Sequence[TopicAudit], bool]:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ServiceWatch(read, audit_alerts)


@pytest.mark.parametrize("error", [Unreachable("no instance"), KeyError("topics"), ValueError("no verdict")])
def test_the_last_audits_remain_while_they_cannot_be_read(error: Exception) -> None:
    watch = watch_of(([topic("b", None, [FAULT])], True), error, ([], True))
    assert [len(watch.alerts()) for _ in range(3)] == [1, 1, 0]


def test_a_difference_remains_while_an_instance_does_not_respond() -> None:
    found, clicks = topic("b", None, [FAULT]), replace(topic("c", None, [FAULT]), datastream=CLICKS)
    watch = watch_of(([found], True), ([], False), ([clicks], False), ([clicks], True))
    names = [{alert.datastream for alert in watch.alerts()} for _ in range(4)]
    assert names == [{"orders"}, {"orders"}, {"orders", "clicks"}, {"clicks"}]


def test_the_response_of_a_service_says_whether_every_instance_has_responded() -> None:
    class Service(InstanceClient):
        def __init__(self, answer: dict[str, Any] | None) -> None:
            self.answer = answer

        def get(self, path: str, **parameters: Any) -> Any:
            if self.answer is None:
                raise NotFound(path)
            return self.answer

    assert audits_of_answer(Service({"topics": [], "is_complete": False})) == ([], False)
    assert audits_of_answer(Service(None)) == ([], True), "an older version has no audits"


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
