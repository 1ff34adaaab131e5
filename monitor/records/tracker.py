"""Derives the records of incidents from the evaluations of the monitor. Pure.

A datastream has at most one open incident. It opens when an objective is missed or another problem appears,
and closes when no problem remains. One cause therefore leads to one incident, however many partitions and
alerts it affects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirror.model.identifiers import DatastreamName
from monitor.causes.diagnosis import Cause
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import NOTHING_KNOWN, FleetMovement
from monitor.objectives.late_times import UNMEASURED, BadTime, TimeInterval
from monitor.records.costs import is_news, observed_interval, opened_costs, seconds_since, with_costs
from monitor.records.headline import with_cause, with_implied_cause, with_known_cause
from monitor.records.outages import Outage, RecentOutages
from monitor.records.record import IncidentRecord, Phase, RebalanceGain


class DatastreamProblem(NamedTuple):
    """A problem of a datastream other than a missed objective.

    `name`: name of the incident's alert. `cluster`: source cluster. `cause`: cause of late records that this
    problem implies, or None.
    """

    name: str
    cluster: str
    text: str
    cause: Cause | None = None


_COPIED: Final = frozenset(
    {MovementState.CATCHING_UP, MovementState.WARN, MovementState.THROTTLED, MovementState.REWIND}
)
Matters = Mapping[DatastreamName, Sequence[DatastreamProblem]]
NO_MATTERS: Final[Matters] = {}
_REMEMBERED_MS: Final = 3_600_000
"""Time in ms for which the bad time of a closed incident is kept, so that the next incident does not count
it."""
_GONE: Final = "no longer evaluated: deleted, paused, or without an objective"
_OVER: Final = "no problem remains"


class RestoredIncidents(NamedTuple):
    """Stored incidents with which this monitor continues, and the ids of records that they replace."""

    records: list[IncidentRecord]
    replaced: frozenset[str]


class IncidentTracker:
    """Records of the open incidents, at most one for each datastream."""

    def __init__(self) -> None:
        self._open: dict[DatastreamName, IncidentRecord] = {}
        self._written: dict[DatastreamName, IncidentRecord] = {}
        self._outages = RecentOutages()
        self._bad: dict[DatastreamName, BadTime] = {}
        """Bad time of the latest incident, by datastream. After the incident has closed, only the start of
        the time that the next incident may count."""

    def restore(self, records: Iterable[IncidentRecord]) -> RestoredIncidents:
        """Continue the latest open incident of each datastream from the records of a previous monitor.

        An incident that this monitor has already opened for the same datastream is merged into the stored
        incident.
        """
        known = sorted(records, key=lambda record: record.opened_ms)
        stored = {DatastreamName(record.datastream): record for record in known if record.is_open}
        replaced = frozenset(self._open[name].id for name in stored if name in self._open)
        for record in known:
            self._continue(DatastreamName(record.datastream), record)
        for name, record in stored.items():
            joined = _joined(record, self._open.get(name))
            self._open[name] = replace(joined, bad_seconds=self._bad[name].seconds)
            self._written[name] = self._open[name]
        return RestoredIncidents([self._open[name] for name in stored], replaced)

    def _continue(self, name: DatastreamName, record: IncidentRecord) -> None:
        """Continue the bad time of an incident recorded by a previous monitor. Only time after its last
        evaluation is added."""
        known = self._bad.get(name, BadTime())
        if record.judged_ms >= known.since_ms:
            counted = record.bad_seconds if record.is_open else 0.0
            self._bad[name] = BadTime(record.judged_ms, counted).adding(known.intervals)
            own = self._open.get(name)
            if own is not None:
                self._open[name] = replace(own, bad_seconds=self._bad[name].seconds)

    def judged(
        self,
        findings: Mapping[DatastreamName, Evaluation],
        now_ms: int,
        matters: Matters = NO_MATTERS,
        movements: FleetMovement = NOTHING_KNOWN,
    ) -> list[IncidentRecord]:
        """Update the incidents after an evaluation and return the changed records."""
        self._outages.note(movements, now_ms)
        since_ms = now_ms - _REMEMBERED_MS
        self._bad = {k: bad for k, bad in self._bad.items() if k in self._open or bad.since_ms > since_ms}
        changed = []
        for name in dict.fromkeys([*self._open, *findings, *matters]):
            found = _DatastreamProblems.of(name, matters, movements, self._outages.of(name))
            finding, former = findings.get(name), self._open.get(name)
            record = _after(former, name, finding, found, now_ms)
            changed.append(self._with_bad_time(former, record, finding, found, now_ms))
        return self._update(changed)

    def judging_failed(
        self, now_ms: int, matters: Matters = NO_MATTERS, movements: FleetMovement = NOTHING_KNOWN
    ) -> list[IncidentRecord]:
        """Update the incidents after an evaluation without any verdict, and return the changed records."""
        self._outages.note(movements, now_ms)
        changed = []
        for name in dict.fromkeys([*self._open, *matters]):
            found = _DatastreamProblems.of(name, matters, movements, self._outages.of(name))
            former = self._open.get(name)
            record = _unseen(former, name, found, now_ms)
            changed.append(self._with_bad_time(former, record, None, found, now_ms))
        return self._update(changed)

    def _with_bad_time(
        self,
        former: IncidentRecord | None,
        record: IncidentRecord | None,
        finding: Evaluation | None,
        found: _DatastreamProblems,
        now_ms: int,
    ) -> IncidentRecord | None:
        """Return the record with more bad time: the part of an evaluation in which records were late.

        A new incident also gets the late time before its detection, unless the previous incident has counted
        it.
        """
        if record is None:
            return None
        name = DatastreamName(record.datastream)
        known = self._bad.get(name, BadTime())
        if former is None:
            known = BadTime(known.since_ms)
        bad = known.adding(_bad_intervals(former, finding, found, now_ms))
        self._bad[name] = bad if record.is_open else BadTime(now_ms)
        return replace(record, bad_seconds=bad.seconds)

    def _update(self, records: Iterable[IncidentRecord | None]) -> list[IncidentRecord]:
        changed = []
        for record in records:
            if record is None:
                continue
            name = DatastreamName(record.datastream)
            if not record.is_open:
                self._open.pop(name, None)
                self._written.pop(name, None)
                changed.append(record)
                continue
            self._open[name] = record
            if is_news(record, self._written.get(name)):
                self._written[name] = record
                changed.append(record)
        return changed


class _DatastreamProblems(NamedTuple):
    """Problems of one datastream at the time of an evaluation.

    `waits`: records wait in partitions that are not OK; None if all partitions are OK. `stands_still`:
    records wait in partitions that are not copied at all. `outage`: recent outage of a cluster, or None.
    """

    matters: Sequence[DatastreamProblem]
    waits: bool | None
    outage: Outage | None = None
    stands_still: bool = True

    @property
    def cause(self) -> str | None:
        """Cause of late records that follows from the problems or the outage; None if unknown."""
        known = next((matter.cause for matter in self.matters if matter.cause is not None), None)
        known = known or (self.outage.cause if self.outage is not None else None)
        return None if known is None else known.value

    @classmethod
    def of(
        cls, name: DatastreamName, matters: Matters, movements: FleetMovement, outage: Outage | None = None
    ) -> _DatastreamProblems:
        """Return the current problems of a datastream.

        Unless all instances have responded, records are assumed to wait.
        """
        moving = movements.datastreams.get(name)
        if moving is None or not movements.is_complete:
            return cls(matters.get(name, ()), True, outage)
        states = moving.movement.states
        waits = any(not state.is_idle for state in states) if states else None
        stands_still = any(not count.is_idle and count.state not in _COPIED for count in states)
        return cls(matters.get(name, ()), waits, outage, stands_still)


def _joined(former: IncidentRecord, since: IncidentRecord | None) -> IncidentRecord:
    """Merge a stored incident with the incident that this monitor has opened for the same problem."""
    if since is None or since.id == former.id:
        return former
    for entry in since.timeline:
        phase = Phase.RELAPSED if entry.phase is Phase.DETECTED else entry.phase
        former = former.noted(entry.time_ms, phase, entry.text)
    return replace(
        former,
        cause=former.cause or since.cause,
        evidence=former.evidence or since.evidence,
        causes={
            name: former.causes.get(name, 0.0) + since.causes.get(name, 0.0)
            for name in (*former.causes, *since.causes)
        },
        worst_ms=_worse(former.worst_ms, since.worst_ms),
        # A new monitor may not have seen the lateness yet; its verdicts will show the end of it.
        is_late=former.is_late or since.is_late,
        gain=former.gain or since.gain,
        matters=tuple(dict.fromkeys((*former.matters, *since.matters))),
    )


def _after(
    record: IncidentRecord | None,
    name: DatastreamName,
    finding: Evaluation | None,
    found: _DatastreamProblems,
    now_ms: int,
) -> IncidentRecord | None:
    """Return the record of a datastream's incident after an evaluation; None if there is no incident."""
    matters = found.matters
    is_late = finding is not None and finding.incident.is_open
    seconds = 0.0 if record is None else seconds_since(record, now_ms)
    budgets = finding.verdict.budgets if finding is not None else ()
    if record is None:
        if not is_late and not matters:
            return None
        record = _begun(name, finding if is_late else None, matters, now_ms)
        record = replace(record, costs=opened_costs(budgets))
        seconds = 0.0 if found.outage is None else (found.outage.seen_ms - found.outage.since_ms) / 1000
    elif not is_late and not matters:
        is_gone = finding is None and record.is_late
        text = _GONE if is_gone else finding.verdict.sentence if finding and record.is_late else _OVER
        record = record if is_gone else _recovered(record, text, now_ms)
        record = with_costs(record, budgets, now_ms, _is_bad(finding, found))
        closing_ms = _settled_ms(record)
        # A time further ahead is from before the clock went back.
        if finding is not None and not record.is_late and now_ms < closing_ms <= now_ms + _SETTLING_MS:
            return replace(record, closing_ms=closing_ms)
        record = with_implied_cause(record.noted(now_ms, Phase.CLOSED, text))
        return replace(record, closed_ms=max(now_ms, record.opened_ms), closing_ms=None)
    else:
        record = with_costs(record, budgets, now_ms, _is_bad(finding, found))
        if not is_late and not record.is_late and record.closing_ms is not None:
            record = record.noted(now_ms, Phase.RELAPSED, f"{matters[0].name}: {matters[0].text}")
        record = _continued(record, finding, now_ms, is_late=is_late)
    record = _with_matters(record, matters, now_ms)
    found_cause = None if finding is None else finding.diagnosis
    record = with_known_cause(record, found_cause, found.cause, seconds) or with_cause(
        record, found_cause, seconds, now_ms
    )
    if finding is None:
        return record
    record = _with_decision(_with_closing(record, finding, now_ms), finding, now_ms)
    if finding.worth is not None and record.gain is None:
        record = replace(
            record, gain=RebalanceGain(now_ms, finding.worth.left_seconds, finding.worth.saved_seconds)
        )
    return replace(record, worst_ms=_worse(record.worst_ms, finding.verdict.observed_ms))


