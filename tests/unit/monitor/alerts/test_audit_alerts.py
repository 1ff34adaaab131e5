"""Alerts about continuous audits."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.audit.verdicts import Verdict
from mirror.errors import Unreachable
from mirror.jobs.audits.summary import AuditFault, TopicAudit, merged, through_of
from mirror.model.identifiers import DatastreamName
from monitor.alerts.audits import audit_alerts
from monitor.alerts.catalogue import AUDIT_DIFFERENCE
from monitor.alerts.service_watch import ServiceWatch

FAULT = AuditFault(3, 600_000, Verdict.MISSING, 7, 40, -1)


def topic(name: str, through_ms: int | None = 5, faults: Sequence[AuditFault] = ()) -> TopicAudit:
    return TopicAudit(DatastreamName("orders"), name, 1, through_ms, 0, tuple(faults), 0, "")


def test_a_datastream_with_differences_has_one_alert_with_offsets() -> None:
    (alert,) = audit_alerts([topic("a"), topic("b", None, [FAULT]), topic("c", None, [FAULT] * 9)])
    assert (alert.kind, alert.datastream, alert.since_ms) == (AUDIT_DIFFERENCE, "orders", 600_000)
    assert "b-3" in alert.description
    assert "40" in alert.description
    assert not [*audit_alerts([topic("a")])]


def test_the_last_audits_remain_while_they_cannot_be_read() -> None:
    answers: list[Sequence[TopicAudit] | Unreachable] = [
        [topic("b", None, [FAULT])],
        Unreachable("no instance"),
        [],
    ]

    def read() -> Sequence[TopicAudit]:
        answer = answers.pop(0)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    watch = ServiceWatch(read, audit_alerts)
    assert [len(watch.alerts()) for _ in range(3)] == [1, 1, 0]


def test_audits_of_instances_add_up_and_an_unknown_time_remains_unknown() -> None:
    (one,) = merged([topic("a", 9, [FAULT]), topic("a", 4)])
    assert (one.partitions, one.through_ms, one.faults) == (2, 4, (FAULT,))
    assert through_of([topic("a", 9), topic("b", None)]) is None
    assert through_of([]) is None
