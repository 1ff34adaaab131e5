"""Decides which alerts fire, from the findings of the monitor. Pure.

An alert fires when its condition has lasted for the configured time (see `AlertPatience`). An alert resolves
when the condition has been absent for a while, or at once if its datastream is deleted, paused or has no
objective.

The alert of an incident fires when records have been late continuously for a while, or intermittently for
longer. A restart or a move that delays records for some seconds therefore pages nobody. The alert resolves
when the incident closes, or earlier if the objective is met for a while.

One cause produces one alert. While partitions of a datastream are not copied, the alert reports these
partitions, not the late records. A state of partitions has a separate alert in two cases only: if this alert
has fired before, or if the state is critical and started while the datastream was already late for another
reason. While the monitor cannot evaluate objectives, no alert resolves. While an instance does not respond,
no alert about partitions resolves.

To add an alert, add a kind to `catalogue.py`, a line to `_drafts_of` or to `partitions.py`, and a page to
docs/runbooks/.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert, AlertKey, AlertKind, Severity
from monitor.alerts.catalogue import (
    BLIND,
    BURNING,
    CANARY_UNAVAILABLE,
    CATALOGUE,
    HALTED,
    LATE,
    LOSS_AHEAD,
    OF_CLUSTERS,
    OF_ITSELF,
    OF_PARTITIONS,
    TIMESTAMPS,
    UNJUDGED,
    WEARING,
    AlertPatience,
    ClockReading,
)
from monitor.alerts.clusters import Fault, Outages, cluster_alerts, faults_of
from monitor.alerts.partitions import loss_alert, partitions_text, pause_alert, state_alerts
from monitor.causes.diagnosis import CATCH_UPS, Cause
from monitor.evaluation import Evaluation
from monitor.latency import ObjectiveStatus
from monitor.movement.summary import NOTHING_KNOWN, DatastreamStates, FleetMovement
from monitor.records.record import IncidentRecord


@dataclass(slots=True)
class _SeenCondition:
    """A condition for an alert that an evaluation has observed. `alert`: its latest alert. `is_inherited`:
    only a previous monitor has observed the condition. `is_inhibited`: another alert has already paged for
    the fault."""

    alert: Alert
    since: ClockReading
    seen: float
    fires: bool = False
    is_inherited: bool = False
    is_inhibited: bool = False


class Conditions:
    """Conditions for alerts that evaluations have observed, and the alerts that fire as a result."""

    def __init__(self, patience: AlertPatience) -> None:
        self._patience = patience
        self._held: dict[AlertKey, _SeenCondition] = {}
        self._outages = Outages(patience.catching_up_after_seconds, patience.partitions_after_seconds)
        self._halts = Outages(patience.catching_up_after_seconds)
        """Datastreams with an alert about partitions that are not copied. Records that are late as a
        consequence do not cause a second alert."""
        self._following: frozenset[str] = frozenset()
        """Datastreams whose records are late because some partitions were not copied for a while."""
        self._paged: dict[str, float] = {}
        """Last time at which the alert of an incident fired, by datastream."""
        self._is_partial = False  # an instance did not report the states of its partitions
        self._began: float | None = None
        self._knows_past = True
        self._missed_since: dict[str, float] = {}
        """Start of the time without a good verdict, by datastream (monotonic seconds)."""
        self._breached: frozenset[str] = frozenset()
        """Datastreams whose latest verdict is bad."""
        self._recovered: set[str] = set()
        """Datastreams whose alert resolved before their incident closed. If such an alert fires again, it
        fires until the incident closes, so that a datastream close to its objective does not page every few
        minutes."""

    def expect_past(self) -> None:
        """Delay alerts about burning error budgets until a previous monitor's incidents are known."""
        self._knows_past = False

    def remember(self, records: Iterable[IncidentRecord], now: ClockReading) -> None:
        """Record which datastreams had recent incidents, which explain why their error budgets burn."""
        self._knows_past = True
        for record in records:
            ended = now.seconds - max(0, now.ms - (record.closed_ms or now.ms)) / 1000
            self._paged[record.datastream] = max(ended, self._paged.get(record.datastream, ended))

    def resume(self, alerts: Iterable[Alert], now: ClockReading) -> list[Alert]:
        """Restore alerts that fired for a previous monitor, and return them. Restored alerts keep their start
        time, and resolve if this monitor does not observe their condition."""
        return [self._inherit(alert, now) for alert in alerts]

    def _inherit(self, alert: Alert, now: ClockReading) -> Alert:
        held = self._held.get(alert.key)
        known = alert if held is None else replace(held.alert, since_ms=alert.since_ms)
        since = ClockReading(alert.since_ms, now.seconds - max(0, now.ms - alert.since_ms) / 1000)
        is_own = held is not None and not held.is_inherited
        self._held[alert.key] = _SeenCondition(known, since, now.seconds, fires=True, is_inherited=not is_own)
        return known

    @property
    def inherited(self) -> frozenset[AlertKey]:
        """Alerts of a previous monitor that this monitor has not confirmed and must not send again."""
        return frozenset(key for key, held in self._held.items() if held.is_inherited)

    @property
    def _fired(self) -> frozenset[AlertKey]:
        return frozenset(key for key, held in self._held.items() if held.fires)

    @property
    def inhibited(self) -> frozenset[AlertKey]:
        """Alerts about error budgets that began to burn during an alert of the datastream's incident. They
        are inhibited while the windows of the budgets contain the incident, so that one fault pages once."""
        return frozenset(key for key, held in self._held.items() if held.is_inhibited)

    def judged(
        self,
        findings: Mapping[DatastreamName, Evaluation],
        now: ClockReading,
        movements: FleetMovement = NOTHING_KNOWN,
        own: Sequence[Alert] = (),
    ) -> list[Alert]:
        """Return the alerts that fire after an evaluation. `own`: alerts about the monitor itself."""
        self._held = {k: held for k, held in self._held.items() if _applies(held.alert, findings, movements)}
        self._breached = frozenset(
            name for name, finding in findings.items() if finding.verdict.standing is ObjectiveStatus.BREACHED
        )
        self._missed_since = {
            name: self._missed_since.get(name, now.seconds)
            for name, finding in findings.items()
            if name in self._breached
            or (name in self._missed_since and finding.verdict.standing is not ObjectiveStatus.WITHIN)
        }
        self._recovered &= {name for name, finding in findings.items() if finding.incident.is_open}
        faults = self._faults(findings, movements, now)
        by_name = (self._drafts_of(name, finding, movements, now) for name, finding in findings.items())
        drafts = [draft for found in by_name for draft in found]
        drafts = [draft for draft in drafts if not self._is_held_back(draft)]
        covered = {DatastreamName(draft.datastream) for draft in drafts if draft.kind in (LATE, HALTED)}
        covered |= {DatastreamName(key.datastream) for key in self._held if key.name == LATE.name}
        self._see(
            [*drafts, *self._of_partitions(movements, covered, faults, now), *self._unexplained(own)], now
        )
        self._forget(now)
        return self._firing(now)

    def judging_failed(
        self,
        reason: str,
        now: ClockReading,
        movements: FleetMovement = NOTHING_KNOWN,
        own: Sequence[Alert] = (),
    ) -> list[Alert]:
        """Return the alerts that fire after an evaluation that has no verdict on any datastream.

        Earlier alerts continue, and an alert about the missing verdicts fires after a while. `movements` may
        still contain the states of partitions.
        """
        covered = {
            DatastreamName(key.datastream) for key in self._held if key.name in (LATE.name, HALTED.name)
        }
        blind = Alert(BLIND, "no datastream can be evaluated", reason, 0)
        faults = self._faults({}, movements, now)
        # Measurements of a cluster that does not respond cannot be read: that is one fault.
        seen = [blind] if all(fault.is_idle for fault in faults) or blind.key in self._fired else []
        if not seen:
            self._held.pop(blind.key, None)
        self._see(
            [*seen, *self._of_partitions(movements, covered, faults, now), *self._unexplained(own)], now
        )
        self._forget(now, OF_PARTITIONS | OF_ITSELF)
        return self._firing(now)

    def _unexplained(self, own: Iterable[Alert]) -> Iterator[Alert]:
        """Yield the monitor's own alerts, except alerts of canaries that another alert already explains."""
        return (a for a in own if a.kind is not CANARY_UNAVAILABLE or not self._is_held_back(a))

    def _drafts_of(
        self, name: DatastreamName, finding: Evaluation, movements: FleetMovement, now: ClockReading
    ) -> Iterator[Alert]:
        """Yield a candidate alert for each problem of a datastream. `_see` sets the start of each alert."""
        verdict, cluster, found = finding.verdict, finding.cluster, finding.diagnosis
        seen = self._held.get(AlertKey(LATE.name, name))
        late = seen if seen is not None and seen.fires else None
        moving = movements.datastreams.get(name)
        does = partitions_text(moving.movement) if moving is not None else ""
        text = "; ".join(filter(None, (verdict.sentence, does)))
        if late is None and found is not None and found.cause is Cause.WRONG_TIMESTAMPS:
            if _is_late(finding, self._held.get(AlertKey(TIMESTAMPS.name, name))):
                summary = f"the timestamps of {name} are wrong"
                yield Alert(TIMESTAMPS, summary, text, 0, name, cluster)
        elif _is_late(finding, late) and (late is not None or not verdict.is_halted):
            is_unseen = (
                late is not None and late.is_inherited and verdict.standing is not ObjectiveStatus.BREACHED
            )
            yield late.alert if late is not None and is_unseen else _late_alert(name, finding, text, seen)
        if verdict.is_halted and not _is_idle(moving):
            halted = Alert(HALTED, f"{name} is not fully copied", text, 0, name, cluster)
            if late is None or halted.key in self._held or now.ms - late.since.ms > _SAME_CAUSE_MS:
                yield halted
        if verdict.standing is ObjectiveStatus.UNKNOWN:
            summary = f"cannot determine whether {name} meets its objective"
            yield Alert(UNJUDGED, summary, verdict.sentence, 0, name, cluster)
        yield from self._burning(name, finding)

    def _faults(
        self, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement, now: ClockReading
    ) -> list[Fault]:
        """Return the faults of clusters, each marked if the datastream's own alert already reports it."""
        fired = self._fired
        self._is_partial, seen = not movements.is_complete, faults_of(findings, movements)
        found = [fault._replace(is_told=self._is_reported(fault, fired, now)) for fault in seen]
        self._outages.update(found, fired, findings, movements, now.seconds)
        halts = [
            Fault(DatastreamName(key.datastream), held.alert.kind, "", 0, "", "", None, is_told=True)
            for key, held in self._held.items()
            if held.fires and key.datastream and held.alert.kind in _HALTS
        ]
        self._halts.update(halts, fired, findings, movements, now.seconds)
        causes = {name: finding.diagnosis.cause for name, finding in findings.items() if finding.diagnosis}
        self._following = frozenset(name for name, cause in causes.items() if cause in _FOLLOWING)
        return found

    def _is_reported(self, fault: Fault, fired: Collection[AlertKey], now: ClockReading) -> bool:
        """Return whether the datastream's own alert began with the fault and before the cluster's alert."""
        since_ms = fault.since_ms or now.ms
        return fault.key not in fired and any(
            key in fired and self._held[key].since.ms >= since_ms - _SAME_CAUSE_MS
            for key in (AlertKey(kind.name, fault.name) for kind in (LATE, HALTED))
        )

    def _is_held_back(self, draft: Alert) -> bool:
        """Return whether an alert about the same fault suppresses this one, which is not firing yet."""
        held = self._held.get(draft.key)
        if held is not None and held.fires:
            return False
        if draft.kind in (BURNING, WEARING):
            return draft.datastream in self._outages.burnt | self._halts.burnt
        if draft.kind is CANARY_UNAVAILABLE and draft.datastream in self._halts.held_back:
            return True
        follows = draft.kind is LATE and draft.datastream in self._halts.held_back & self._following
        return follows or draft.datastream in self._outages.held_back

    def _of_partitions(
        self,
        movements: FleetMovement,
        covered: Collection[DatastreamName],
        faults: Collection[Fault],
        now: ClockReading,
    ) -> list[Alert]:
        """Return the alerts about partitions and clusters. `covered`: datastreams with an alert that already
        lists the states of their partitions. `faults`: faults of clusters."""
        found = {cluster_alert.key: cluster_alert for cluster_alert in cluster_alerts(faults)}
        for name, moving in movements.datastreams.items():
            for alert in state_alerts(name, moving):
                held = self._held.get(alert.key)
                is_new = alert.kind.severity is Severity.CRITICAL and self._began_after_late(name, alert)
                is_free = (name not in covered or is_new) and not self._is_held_back(alert)
                if is_free or (held is not None and held.fires):
                    found[alert.key] = alert
            patience = self._patience
            loss = loss_alert(name, moving, patience.loss_within_seconds, patience.loss_least_share)
            pause = pause_alert(name, moving, now.ms, patience.paused_after_seconds)
            found |= {alert.key: alert for alert in (loss, pause) if alert is not None}
        if not movements.is_complete:
            fires = {key: held for key, held in self._held.items() if held.fires}
            found = {k: held.alert for k, held in fires.items() if held.alert.kind in OF_PARTITIONS} | found
        return list(found.values())

    def _began_after_late(self, name: DatastreamName, alert: Alert) -> bool:
        """Return whether the datastream was late before the alert's problem began. False if it is halted."""
        late, halted = (self._held.get(AlertKey(kind.name, name)) for kind in (LATE, HALTED))
        if late is None or halted is not None or not alert.since_ms:
            return False
        return alert.since_ms - late.since.ms > _SAME_CAUSE_MS

    def _burning(self, name: DatastreamName, finding: Evaluation) -> Iterator[Alert]:
        """Yield alerts about error budgets that burn too fast. At most one alert starts in each evaluation.
        Firing alerts continue while the burn rate is unknown."""
        budgets, is_reported = finding.verdict.budgets, False
        for kind in (BURNING, WEARING):
            held = self._held.get(AlertKey(kind.name, name))
            is_fast = kind is BURNING
            text = "; ".join(
                budget.sentence
                for budget in budgets
                if any(
                    burn.rule.has_two_windows is is_fast
                    for burn in (budget.firing if held is None else budget.lasting)
                )
            )
            if text and (held is not None or not is_reported):
                summary = f"the error budget of {name} burns too fast"
                yield Alert(kind, summary, text, 0, name, finding.cluster, finding.action)
            elif held is not None and any(
                burn.may_last and burn.rule.has_two_windows is is_fast
                for budget in budgets
                for burn in budget.burns
            ):
                yield held.alert
                is_reported = True
            is_reported = is_reported or bool(text)

    def _see(self, drafts: Iterable[Alert], now: ClockReading) -> None:
        """Record the conditions that one evaluation has observed. A candidate that is the stored alert itself
        only means that the end of its condition is unknown: it does not confirm a condition of a previous
        monitor."""
        for draft in drafts:
            held = self._held.setdefault(draft.key, _SeenCondition(draft, now, now.seconds))
            held.is_inherited = held.is_inherited and draft is held.alert
            held.seen = now.seconds
            held.alert = replace(draft, since_ms=held.since.ms)

    def _forget(self, now: ClockReading, kinds: Collection[AlertKind] = CATALOGUE) -> None:
        """Drop conditions that this evaluation could observe and did not, unless their alert still fires."""
        kept = {
            key: held
            for key, held in self._held.items()
            if held.seen == now.seconds or held.alert.kind not in kinds or self._is_held(held, now)
        }
        ended = self._held.keys() - kept.keys()
        self._recovered |= {
            key.datastream for key in ended if key.name == LATE.name and self._held[key].fires
        }
        self._held = kept

    def _is_held(self, condition: _SeenCondition, now: ClockReading) -> bool:
        is_unseen = self._is_partial and condition.alert.kind in OF_PARTITIONS
        if condition.is_inherited and condition.alert.kind in OF_ITSELF:
            return now.seconds - condition.seen < self._patience.before(condition.alert.kind)
        if condition.alert.kind is LATE and condition.alert.datastream in self._recovered:
            return condition.fires
        is_kept = condition.fires or is_unseen
        return is_kept and now.seconds - condition.seen < self._patience.after(condition.alert.kind)

    def _is_past_known(self, now: ClockReading) -> bool:
        """Return whether a previous monitor's incidents are known, or a minute has passed since the first
        call."""
        self._began = now.seconds if self._began is None else self._began
        return self._knows_past or now.seconds - self._began >= _PAST_SECONDS

    def _firing(self, now: ClockReading) -> list[Alert]:
        since = now.seconds - self._patience.burnt_seconds
        self._paged = {name: at for name, at in self._paged.items() if at > since}
        self._paged |= {
            key.datastream: now.seconds
            for key, held in self._held.items()
            if key.name == LATE.name and held.fires
        }
        for key, held in self._held.items():
            begins = held.seen == now.seconds and self._has_lasted(held, now)
            if key.name == BURNING.name and not self._is_past_known(now):
                continue
            is_paged = key.name == BURNING.name and key.datastream in self._paged.keys() | self._breached
            held.is_inhibited = is_paged and (held.is_inhibited or not held.fires)
            held.fires = held.fires or begins
        return [held.alert for held in self._held.values() if held.fires]

    def _has_lasted(self, condition: _SeenCondition, now: ClockReading) -> bool:
        """Return whether a condition has lasted long enough for its alert to fire. Records that are late
        intermittently fire after `recovered_after_seconds` without a good verdict."""
        if now.seconds - condition.since.seconds >= self._patience.before(condition.alert.kind):
            return True
        missed_since = self._missed_since.get(condition.alert.datastream, now.seconds)
        is_long = now.seconds - missed_since >= self._patience.recovered_after_seconds
        return condition.alert.kind is LATE and is_long


