"""Runs evaluations: reads the measurements of each datastream, evaluates them, acts and reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Final, Protocol

from mirror.bulkheads import Bulkhead
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import reason_of
from mirror.ports import Clock
from monitor.causes.evidence import Evidence
from monitor.causes.inquiry import NO_ANSWER, Inquiry, InquiryResult
from monitor.evaluation import Evaluation, EvaluationListener
from monitor.incidents import Incident, IncidentPolicy, IncidentStep, advance, closes_in_seconds
from monitor.latency import LatencyVerdict, ObjectiveStatus, ObjectiveSubject
from monitor.movement.summary import NOTHING_KNOWN, FleetMovement
from monitor.objectives.alone import SourcesAlone
from monitor.objectives.budgets import ALL, QUERIES_PER_EVALUATION, Budgets
from monitor.objectives.late_reader import LateTimes
from monitor.objectives.late_times import Lateness
from monitor.objectives.verdicts import judge_all, least_objective_ms, windows_of
from monitor.ports import Measurements, Service
from monitor.rebalances import Rebalancing, RequestOutcome, RequestResult

_log = get_logger(__name__)
_LONGEST_REST_SECONDS: Final = 15.0


class MonitorCycle:
    """Evaluates all datastreams. It keeps only incidents between evaluations, and reads other data each
    time."""

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
        self._failure: HeadraceError | None = None
        """Error of the last failed read of measurements.

        After a failed read, measurements are not read again for as long as the read took, at most 15 s. Until
        the next read, the monitor reports only the states of partitions.
        """
        self._retries_at = 0.0
        self._late_times = LateTimes(measurements, window_seconds)
        self._alone = SourcesAlone()
        self._inquiry = Inquiry()
        self._rebalancing = Rebalancing(service, policy.acting, clock)

    @property
    def remark(self) -> str:
        """Reason why measurements come from the fallback source; empty if they do not."""
        return self._measurements.remark

    def judge_only(self) -> Mapping[DatastreamName, LatencyVerdict]:
        """Return the verdict on each datastream, and the cause of each breach, without acting on them. Raises
        HeadraceError."""
        subjects = self._service.subjects()
        found = self._with_budgets(self._judged(subjects), subjects, ALL)
        late = [name for name, verdict in found.items() if verdict.standing is ObjectiveStatus.BREACHED]
        self._inquiry.begin(late, len(late))
        causes = {name: self._ask(name, subjects[name], found[name]).sentence for name in late}
        return {name: replace(verdict, cause=causes.get(name, "")) for name, verdict in found.items()}

    def is_judged_elsewhere(self) -> bool:
        """Return whether an instance runs its own monitor, so that this one must not act. Raises
        Unreachable."""
        return self._service.has_own_monitor()

    def held_by(self) -> str:
        """Return the name of another monitor that has the monitor lease; empty if none has. Raises
        Unreachable, HeadraceError."""
        held = self._service.hold()
        self._rebalancing.note(held.record)
        return held.other

    def release(self) -> None:
        """Release the monitor lease, so that another monitor can take over at once."""
        try:
            self._service.release()
        except HeadraceError as error:
            _log.warning("lease not released, another monitor must wait until it expires", reason=str(error))

    def movements(self) -> FleetMovement:
        """Return the partitions that are not OK; unknown if the service does not respond."""
        try:
            return self._service.movements()
        except HeadraceError as error:
            _log.warning("partition states unknown", reason=str(error))
            return NOTHING_KNOWN

    def restore(self, incidents: Mapping[DatastreamName, Incident]) -> None:
        """Continue with the incidents of a previous monitor.

        Datastreams with an open incident in this monitor are excluded.
        """
        for name, incident in incidents.items():
            if not self._incidents.get(name, Incident()).is_open:
                self._incidents[name] = incident

    def evaluate(self) -> Mapping[DatastreamName, Evaluation]:
        """Evaluate all datastreams once. Raises HeadraceError if the service or the measurements cannot be
        read."""
        subjects = self._service.subjects()
        if not subjects:
            self._incidents = {}
            return {}  # without reading measurements
        findings = {}
        self._rebalancing.begin()
        judged = self._with_budgets(self._judged(subjects), subjects, QUERIES_PER_EVALUATION)
        late = self._late_times.read(subjects, judged, self._clock.now_ms())
        late_first = self._inquiry.begin(
            [name for name in judged if self._incidents.get(name, Incident()).breaches]
        )
        for name in dict.fromkeys([*late_first, *judged]):
            findings[name] = self._act(name, subjects[name], judged[name], late.get(name))
            self._incidents[name] = findings[name].incident
        self._incidents = {name: incident for name, incident in self._incidents.items() if name in subjects}
        return {name: findings[name] for name in judged}

    def _judged(
        self, subjects: Mapping[DatastreamName, ObjectiveSubject]
    ) -> dict[DatastreamName, LatencyVerdict]:
        if self._failure is not None and self._clock.monotonic() < self._retries_at:
            raise self._failure
        began = self._clock.monotonic()
        try:
            found = self._measured(subjects)
        except HeadraceError as error:
            now = self._clock.monotonic()
            self._failure, self._retries_at = error, now + min(now - began, _LONGEST_REST_SECONDS)
            raise
        self._failure = None
        return found

    def _measured(
        self, subjects: Mapping[DatastreamName, ObjectiveSubject]
    ) -> dict[DatastreamName, LatencyVerdict]:
        windows = windows_of(subjects.values(), self._window)
        # Longest window first, so that the metrics topic need not be read again from further back.
        least_ms = least_objective_ms(subjects.values())
        now_ms = self._clock.now_ms()
        self._alone.update(subjects.values(), now_ms)
        seen = {
            seconds: self._measurements.observe(
                seconds, least_ms, self._alone.since(now_ms - int(seconds * 1_000))
            )
            for seconds in sorted(windows, reverse=True)
        }
        return {name: judge_all(subject, seen, self._window) for name, subject in sorted(subjects.items())}

    def _with_budgets(
        self,
        verdicts: dict[DatastreamName, LatencyVerdict],
        subjects: Mapping[DatastreamName, ObjectiveSubject],
        most_questions: int,
    ) -> dict[DatastreamName, LatencyVerdict]:
        if self._budgets is None:
            return verdicts
        found = self._budgets.judge(subjects, most_questions, self._alone)
        return {name: verdict.with_budgets(found[name]) for name, verdict in verdicts.items()}

    def _act(
        self,
        name: DatastreamName,
        subject: ObjectiveSubject,
        verdict: LatencyVerdict,
        lateness: Lateness | None,
    ) -> Evaluation:
        before = self._incidents.get(name, Incident())
        incident, steps = advance(before, verdict, self._policy, self._clock.monotonic())
        cause = self._cause(name, subject, verdict, incident, lateness)
        actions, worth, decision = [], None, ""
        for step in steps:
            with Bulkhead() as acting:
                if step is IncidentStep.HELP:
                    opened_at = incident.opened_at or self._clock.monotonic()
                    helped = self._help(name, subject, verdict, cause, opened_at)
                    cause_text = cause.sentence if helped.states_cause else ""
                    actions.append("; ".join(filter(None, (cause_text, helped.sentence))))
                    worth, decision = helped.worth, helped.sentence
                    if helped.done is RequestOutcome.NOT_NOW:
                        incident = replace(incident, helped_at=before.helped_at)  # retry next time
                else:
                    actions.append(self._take(step, name, verdict))
            if (error := acting.failure) is not None:
                reason, trace = reason_of(error), None if isinstance(error, HeadraceError) else error
                _log.error("rebalance request failed", datastream=name, reason=reason, exc_info=trace)
                decision = f"could not request a rebalance: {reason}"
                actions.append(decision)
                incident = replace(incident, helped_at=before.helped_at)  # retry next time
        found = cause.diagnosis
        if found is not None and cause.is_news and not found.placement_can_help:
            actions.append(found.sentence)
        action = "; ".join(filter(None, actions))
        closes_in = closes_in_seconds(incident, self._policy, self._clock.monotonic())
        cluster, has_acted = subject.source.cluster, worth is not None
        return Evaluation(
            verdict,
            incident,
            action,
            cluster,
            found,
            worth,
            subject,
            decision,
            has_acted,
            closes_in,
            lateness,
        )

    def _cause(
        self,
        name: DatastreamName,
        subject: ObjectiveSubject,
        verdict: LatencyVerdict,
        incident: Incident,
        lateness: Lateness | None,
    ) -> InquiryResult:
        if verdict.standing is not ObjectiveStatus.BREACHED or not incident.is_open:
            return NO_ANSWER
        return self._ask(name, subject, verdict, lateness)

    def _ask(
        self,
        name: DatastreamName,
        subject: ObjectiveSubject,
        verdict: LatencyVerdict,
        lateness: Lateness | None = None,
    ) -> InquiryResult:
        known = () if lateness is None else lateness.intervals
        # A new monitor reads further back than its verdict, which an earlier fault does not explain.
        since_ms = self._clock.now_ms() - round(max(windows_of((subject,), self._window)) * 1000)
        late = tuple(interval for interval in known if interval[1] >= since_ms) or known

        def ask() -> Evidence:
            return replace(self._service.evidence(subject), late=late)

        return self._inquiry.check(name, ask, verdict.limit_ms, self._clock.monotonic())

    def _help(
        self,
        name: DatastreamName,
        subject: ObjectiveSubject,
        verdict: LatencyVerdict,
        cause: InquiryResult,
        opened_at: float,
    ) -> RequestResult:
        """Request a rebalance for a late datastream, unless placement cannot help against its cause."""
        found = cause.diagnosis
        if cause.is_pending or (found is not None and not found.placement_can_help):
            return RequestResult(RequestOutcome.NOT_NOW, "")  # react at once if the cause changes
        why = cause.sentence
        grounds, lasts = f"latency breach: {verdict.sentence}; {why}", self._clock.monotonic() - opened_at
        helped = self._rebalancing.help(name, subject.mode, grounds, lasts)
        is_said = helped.done is RequestOutcome.ACTED or found is None or cause.is_news
        return helped._replace(states_cause=is_said)

    def _take(self, step: IncidentStep, name: DatastreamName, verdict: LatencyVerdict) -> str:
        match step:
            case IncidentStep.OPEN:
                _log.warning("latency objective breached", datastream=name, reason=verdict.sentence)
                return f"incident opened: {verdict.sentence}"
            case IncidentStep.CLOSE:
                _log.info("latency objective met again", datastream=name, reason=verdict.sentence)
                return "incident closed"
            case IncidentStep.HELP | IncidentStep.NONE:
                return ""


class LoopEnd(Enum):
    """Reason why the monitor's loop ended."""

    STOPPED = "stopped"
    LEFT = "an instance runs the monitor"
    OUSTED = "another monitor is active"


