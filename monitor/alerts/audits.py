"""Alerts about continuous audits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, Final

from mirror.audit.verdicts import Verdict
from mirror.errors import NotFound
from mirror.jobs.audits.summary import AuditFault, TopicAudit
from mirror.model.identifiers import DatastreamName
from mirror.wording import counted
from monitor.alerts.alert import Alert, AlertKey
from monitor.alerts.catalogue import AUDIT_DIFFERENCE
from monitor.ports import InstanceClient

_MOST_SHOWN: Final = 3
_FIELDS: Final = tuple(field.name for field in fields(AuditFault))


def audit_alerts(audits: Iterable[TopicAudit]) -> Iterator[Alert]:
    """Yield one alert for each datastream whose audit has found unexplained differences."""
    for name, group in groupby(audits, lambda audit: audit.datastream):
        topics = [audit for audit in group if audit.faults]
        if not topics:
            continue
        shown = [(audit.topic, fault) for audit in topics for fault in audit.faults]
        left = len(shown) - _MOST_SHOWN + sum(audit.more_faults for audit in topics)
        text = "; ".join(_sentence(topic, fault) for topic, fault in shown[:_MOST_SHOWN])
        text += f"; and {counted(left, 'further window')}" if left > 0 else ""
        since_ms = min(fault.start_ms for _, fault in shown)
        summary = f"the audit of {name} has found differences"
        yield Alert(AUDIT_DIFFERENCE, summary, text, since_ms, name)


def _sentence(topic: str, fault: AuditFault) -> str:
    where = f"source offset {fault.source_offset}"
    if fault.source_offset < 0:
        where = f"destination offset {fault.destination_offset}"
    records = counted(fault.records, f"{fault.verdict} record")
    return f"{records} in {topic}-{fault.partition} from {where} on"


class AuditWatch:
    """Alerts about continuous audits. While an instance does not respond, no such alert ends.

    `read`: returns the audits, and whether all instances have responded.
    """

    def __init__(self, read: Callable[[], tuple[Sequence[TopicAudit], bool]]) -> None:
        self._read = read
        self._known: Mapping[AlertKey, Alert] = {}

    def alerts(self, _now_ms: int) -> Sequence[Alert]:
        """Return the alerts that fire now. Raises the errors of `read`."""
        audits, is_complete = self._read()
        found = {alert.key: alert for alert in audit_alerts(audits)}
        self._known = found if is_complete else {**self._known, **found}
        return [*self._known.values()]


def audits_of_answer(rest: InstanceClient) -> tuple[Sequence[TopicAudit], bool]:
    """Return the state of continuous audits that a service reports, and whether all instances responded. The
    result is empty if the service's version has no continuous audits."""
    try:
        answer = rest.get("/v1/audits")
    except NotFound:
        return [], True
    return [_topic(entry) for entry in answer["topics"]], answer["is_complete"]


def _topic(entry: Mapping[str, Any]) -> TopicAudit:
    known = frozenset(Verdict)
    faults = [fault for fault in entry["faults"] if fault["verdict"] in known]
    return TopicAudit(
        DatastreamName(entry["datastream"]),
        entry["topic"],
        (),
        entry["complete_through_ms"],
        entry["waiting_offsets"],
        tuple(
            AuditFault(**{name: fault[name] for name in _FIELDS} | {"verdict": Verdict(fault["verdict"])})
            for fault in faults
        ),
        entry["more_faults"],
        entry["problem"],
    )
