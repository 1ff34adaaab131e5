"""Watches load providers on the leader, to report outages before the next plan.

Every few seconds, the leader requests the age of the loads from each provider.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from mirror.coordination.stores.events import loads_event
from mirror.errors import LoadUnavailable, TimedOut
from mirror.instance.background_calls import CallPending
from mirror.instance.health import Health
from mirror.instance.loads.observations import NewestLoads
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.load import Freshness, LoadSource, age_text
from mirror.model.metrics import PlacementEvent
from mirror.model.reasons import reason_of
from mirror.ports import Clock

_log = get_logger(__name__)

ASKED_EVERY_SECONDS: Final = 5.0
SLOW_SECONDS: Final = 2.0
"""Response time in seconds above which a load provider is reported as slow."""
SILENT_AFTER_SECONDS: Final = 5.0
"""Seconds without a response after which a load provider counts as unavailable."""

AskFreshness = Callable[[ClusterRef], Freshness]
"""Callback that returns the age of a cluster's loads without waiting.

Raises CallPending while the request is pending; LoadUnavailable without measurements; errors of the provider.
"""
FreshnessOf = Callable[[LoadSource], AskFreshness | None]
"""Callback that returns the `AskFreshness` of a source, or None if unavailable."""


class LoadState(StrEnum):
    """Whether a source's loads are fresh, stale or unavailable. UNKNOWN: no load has been measured yet."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    STALE = "stale"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """State of a source's loads. `since_ms`: start of the state. `measured_at_ms`: latest measurement."""

    state: LoadState
    since_ms: int
    reason: str
    measured_at_ms: int | None = None

    @property
    def is_well(self) -> bool:
        """True unless the loads are stale or unavailable."""
        return self.state in {LoadState.KNOWN, LoadState.UNKNOWN}


def judged(answer: Freshness | Exception, before: LoadStatus | None, now_ms: int) -> LoadStatus:
    """Return the state of a source's loads after a response or error of the provider. Pure."""
    measured_ms = before.measured_at_ms if before is not None else None
    match answer:
        case Freshness(measured_at_ms=None):
            state, reason = LoadState.UNKNOWN, "no current measurements"
        case Freshness():
            assert answer.measured_at_ms is not None
            measured_ms = answer.measured_at_ms
            age_ms = now_ms - measured_ms
            state = LoadState.STALE if age_ms > answer.stale_after_ms else LoadState.KNOWN
            reason = f"the newest measurement is {age_text(age_ms)} old{_of_those_behind(answer)}"
        case LoadUnavailable():
            state = LoadState.UNKNOWN if measured_ms is None else LoadState.STALE
            reason = reason_of(answer)
        case _:
            state, reason = LoadState.UNAVAILABLE, reason_of(answer)
    since_ms = before.since_ms if before is not None and before.state is state else now_ms
    return LoadStatus(state, since_ms, reason, measured_ms)


def _of_those_behind(answer: Freshness) -> str:
    if not answer.behind:
        return ""
    behind = f"{answer.behind}" if answer.measured is None else f"{answer.behind} of {answer.measured}"
    return f"; partitions behind: {behind}; their loads are lower bounds"