def _unseen(
    record: IncidentRecord | None, name: DatastreamName, found: _DatastreamProblems, now_ms: int
) -> IncidentRecord | None:
    """Return the record of an incident after an evaluation without any verdict. An objective missed before
    still counts as missed."""
    if record is None or not record.is_late:
        return _after(record, name, None, found, now_ms)
    seconds = seconds_since(record, now_ms)
    record = _with_matters(with_costs(record, (), now_ms, _is_bad(None, found)), found.matters, now_ms)
    return with_known_cause(record, None, found.cause, seconds) or record


def _begun(
    name: DatastreamName, late: Evaluation | None, matters: Sequence[DatastreamProblem], now_ms: int
) -> IncidentRecord:
    new = IncidentRecord(f"{name}-{now_ms}", name, "", now_ms, is_late=late is not None, judged_ms=now_ms)
    if late is not None:
        return replace(new, cluster=late.cluster).noted(now_ms, Phase.DETECTED, late.verdict.sentence)
    first = matters[0]
    new = replace(new, cluster=first.cluster, matters=(first.name,))
    return new.noted(now_ms, Phase.DETECTED, f"{first.name}: {first.text}")


def _continued(
    record: IncidentRecord, finding: Evaluation | None, now_ms: int, *, is_late: bool
) -> IncidentRecord:
    """Return the record of an open incident with timeline entries for changed states of its objectives."""
    was_late, record = record.is_late, replace(record, is_late=is_late)
    if finding is None or not (is_late or was_late):
        return record
    verdict = finding.verdict
    if not is_late or verdict.standing is ObjectiveStatus.WITHIN:
        return _recovered(record, verdict.sentence, now_ms)
    if _is_recovered(record) and verdict.standing is ObjectiveStatus.BREACHED:
        gain = None if record.gain is None else replace(record.gain, lasted=None)
        return replace(record, gain=gain).noted(now_ms, Phase.RELAPSED, verdict.sentence)
    if not was_late:
        return record.noted(now_ms, Phase.CLASSIFIED, f"also late: {verdict.sentence}")
    return record


