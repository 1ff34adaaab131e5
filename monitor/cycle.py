"""One turn of the monitor: observe, judge, act. Returns a sentence for every datastream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

import structlog

from mirror.errors import HeadraceError
from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.actions.worth import Worth
from monitor.causes.diagnosis import Diagnosis
from monitor.causes.inquiry import NO_ANSWER, Answer, Inquiry
from monitor.incidents import Incident, IncidentPolicy, Step, advance, closes_in_seconds
from monitor.latency import Standing, Subject, Verdict
from monitor.movement.summary import NOTHING_KNOWN, Movements
from monitor.objectives.alone import SourcesAlone
from monitor.objectives.budgets import ALL, QUESTIONS_OF_A_TURN, Budgets
from monitor.objectives.verdicts import judge_all, least_objective_ms, windows_of
from monitor.ports import Measurements, Service
from monitor.rebalances import Done, Help, Rebalancing

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a turn found of one datastream, and what was done about it. `cluster`: its source. `diagnosis`:
    why it is late, while an incident is open; None where there is none, or the evidence cannot be read.
    `worth`: what was predicted of a rebalance that was asked for in the turn. `subject`: as it was judged.
    `decision`: what was decided about a rebalance, which `has_acted` where one was asked for. `closes_in`:
    seconds until an incident that has recovered closes, if it stays so."""

    verdict: Verdict
    incident: Incident
    action: str
    cluster: str = ""
    diagnosis: Diagnosis | None = None
    worth: Worth | None = None
    subject: Subject | None = None
    decision: str = ""
    has_acted: bool = False
    closes_in: float | None = None


