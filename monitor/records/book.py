"""From the monitor's turns to records of incidents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from mirror.model.identifiers import DatastreamName
from monitor.cycle import Finding
from monitor.incidents import Incident
from monitor.latency import Standing
from monitor.records.record import IncidentRecord, Phase


class Restored(NamedTuple):
    """What goes on, and the ids of records that were replaced by that."""

    records: list[IncidentRecord]
    replaced: frozenset[str]


class IncidentBook:
    """The incidents that are open, by datastream: at most one each."""

    def __init__(self) -> None:
        self._open: dict[DatastreamName, IncidentRecord] = {}

    def restore(self, records: Iterable[IncidentRecord]) -> Restored:
        """Go on with those of a former monitor that are not over, the newest of each datastream. What was
        found of it since the start is appended, and has no record of its own."""
        stored = {
            DatastreamName(one.datastream): one
            for one in sorted(records, key=lambda one: one.opened_ms)
            if one.is_open
        }
        replaced = frozenset(self._open[name].id for name in stored if name in self._open)
        for name, record in stored.items():
            self._open[name] = _joined(record, self._open.get(name))
        return Restored([self._open[name] for name in stored], replaced)

    def judged(self, findings: Mapping[DatastreamName, Finding], now_ms: int) -> list[IncidentRecord]:
        """The records that changed by a turn."""
        changed = []
        for name in [one for one in self._open if one not in findings]:
            gone = "it is not judged any more: deleted, paused, or without an objective"
            changed.append(replace(self._open.pop(name).noted(now_ms, Phase.CLOSED, gone), closed_ms=now_ms))
        for name, finding in findings.items():
            former = self._open.get(name)
            record = _after(former, name, finding, now_ms)
            if record is None or record == former:
                continue
            changed.append(record)
            if record.is_open:
                self._open[name] = record
            else:
                del self._open[name]
        return changed


def _joined(former: IncidentRecord, since: IncidentRecord | None) -> IncidentRecord:
    """One incident that was detected a second time."""
    if since is None or since.id == former.id:
        return former
    for entry in since.timeline:
        phase = Phase.RELAPSED if entry.phase is Phase.DETECTED else entry.phase
        former = former.noted(entry.time_ms, phase, entry.text)
    return replace(former, worst_ms=_worse(former.worst_ms, since.worst_ms))


def _after(
    record: IncidentRecord | None, name: DatastreamName, finding: Finding, now_ms: int
) -> IncidentRecord | None:
    """The record after a finding; None: there is no incident."""
    verdict, is_open = finding.verdict, finding.incident.is_open
    if record is None:
        if not is_open:
            return None
        new = IncidentRecord(f"{name}-{now_ms}", name, finding.cluster, now_ms)
        record = new.noted(now_ms, Phase.DETECTED, verdict.sentence)
    elif not is_open:
        record = _recovered(record, verdict.sentence, now_ms)
        return replace(record.noted(now_ms, Phase.CLOSED, verdict.sentence), closed_ms=now_ms)
    elif verdict.standing is Standing.WITHIN:
        record = _recovered(record, verdict.sentence, now_ms)
    elif verdict.standing is Standing.BREACHED and _is_recovered(record):
        record = record.noted(now_ms, Phase.RELAPSED, verdict.sentence)
    act, last = _act_of(finding), record.last(Phase.ACTED)
    if act and (last is None or last.text != act):
        record = record.noted(now_ms, Phase.ACTED, act)
    return replace(record, worst_ms=_worse(record.worst_ms, verdict.observed_ms))


def _act_of(finding: Finding) -> str:
    """What was done or tried in the turn, without the news that an incident is open."""
    opened = f"incident opened: {finding.verdict.sentence}"
    return finding.action.removeprefix(opened).removeprefix("; ")


def _is_recovered(record: IncidentRecord) -> bool:
    last = record.last(Phase.DETECTED, Phase.RECOVERED, Phase.RELAPSED)
    return last is not None and last.phase is Phase.RECOVERED


def _recovered(record: IncidentRecord, text: str, now_ms: int) -> IncidentRecord:
    return record if _is_recovered(record) else record.noted(now_ms, Phase.RECOVERED, text)


def _worse(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


def resumed(record: IncidentRecord, now_ms: int, monotonic: float) -> Incident:
    """What the monitor remembers of an incident that goes on; its cool-down runs from what was done last."""

    def ago(moment_ms: int) -> float:
        return monotonic - max(0, now_ms - moment_ms) / 1000

    acted = record.last(Phase.ACTED)
    helped_at = None if acted is None else ago(acted.time_ms)
    return Incident(is_open=True, opened_at=ago(record.opened_ms), helped_at=helped_at)