_PAST_SECONDS: Final = 60.0
"""Seconds for which a monitor waits for the incidents of its predecessor."""
_SAME_CAUSE_MS: Final = 120_000
"""Maximum delay in ms between late records and the report that their partitions are not copied."""
_HALTS: Final = frozenset(
    kind
    for kind in (HALTED, *OF_PARTITIONS)
    if kind.severity is Severity.CRITICAL and kind is not LOSS_AHEAD and kind not in OF_CLUSTERS
)
"""Critical kinds of alerts about uncopied partitions of one datastream."""
_FOLLOWING: Final = CATCH_UPS | {Cause.PAUSED, Cause.START_UP, Cause.WORKER_LOST, Cause.INSTANCE_LOST}
"""Causes that result from partitions that were not copied."""


def _is_late(finding: Evaluation, late: _SeenCondition | None) -> bool:
    """Return whether the alert of an incident should fire now.

    A firing alert continues while the status is unknown. A resolved alert fires again after as many breaches
    as open an incident. No alert starts while records arrive in time, even if the window still contains late
    records.
    """
    if not finding.incident.is_open:
        return False
    if late is None:
        return (
            finding.verdict.standing is ObjectiveStatus.BREACHED
            and finding.incident.breaches != 1
            and not finding.is_over
        )
    return finding.verdict.standing is not ObjectiveStatus.WITHIN