class Listener(Protocol):
    """What hears of every turn. Returns at once."""

    def judged(self, findings: Mapping[DatastreamName, Finding], movements: Movements, /) -> None:
        """A turn's findings, one for each datastream that is judged, and what partitions do."""
        ...

    def nothing_judged(self, reason: str, movements: Movements, /) -> None:
        """A turn found nothing; what partitions do may be known."""
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
        self._alone = SourcesAlone()
        self._inquiry = Inquiry()
        self._rebalancing = Rebalancing(service, policy.acting, clock)

    @property
    def remark(self) -> str:
        """What verdicts rest on where that is not the usual; empty where it is."""
        return self._measurements.remark

    def judge_only(self) -> Mapping[DatastreamName, Verdict]:
        """Verdicts without any consequence, with the causes of breaches. Raises HeadraceError."""
        subjects = self._service.subjects()
        found = self._with_budgets(self._judged(subjects), subjects, ALL)
        late = [name for name, verdict in found.items() if verdict.standing is Standing.BREACHED]
        causes = {name: self._ask(name, subjects[name], found[name]).sentence for name in late}
        return {name: replace(verdict, cause=causes.get(name, "")) for name, verdict in found.items()}

    def is_judged_elsewhere(self) -> bool:
        """Whether a monitor within the service judges: two must not act at once. Raises Unreachable."""
        return self._service.has_own_monitor()

    def held_by(self) -> str:
        """Which other monitor judges, so that this one must not; empty: this one does. Raises Unreachable,
        HeadraceError."""
        held = self._service.hold()
        self._rebalancing.note(held.record)
        return held.other

    def release(self) -> None:
        """Let another monitor judge at once."""
        try:
            self._service.release()
        except HeadraceError as error:
            _log.warning("another monitor has to wait until this one's lease is over", reason=str(error))

    def movements(self) -> Movements:
        """What partitions do that are not OK, as far as the service says."""
        try:
            return self._service.movements()
        except HeadraceError as error:
            _log.warning("nobody says what partitions do", reason=str(error))
            return NOTHING_KNOWN

    def restore(self, incidents: Mapping[DatastreamName, Incident]) -> None:
        """Go on with those of a former monitor; where one is open again already, it counts."""
        for name, incident in incidents.items():
            if not self._incidents.get(name, Incident()).is_open:
                self._incidents[name] = incident

    def turn(self) -> Mapping[DatastreamName, Finding]:
        """Raises HeadraceError when neither service nor measurements can be read."""
        subjects = self._service.subjects()
        if not subjects:
            self._incidents = {}
            return {}  # and nobody is asked for measurements
        findings = {}
        self._rebalancing.begin()
        judged = self._with_budgets(self._judged(subjects), subjects, QUESTIONS_OF_A_TURN)
        self._inquiry.begin([name for name in judged if self._incidents.get(name, Incident()).breaches])
        for name, verdict in judged.items():
            findings[name] = self._act(name, subjects[name], verdict)
            self._incidents[name] = findings[name].incident
        self._incidents = {name: one for name, one in self._incidents.items() if name in subjects}
        return findings

    def _judged(self, subjects: Mapping[DatastreamName, Subject]) -> dict[DatastreamName, Verdict]:
        windows = windows_of(subjects.values(), self._window)
        # The longest first: the metrics topic is not read again from further back for it.
        least_ms = least_objective_ms(subjects.values())
        now_ms = self._clock.now_ms()
        self._alone.look(subjects.values(), now_ms)
        seen = {
            seconds: self._measurements.observe(
                seconds, least_ms, self._alone.since(now_ms - int(seconds * 1_000))
            )
            for seconds in sorted(windows, reverse=True)
        }
        return {name: judge_all(one, seen, self._window) for name, one in sorted(subjects.items())}

    def _with_budgets(
        self,
        verdicts: dict[DatastreamName, Verdict],
        subjects: Mapping[DatastreamName, Subject],
        most_questions: int,
    ) -> dict[DatastreamName, Verdict]:
        if self._budgets is None:
            return verdicts
        found = self._budgets.judge(subjects, most_questions, self._alone)
        return {name: verdict.with_budgets(found[name]) for name, verdict in verdicts.items()}

    def _act(self, name: DatastreamName, subject: Subject, verdict: Verdict) -> Finding:
        before = self._incidents.get(name, Incident())
        incident, steps = advance(before, verdict, self._policy, self._clock.monotonic())
        cause = self._cause(name, subject, verdict, incident)
        actions, worth, decision = [], None, ""
        for step in steps:
            try:
                if step is Step.HELP:
                    opened_at = incident.opened_at or self._clock.monotonic()
                    helped = self._help(name, subject, verdict, cause, opened_at)
                    said = cause.sentence if helped.says_cause else ""
                    actions.append("; ".join(filter(None, (said, helped.sentence))))
                    worth, decision = helped.worth, helped.sentence
                    if helped.done is Done.NOT_NOW:
                        incident = replace(incident, helped_at=before.helped_at)  # the next turn asks again
                else:
                    actions.append(self._take(step, name, verdict))
            except HeadraceError as error:
                _log.error("rebalance not asked for", datastream=name, reason=str(error))
                decision = f"a rebalance could not be asked for: {error}"
                actions.append(decision)
                incident = replace(incident, helped_at=before.helped_at)  # the next turn asks again
        found = cause.diagnosis
        if found is not None and cause.is_news and not found.placement_can_help:
            actions.append(found.sentence)
        action = "; ".join(filter(None, actions))
        closes_in = closes_in_seconds(incident, self._policy, self._clock.monotonic())
        cluster, has_acted = subject.source.cluster, worth is not None
        return Finding(
            verdict, incident, action, cluster, found, worth, subject, decision, has_acted, closes_in
        )

    def _cause(self, name: DatastreamName, subject: Subject, verdict: Verdict, incident: Incident) -> Answer:
        if verdict.standing is not Standing.BREACHED or not incident.is_open:
            return NO_ANSWER
        return self._ask(name, subject, verdict)

    def _ask(self, name: DatastreamName, subject: Subject, verdict: Verdict) -> Answer:
        now = self._clock.monotonic()
        return self._inquiry.look(name, lambda: self._service.evidence(subject), verdict.limit_ms, now)

    def _help(
        self, name: DatastreamName, subject: Subject, verdict: Verdict, cause: Answer, opened_at: float
    ) -> Help:
        """A rebalance, where another placement may help or nobody can say whether it may."""
        found = cause.diagnosis
        if found is not None and not found.placement_can_help:
            return Help(Done.NOT_NOW, "")  # another cause is acted on at once
        why = cause.sentence
        told, lasts = f"latency breach: {verdict.sentence}; {why}", self._clock.monotonic() - opened_at
        helped = self._rebalancing.help(name, subject.mode, told, lasts)
        is_said = helped.done is Done.ACTED or found is None or cause.is_news
        return helped._replace(says_cause=is_said)

    def _take(self, step: Step, name: DatastreamName, verdict: Verdict) -> str:
        match step:
            case Step.OPEN:
                _log.warning("latency objective breached", datastream=name, reason=verdict.sentence)
                return f"incident opened: {verdict.sentence}"
            case Step.CLOSE:
                _log.info("latency objective met again", datastream=name, reason=verdict.sentence)
                return "incident closed"
            case Step.HELP | Step.NONE:
                return ""