class LoadWatch:
    """Watches the load providers in use. Used by the leader's thread. Any thread may read `standings`."""

    def __init__(
        self, freshness_of_source: FreshnessOf, newest: NewestLoads, clock: Clock, health: Health
    ) -> None:
        self._freshness_of_source = freshness_of_source
        self._newest = newest
        self._clock = clock
        self._health = health
        self._requested_at: dict[LoadSource, float] = {}
        self._due: dict[LoadSource, float] = {}
        self._standings: Mapping[LoadSource, LoadStatus] = {}
        self._forgotten: Mapping[LoadSource, str] = {}

    @property
    def standings(self) -> Mapping[LoadSource, LoadStatus]:
        """Map each load source to its state while this instance leads."""
        return self._standings

    def check(
        self, sources: Collection[LoadSource], forgotten: Mapping[LoadSource, str], me: InstanceName
    ) -> tuple[PlacementEvent, ...]:
        """Check the load sources, report their states in health, and return state changes as events.
        `forgotten`: maps sources to errors of reading or storing their observations."""
        events = self._change_events(forgotten, me)
        found: dict[LoadSource, LoadStatus] = {}
        for source in sorted(sources):
            ask, before = self._freshness_of_source(source), self._standings.get(source)
            now = self._answered(source, before, ask) if ask is not None else None
            if now is not None:
                found[source] = now
                events += self._changes(source, before, now, me)
        for source in self._standings.keys() - found.keys():
            self._health.forget(_part(source))
        for source, standing in found.items():
            self._health.report(_part(source), standing.is_well, self._sentence(source, standing))
        self._requested_at = {source: at for source, at in self._requested_at.items() if source in sources}
        self._due = {source: at for source, at in self._due.items() if source in sources}
        self._standings = found
        return tuple(events)

    def resign(self) -> None:
        """Discard the states of all load sources after losing leadership."""
        for source in self._standings:
            self._health.forget(_part(source))
        self._standings, self._requested_at, self._due = {}, {}, {}
        self._change_events({}, InstanceName(""))

    def _change_events(self, forgotten: Mapping[LoadSource, str], me: InstanceName) -> list[PlacementEvent]:
        """Report errors of stored observations in health, and return an event for each new error."""
        for source in self._forgotten.keys() - forgotten.keys():
            self._health.forget(f"observations of {source}")
        events = []
        now_ms = self._clock.now_ms()
        for source, problem in forgotten.items():
            self._health.report(f"observations of {source}", False, problem)
            if self._forgotten.get(source) != problem:
                sentence = f"observations of {source}: {problem}"
                events.append(loads_event(me, f"{source}/observations", now_ms, sentence, now_ms))
        self._forgotten = dict(forgotten)
        return events

    def _answered(
        self, source: LoadSource, before: LoadStatus | None, ask: AskFreshness
    ) -> LoadStatus | None:
        """Return the state of a load source after its latest response, or `before` without a new response."""
        now = self._clock.monotonic()
        if now < self._due.get(source, now):
            return before
        answer: Freshness | Exception
        requested_at = self._requested_at.setdefault(source, now)
        try:
            answer = ask(source.cluster)
        except CallPending:
            if now - requested_at <= SILENT_AFTER_SECONDS:
                return before
            answer = TimedOut(f"the load provider has not responded for {now - requested_at:.0f} s")
        except Exception as error:  # noqa: BLE001 - any failure is reported, and placement continues
            answer = error
            self._done(source, now)
        else:
            self._done(source, now)
        status = judged(answer, before, self._clock.now_ms())
        if status.is_well and now - requested_at >= SLOW_SECONDS:
            took = f"the provider took {now - requested_at:.0f} s to respond"
            return replace(status, reason=f"{status.reason}; {took}")
        return status

    def _done(self, source: LoadSource, now: float) -> None:
        self._due[source] = now + ASKED_EVERY_SECONDS
        del self._requested_at[source]

    def _changes(
        self, source: LoadSource, before: LoadStatus | None, now: LoadStatus, me: InstanceName
    ) -> list[PlacementEvent]:
        was_well = before is None or before.is_well
        if was_well == now.is_well and (now.is_well or before is None or before.state is now.state):
            return []
        at_ms, sentence = self._clock.now_ms(), self._sentence(source, now)
        if not now.is_well:
            _log.warning("loads unavailable", source=str(source), state=now.state.value, reason=now.reason)
            return [loads_event(me, str(source), now.since_ms, sentence, at_ms)]
        assert before is not None
        _log.info("loads recovered", source=str(source), after=before.state.value)
        over = f"over, after {age_text(at_ms - before.since_ms)}: {sentence}"
        return [loads_event(me, str(source), before.since_ms, over, at_ms, is_over=True)]

    def _sentence(self, source: LoadSource, status: LoadStatus) -> str:
        text = f"loads of {source} are {status.state.value}"
        if status.state is LoadState.KNOWN:
            return f"{text}: {status.reason}"
        now_ms = self._clock.now_ms()
        held_ms = self._newest.measured_at_ms(source)
        held = "by count" if held_ms is None else f"by the last known loads, {age_text(now_ms - held_ms)} old"
        return f"{text} since {age_text(now_ms - status.since_ms)}, placement is {held}: {status.reason}"


def _part(source: LoadSource) -> str:
    return f"loads of {source}"