def _with_matters(
    record: IncidentRecord, matters: Sequence[DatastreamProblem], now_ms: int
) -> IncidentRecord:
    """Return the record with timeline entries for new problems. A problem of each name is added once, to
    limit the entries."""
    for matter in matters:
        if matter.name not in record.matters:
            record = record.noted(now_ms, Phase.CLASSIFIED, f"{matter.name}: {matter.text}")
            record = replace(record, matters=(*record.matters, matter.name))
    return record


def _with_closing(record: IncidentRecord, finding: Evaluation, now_ms: int) -> IncidentRecord:
    """Return the record with the time at which it closes if it stays recovered, rounded to a second."""
    left = finding.closes_in
    if left is None:
        return record if record.closing_ms is None else replace(record, closing_ms=None)
    closing_ms = now_ms + round(left) * 1000
    known = record.closing_ms
    is_same = known is not None and abs(known - closing_ms) < _SAME_MOMENT_MS
    return record if is_same else replace(record, closing_ms=closing_ms)


_SAME_MOMENT_MS: Final = 15_000


def _with_decision(record: IncidentRecord, finding: Evaluation, now_ms: int) -> IncidentRecord:
    """Return the record with a timeline entry for a decision that differs from the previous one."""
    text = finding.decision
    if not text:
        return record
    phase = Phase.ACTED if finding.has_acted else Phase.DECIDED
    last = record.last(Phase.ACTED, Phase.DECIDED)
    is_known = last is not None and last.phase is phase and last.has_same_text(text)
    return record if is_known else record.noted(now_ms, phase, text)