class Ended(Enum):
    """Why turns ended."""

    STOPPED = "stopped"
    LEFT = "the service judges itself"
    OUSTED = "another monitor judges"


class Standstills(Protocol):
    """Whether the process has stood still, see `monitor.alerts.deliveries.standstill`."""

    def count(self) -> int:
        """How often, so far."""
        ...

    def settle(self, count: int) -> None:
        """This monitor still judges, as was asked when it had stood still so often."""
        ...


class MonitorLoop:
    """Turns at an interval until it is stopped; a turn that fails is told and tried again, whatever it failed
    for, and what a listener fails for holds up no other. `is_shut_out`:
    whether another monitor has judged meanwhile, so that what is known here may not be true any more.
    `standstills`: what hears that this one still judges."""

    def __init__(
        self,
        cycle: MonitorCycle,
        interval_seconds: float,
        listeners: Sequence[Listener] = (),
        is_shut_out: Callable[[], bool] = lambda: False,
        standstills: Standstills | None = None,
    ) -> None:
        self._cycle = cycle
        self._interval = interval_seconds
        self._listeners = listeners
        self._is_shut_out = is_shut_out
        self._standstills = standstills
        self._stopping = threading.Event()
        self._told: dict[DatastreamName, tuple[str, str]] = {}
        self._trouble = ""
        self._failures: dict[int, str] = {}
        """Of listeners, by their place: what was logged last."""

    def run(self) -> Ended:
        """Until `stop`, or until another monitor judges."""
        while not self._stopping.wait(self._interval):
            if self._is_shut_out():
                return Ended.OUSTED
            movements = NOTHING_KNOWN
            try:
                if self._cycle.is_judged_elsewhere():
                    return Ended.LEFT
                if other := self._held_by():
                    _log.warning("another monitor judges from now on", monitor=other)
                    return Ended.OUSTED
                movements = self._cycle.movements()
                self._judged(self._cycle.turn(), movements)
            except HeadraceError as error:
                self._nothing_judged(str(error), movements)
            except Exception as error:  # noqa: BLE001 - the bulkhead around a turn
                self._nothing_judged(f"a turn failed: {error!r}", movements, error)
        return Ended.STOPPED

    def _judged(self, findings: Mapping[DatastreamName, Finding], movements: Movements) -> None:
        self._trouble = ""
        for name, finding in findings.items():
            self._tell(name, finding)
        self._hear(lambda one: one.judged(findings, movements))

    def _nothing_judged(self, reason: str, movements: Movements, error: Exception | None = None) -> None:
        if self._trouble != reason:
            _log.warning("nothing can be judged", reason=reason, exc_info=error)
        self._trouble = reason
        self._hear(lambda one: one.nothing_judged(reason, movements))

    def _hear(self, say: Callable[[Listener], None]) -> None:
        for place, listener in enumerate(self._listeners):
            failure = ""
            try:
                say(listener)
            except Exception as error:  # noqa: BLE001 - the bulkhead around a listener
                failure = repr(error)
                if self._failures.get(place) != failure:
                    _log.exception("a listener failed to take in a turn", listener=type(listener).__name__)
            self._failures[place] = failure

    def _held_by(self) -> str:
        """Which other monitor judges. Where none does, this one does since before it was asked."""
        seen = self._standstills.count() if self._standstills is not None else 0
        other = self._cycle.held_by()
        if not other and self._standstills is not None:
            self._standstills.settle(seen)
        return other

    def stop(self) -> None:
        """End the loop soon. May be called from a signal handler."""
        self._stopping.set()

    def _tell(self, name: DatastreamName, finding: Finding) -> None:
        verdict = finding.verdict
        burning = [budget.sentence for budget in verdict.budgets if budget.firing]
        rules = ",".join(burn.rule.text for budget in verdict.budgets for burn in budget.firing)
        cause = finding.diagnosis
        news = (f"{verdict.standing} {rules} {cause.cause if cause else ''}", finding.action)
        standing, action = self._told.get(name, ("", ""))
        # What refuses a rebalance says so at each turn, in the same words.
        if news[0] != standing or (finding.action and finding.action != action):
            _log.info(
                verdict.sentence,
                datastream=name,
                standing=verdict.standing.value,
                action=finding.action,
                **({"burning": burning} if burning else {}),
                **({"cause": cause.sentence} if cause else {}),
            )
        self._told[name] = news
