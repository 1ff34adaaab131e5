"""One turn of the monitor: observe, judge, act. Returns a sentence for every datastream."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from mirror.errors import HeadraceError, LoadUnavailable
from mirror.model.bounds import LONGEST_REASON
from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.incidents import Incident, IncidentPolicy, Step, advance
from monitor.latency import Subject, Verdict
from monitor.objectives.budgets import ALL, QUESTIONS_OF_A_TURN, Budgets
from monitor.objectives.verdicts import judge_all, windows_of
from monitor.ports import Measurements, Service

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a turn found of one datastream, and what was done about it. `cluster`: its source."""

    verdict: Verdict
    incident: Incident
    action: str
    cluster: str = ""


class Listener(Protocol):
    """What hears of every turn. Returns at once."""

    def judged(self, findings: Mapping[DatastreamName, Finding]) -> None:
        """A turn's findings, one for each datastream that is judged."""
        ...

    def nothing_judged(self, reason: str) -> None:
        """A turn found nothing."""
        ...


class MonitorCycle:
    """Keeps incidents between cycles; everything else is read in each."""

    def __init__(
        self,
        service: Service,
        measurements: Measurements,
        policy: IncidentPolicy,
        clock: Clock,
        window_seconds: float,
        budgets: Budgets | None = None,
    ) -> None:
        self._service = service
        self._measurements = measurements
        self._policy = policy
        self._clock = clock
        self._window = window_seconds
        self._budgets = budgets
        self._incidents: dict[DatastreamName, Incident] = {}

    @property
    def remark(self) -> str:
        """What verdicts rest on where that is not the usual; empty where it is."""
        return self._measurements.remark

    def judge_only(self) -> Mapping[DatastreamName, Verdict]:
        """Verdicts without any consequence. Raises HeadraceError."""
        subjects = self._service.subjects()
        return self._with_budgets(self._judged(subjects), subjects, ALL)

    def is_judged_elsewhere(self) -> bool:
        """Whether a monitor within the service judges: two must not act at once. Raises Unreachable."""
        return self._service.has_own_monitor()

    def restore(self, incidents: Mapping[DatastreamName, Incident]) -> None:
        """Go on with those of a former monitor; where one is open again already, it counts."""
        for name, incident in incidents.items():
            if not self._incidents.get(name, Incident()).is_open:
                self._incidents[name] = incident

    def turn(self) -> Mapping[DatastreamName, Finding]:
        """Raises HeadraceError when neither service nor measurements can be read."""
        subjects = self._service.subjects()
        findings = {}
        judged = self._with_budgets(self._judged(subjects), subjects, QUESTIONS_OF_A_TURN)
        for name, verdict in judged.items():
            finding = self._act(name, verdict)
            findings[name] = replace(finding, cluster=subjects[name].source.cluster)
            self._incidents[name] = findings[name].incident
        self._incidents = {name: one for name, one in self._incidents.items() if name in subjects}
        return findings

    def _judged(self, subjects: Mapping[DatastreamName, Subject]) -> dict[DatastreamName, Verdict]:
        windows = windows_of(subjects.values(), self._window)
        # The longest first: the metrics topic is not read again from further back for it.
        seen = {seconds: self._measurements.observe(seconds) for seconds in sorted(windows, reverse=True)}
        return {name: judge_all(one, seen, self._window) for name, one in sorted(subjects.items())}

    def _with_budgets(
        self,
        verdicts: dict[DatastreamName, Verdict],
        subjects: Mapping[DatastreamName, Subject],
        most_questions: int,
    ) -> dict[DatastreamName, Verdict]:
        if self._budgets is None:
            return verdicts
        found = self._budgets.judge(subjects, most_questions)
        return {name: replace(verdict, budgets=found[name]) for name, verdict in verdicts.items()}

    def _act(self, name: DatastreamName, verdict: Verdict) -> Finding:
        before = self._incidents.get(name, Incident())
        incident, steps = advance(before, verdict, self._policy, self._clock.monotonic())
        actions = []
        for step in steps:
            try:
                actions.append(self._take(step, name, verdict))
            except HeadraceError as error:
                _log.error("rebalance not asked for", datastream=name, reason=str(error))
                actions.append(f"a rebalance could not be asked for: {error}")
                incident = replace(incident, helped_at=before.helped_at)  # the next turn asks again
        return Finding(verdict, incident, "; ".join(filter(None, actions)))

    def _take(self, step: Step, name: DatastreamName, verdict: Verdict) -> str:
        match step:
            case Step.OPEN:
                _log.warning("latency objective breached", datastream=name, reason=verdict.sentence)
                return f"incident opened: {verdict.sentence}"
            case Step.CLOSE:
                _log.info("latency objective met again", datastream=name, reason=verdict.sentence)
                return "incident closed"
            case Step.HELP:
                return self._help(name, verdict)
            case Step.NONE:
                return ""

    def _help(self, name: DatastreamName, verdict: Verdict) -> str:
        preview = self._service.preview_rebalance(name)
        if not preview.loads_known:
            raise LoadUnavailable("nothing is known of the loads, so nobody can say whether it would help")
        if preview.moves == 0:
            return f"a rebalance would not help: {preview.sentence}"
        reason = f"latency breach: {verdict.sentence}"[:LONGEST_REASON]
        identity = self._service.rebalance(name, reason)
        _log.info("rebalance asked for", datastream=name, request=identity, would=preview.sentence)
        return f"rebalance {identity} asked for: {preview.sentence}"


class MonitorLoop:
    """Turns at an interval until it is stopped; a turn that fails is told and tried again."""

    def __init__(
        self, cycle: MonitorCycle, interval_seconds: float, listeners: Sequence[Listener] = ()
    ) -> None:
        self._cycle = cycle
        self._interval = interval_seconds
        self._listeners = listeners
        self._stopping = threading.Event()
        self._told: dict[DatastreamName, str] = {}

    def run(self) -> None:
        """Until `stop`, or until the service has a monitor of its own."""
        while not self._stopping.wait(self._interval):
            try:
                if self._cycle.is_judged_elsewhere():
                    _log.warning("the service's own monitor judges (monitor.enabled); this one ends")
                    return
                findings = self._cycle.turn()
            except HeadraceError as error:
                _log.warning("nothing can be judged", reason=str(error))
                for listener in self._listeners:
                    listener.nothing_judged(str(error))
                continue
            for name, finding in findings.items():
                self._tell(name, finding)
            for listener in self._listeners:
                listener.judged(findings)

    def stop(self) -> None:
        """End the loop soon. May be called from a signal handler."""
        self._stopping.set()

    def _tell(self, name: DatastreamName, finding: Finding) -> None:
        verdict = finding.verdict
        burning = [budget.sentence for budget in verdict.budgets if budget.firing]
        rules = ",".join(burn.rule.text for budget in verdict.budgets for burn in budget.firing)
        news = f"{verdict.standing} {rules}"
        if finding.action or self._told.get(name) != news:
            _log.info(
                verdict.sentence,
                datastream=name,
                standing=verdict.standing.value,
                action=finding.action,
                **({"burning": burning} if burning else {}),
            )
            self._told[name] = news