def _late_alert(name: DatastreamName, finding: Evaluation, text: str, late: _SeenCondition | None) -> Alert:
    """Return the alert of an incident. It omits actions that were taken against an earlier cause."""
    found = finding.diagnosis
    cause = "" if found is None or found.cause is Cause.UNKNOWN else found.cause.value
    summary = f"{_late(name)}: {cause}" if cause else _late(name)
    same = late.alert if late is not None and (not cause or summary == late.alert.summary) else None
    done = finding.action or (same.done if same else "")
    return Alert(LATE, same.summary if same else summary, text, 0, name, finding.cluster, done)


def _is_idle(moving: DatastreamStates | None) -> bool:
    """Return whether no partition that is not OK has waiting or arriving records."""
    states = moving.movement.states if moving is not None else ()
    return bool(states) and all(state.is_idle for state in states)


def _applies(alert: Alert, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement) -> bool:
    """Return whether the subject of an alert still exists. Keeps alerts about partitions if no instance
    responds."""
    if alert.kind in OF_ITSELF:
        return True
    if alert.kind in OF_PARTITIONS:
        is_of_cluster = alert.kind in OF_CLUSTERS and not alert.datastream
        return is_of_cluster or alert.datastream in movements.datastreams or movements is NOTHING_KNOWN
    finding = findings.get(DatastreamName(alert.datastream))
    return finding is not None and (alert.kind is not LATE or finding.incident.is_open)


def _late(name: str) -> str:
    return f"{name} misses its latency objective"
