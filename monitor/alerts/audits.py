"""Alerts about continuous audits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, Final

import structlog

from mirror.audit.verdicts import Verdict
from mirror.errors import HeadraceError, NotFound
from mirror.jobs.audits.summary import AuditFault, TopicAudit
from mirror.model.identifiers import DatastreamName
from mirror.wording import counted
from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import AUDIT_DIFFERENCE
from monitor.ports import InstanceClient

_log = structlog.get_logger(__name__)
_MOST_SHOWN: Final = 3
_FIELDS: Final = tuple(field.name for field in fields(AuditFault))


class AuditWatch:
    """Reads the audits of all instances. While they cannot be read, the last ones remain."""

    def __init__(self, read: Callable[[], Sequence[TopicAudit]]) -> None:
        self._read = read
        self._known: Sequence[TopicAudit] = ()

    def alerts(self) -> list[Alert]:
        """Return the alerts now."""
        try:
            self._known = self._read()
        except HeadraceError as error:
            _log.warning("cannot read the audits", reason=str(error))
        return [*audit_alerts(self._known)]


def audit_alerts(audits: Iterable[TopicAudit]) -> Iterator[Alert]:
    """Yield one alert for each datastream with differences that nothing explains."""
    for name, group in groupby(audits, lambda one: one.datastream):
        topics = [one for one in group if one.faults]
        if not topics:
            continue
        shown = [(one.topic, fault) for one in topics for fault in one.faults]
        left = len(shown) - _MOST_SHOWN + sum(one.more_faults for one in topics)
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


def audits_of_answer(rest: InstanceClient) -> Sequence[TopicAudit]:
    """Return the audits of the service at an address. Instances of older versions have none."""
    try:
        answer = rest.get("/v1/audits")
    except NotFound:
        return ()
    return [_topic(one) for one in answer["topics"]]


def _topic(one: Mapping[str, Any]) -> TopicAudit:
    known = frozenset(Verdict)
    faults = [fault for fault in one["faults"] if fault["verdict"] in known]
    return TopicAudit(
        DatastreamName(one["datastream"]),
        one["topic"],
        one["partitions"],
        one["complete_through_ms"],
        one["waiting_offsets"],
        tuple(
            AuditFault(**{name: fault[name] for name in _FIELDS} | {"verdict": Verdict(fault["verdict"])})
            for fault in faults
        ),
        one["more_faults"],
        one["problem"],
    )