def _is_bad(finding: Evaluation | None, found: _DatastreamProblems) -> bool | None:
    """Return whether an evaluation counts as bad time (objective missed, or records waited); None if unknown.
    An alert that is not resolved, or a problem without traffic, is not enough."""
    status = ObjectiveStatus.UNKNOWN if finding is None else finding.verdict.standing
    # Copied partitions are evaluated by their records.
    waits = found.stands_still if status is ObjectiveStatus.WITHIN else found.waits
    if status is ObjectiveStatus.BREACHED or (found.matters and waits):
        return True
    if status is ObjectiveStatus.HALTED:
        return found.waits is not False
    return None if status is ObjectiveStatus.UNKNOWN else False


def _bad_intervals(
    former: IncidentRecord | None, finding: Evaluation | None, found: _DatastreamProblems, now_ms: int
) -> list[TimeInterval]:
    """Return the time intervals of an evaluation in which records were late.

    Reports of late records take precedence over verdicts, because a verdict remains bad for as long as its
    window contains late records.
    """
    late = finding.lateness if finding is not None and finding.lateness is not None else UNMEASURED
    if late.intervals and late.is_over:
        return [*late.intervals]
    intervals = [*late.intervals, *(found.outage.intervals if found.outage is not None else ())]
    is_measured = late.intervals and not (found.matters and found.stands_still)
    if former is not None and _is_bad(finding, found) and not is_measured:
        intervals.append(observed_interval(former, now_ms))
    return intervals


def _settled_ms(record: IncidentRecord) -> int:
    """Return when an incident may close at the earliest after its recovery (epoch ms). Until then, records
    that the problem delayed may arrive late, and belong to the incident."""
    last = record.last(Phase.RECOVERED)
    return 0 if last is None else last.time_ms + _SETTLING_MS


_SETTLING_MS: Final = 30_000


def _is_recovered(record: IncidentRecord) -> bool:
    last = record.last(Phase.DETECTED, Phase.RECOVERED, Phase.RELAPSED)
    return last is not None and last.phase is Phase.RECOVERED


def _recovered(record: IncidentRecord, text: str, now_ms: int) -> IncidentRecord:
    """Return the record with an entry for the recovery, and how long the breach lasted after the rebalance.

    A recovery after a relapse replaces this duration.
    """
    if _is_recovered(record):
        return record
    if record.gain is not None:
        record = replace(record, gain=replace(record.gain, lasted=(now_ms - record.gain.acted_ms) / 1000))
    return record.noted(now_ms, Phase.RECOVERED, text)


def _worse(first: float | None, second: float | None) -> float | None:
    return max((value for value in (first, second) if value is not None), default=None)


def resumed(record: IncidentRecord, now_ms: int, monotonic: float) -> Incident:
    """Convert a stored incident to the state from which a monitor continues. The cool-down starts at the last
    requested rebalance."""

    def ago(moment_ms: int) -> float:
        return monotonic - max(0, now_ms - moment_ms) / 1000

    acted = record.last(Phase.ACTED)
    helped_at = None if acted is None else ago(acted.time_ms)
    return Incident(is_open=True, opened_at=ago(record.opened_ms), helped_at=helped_at)