class ProcessPauses(Protocol):
    """Interface to the detector of process pauses; see `monitor.alerts.deliveries.standstill`."""

    def count(self) -> int:
        """Return the number of pauses of the process so far."""
        ...

    def settle(self, count: int) -> None:
        """Record that the service has confirmed this monitor as active after `count` pauses."""
        ...


class MonitorLoop:
    """Evaluates all datastreams periodically until it is stopped.

    A failed evaluation is reported, and the next evaluation follows. If a listener fails, the other listeners
    are still called. `is_shut_out`: returns whether another monitor was active in the meantime, so that the
    state of this monitor is outdated. `standstills`: notified when this monitor is confirmed as active.
    """

    def __init__(
        self,
        cycle: MonitorCycle,
        interval_seconds: float,
        listeners: Sequence[EvaluationListener] = (),
        is_shut_out: Callable[[], bool] = lambda: False,
        standstills: ProcessPauses | None = None,
    ) -> None:
        self._cycle = cycle
        self._interval = interval_seconds
        self._listeners = listeners
        self._is_shut_out = is_shut_out
        self._standstills = standstills
        self._stopping = threading.Event()
        self._logged: dict[DatastreamName, tuple[str, str]] = {}
        self._trouble = ""
        self._failures: dict[int, str] = {}
        """Last logged error of each listener, by position in `listeners`."""

    def run(self) -> LoopEnd:
        """Run until `stop` is called or another monitor becomes active. Return the reason for the end."""
        while not self._stopping.wait(self._interval):
            movements = NOTHING_KNOWN
            try:
                if self._is_shut_out():
                    return LoopEnd.OUSTED
                if self._cycle.is_judged_elsewhere():
                    return LoopEnd.LEFT
                if other := self._held_by():
                    _log.warning("another monitor has taken over", monitor=other)
                    return LoopEnd.OUSTED
                movements = self._cycle.movements()
                self._judged(self._cycle.evaluate(), movements)
            except HeadraceError as error:
                self._judging_failed(str(error), movements)
            except Exception as error:  # noqa: BLE001 - the bulkhead around an evaluation
                self._judging_failed(f"evaluation failed: {error!r}", movements, error)
        return LoopEnd.STOPPED

    def _judged(self, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement) -> None:
        self._trouble = ""
        self._logged = {name: self._log_change(name, finding) for name, finding in findings.items()}
        self._hear(lambda listener: listener.judged(findings, movements))

    def _judging_failed(self, reason: str, movements: FleetMovement, error: Exception | None = None) -> None:
        if self._trouble != reason:
            _log.warning("cannot evaluate datastreams", reason=reason, exc_info=error)
        self._trouble = reason
        self._hear(lambda listener: listener.judging_failed(reason, movements))

    def _hear(self, notify: Callable[[EvaluationListener], None]) -> None:
        for place, listener in enumerate(self._listeners):
            with Bulkhead(partial(self._note_failure, place, listener)):
                notify(listener)
                self._failures[place] = ""

    def _note_failure(self, place: int, listener: EvaluationListener, error: Exception) -> None:
        failure = repr(error)
        if self._failures.get(place) != failure:
            _log.exception("listener failed", listener=type(listener).__name__)
        self._failures[place] = failure

    def _held_by(self) -> str:
        """Return the name of another monitor that is active; empty if this one may act.

        If this monitor is active, `standstills` is notified that it was active when the request was sent.
        """
        seen = self._standstills.count() if self._standstills is not None else 0
        other = self._cycle.held_by()
        if not other and self._standstills is not None:
            self._standstills.settle(seen)
        return other

    def stop(self) -> None:
        """Request the end of the monitor's loop. Safe to call from a signal handler."""
        self._stopping.set()

    def _log_change(self, name: DatastreamName, finding: Evaluation) -> tuple[str, str]:
        """Log the finding if it differs from the last one. Return what identifies it."""
        verdict = finding.verdict
        burning = [budget.sentence for budget in verdict.budgets if budget.firing]
        rules = ",".join(burn.rule.text for budget in verdict.budgets for burn in budget.firing)
        cause = finding.diagnosis
        news = (f"{verdict.standing} {rules} {cause.cause if cause else ''}", finding.action)
        status, action = self._logged.get(name, ("", ""))
        # Every evaluation repeats the reason against a rebalance with the same text.
        if news[0] != status or (finding.action and finding.action != action):
            _log.info(
                verdict.sentence,
                datastream=name,
                standing=verdict.standing.value,
                action=finding.action,
                **({"burning": burning} if burning else {}),
                **({"cause": cause.sentence} if cause else {}),
            )
        return news
