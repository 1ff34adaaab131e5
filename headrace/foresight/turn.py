"""Computes forecast and advice once, from the state of the service and past loads in Pinot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from api.services import Services
from assigner.advice.decide import AdviceTerms, FleetSize, advise
from assigner.advice.past import past_need
from assigner.advice.settings import AdviceSettings
from headrace.foresight.history import DAY, HOUR_MS, Hours, PastHours
from headrace.foresight.needs import WEEK, PastNeeds, Sizing
from mirror.coordination.planning import groups_of
from mirror.errors import HeadraceError, InvalidRequest
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.expectation import Expectation, ExpectedLoads
from mirror.instance.loads.providers import chosen_sources
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSource, PartitionLoad, TaskLimits, joint_limits
from mirror.model.plan import Plan
from mirror.model.sizing.advice import Advice, GroupNeed, HourNeed, PastNeed
from mirror.model.sizing.quiet_window import QuietTerms, QuietWindow, quiet_window
from mirror.model.topics import TopicPartition

if TYPE_CHECKING:
    from assigner.forecast.outlook import Outlook
    from assigner.what_if.document import Fallback

_log = structlog.get_logger(__name__)
_DAY_MS = DAY * HOUR_MS
NO_PAST = "no load history: it requires the load provider pinot"


@dataclass(frozen=True)
class Means:
    """Dependencies of a turn. `past`: history of groups that are planned by loads from Pinot, None if there
    is no history; `provider`: name of the service's load provider; `how`: capacity of a task of these
    datastreams, and policy of the planner."""

    services: Services
    store: AdviceStore
    expected: ExpectedLoads
    settings: AdviceSettings
    how: Callable[[Sequence[Datastream]], Fallback]
    past: PastHours | None = None
    provider: str = "pinot"


class ForesightTurn:
    """Computation of the leader. Not thread-safe."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._needs = PastNeeds()

    def run(self) -> Advice:
        """Forecast, pass the expected loads to planning, and store the advice. Raises HeadraceError if the
        shared state cannot be read or written; problems with a history are reported in the advice."""
        services, now_ms = self._means.services, self._means.services.clock.now_ms()
        groups, plan = groups_of(services.status.datastreams), services.plan()
        assessments = services.assessments()
        mirrored = (member for members in groups.values() for member in members)
        sources = chosen_sources(mirrored, self._means.provider)
        pasts = {source: self._past(source, now_ms) for source in set(sources.of.values())}
        needs: list[GroupNeed] = []
        behind: list[Mapping[int, int]] = []
        quiet: dict[GroupName, QuietWindow] = {}
        ahead: dict[LoadSource, dict[GroupName, tuple[Outlook | None, str]]] = {one: {} for one in pasts}
        for group, members in groups.items():
            source, planned = sources.of[group], plan.planned.get(group, frozenset())
            hours, why = pasts[source]
            past = {hour: _only(loads, planned) for hour, loads in hours.items()}
            sizing = self._sizing(members, planned) if planned and past else None
            needed = self._needs.of(group, sizing, past, now_ms) if sizing else {}
            need = _present_need(group, plan, assessments.get(group), now_ms)
            if group in sources.by_count:
                need = replace(need, now=needed[max(needed)] if needed else need.tasks, why="")
            outlook, need = self._coming(need, sizing, past, why)
            needs.append(need)
            ahead[source][group] = self._trusted(outlook), need.why or _distrust(need)
            if planned:
                behind.append(needed)
            if (window := self._quiet(past)) is not None:
                quiet[group] = window
        self._needs.keep(groups)
        self._expect(ahead, now_ms)
        self._means.expected.put_quiet(quiet)
        settings = self._means.settings
        fleet = FleetSize(sum(not one.is_leaving for one in services.live()), settings.tasks_per_instance)
        terms = AdviceTerms(settings.imminent_hours, settings.shrink_after_hours)
        advice = advise(needs, fleet, terms, self._means.store.read(), now_ms)
        day, week = (_past_need(behind, advice.tasks, now_ms, hours) for hours in (DAY, WEEK))
        advice = replace(advice, past_day=day, past_week=week)
        self._means.store.put(advice)
        return advice

    def shape(self) -> object:
        """Return a value that changes whenever advice is outdated: number of tasks by group, and the
        instances that are not leaving. Raises HeadraceError."""
        services = self._means.services
        plan = services.plan()
        tasks = {group: len(plan.of_group(group)) for group in groups_of(services.status.datastreams)}
        return tasks, frozenset(one.name for one in services.live() if not one.is_leaving)

    def forget(self) -> None:
        """Drop all state after losing leadership."""
        self._means.expected.forget()
        self._needs = PastNeeds()
        if self._means.past is not None:
            self._means.past.forget()

    def _history(self, source: LoadSource) -> PastHours | None:
        return self._means.past if (source.provider or self._means.provider) == "pinot" else None

    def _past(self, source: LoadSource, now_ms: int) -> tuple[Hours, str]:
        """Return the past hours, and the reason if there are none."""
        history = self._history(source)
        if history is None:
            return {}, NO_PAST
        try:
            return history.of(source.cluster, now_ms), ""
        except HeadraceError as error:
            _log.warning("cannot read load history", cluster=source.cluster, reason=error.message)
            return {}, f"cannot read load history from Pinot: {error.message}"

    def _coming(
        self, need: GroupNeed, sizing: Sizing | None, past: Hours, why: str
    ) -> tuple[Outlook | None, GroupNeed]:
        """Return the forecast of the group and its need, with the reason if there is no forecast. `past`:
        loads of the group alone; `sizing`: None if no partition is planned or no load is known."""
        if not why and not past:
            why = "Pinot has no loads of past hours"
        if why or sizing is None:
            return None, replace(need, why=need.why or why or "none of its partitions is planned")
        from assigner.forecast.outlook import outlook
        from assigner.what_if.ahead import coming_hours

        settings = self._means.settings
        try:
            found = outlook(past, settings.hours_ahead, settings.certainty)
            hours = coming_hours(found, 1.0, sizing.limits, sizing.how)
        except InvalidRequest as error:
            return None, replace(need, why=need.why or error.message)
        grade = found.grade
        return found, replace(
            need,
            coming=tuple(HourNeed(hour.hour_ms, hour.tasks, hour.most_tasks) for hour in hours),
            tried=grade.tried,
            covered=grade.covered if math.isfinite(grade.covered) else None,
            error=grade.error if math.isfinite(grade.error) else None,
        )

    def _sizing(self, members: Sequence[Datastream], planned: frozenset[TopicPartition]) -> Sizing:
        """Return the sizing of a group, without limits on the number of tasks: the result is the need, not
        the permitted number."""
        limits = joint_limits(member.limits for member in members)
        free = TaskLimits(max_partitions_per_task=limits.max_partitions_per_task)
        return Sizing(planned, free, self._means.how(members))

    def _quiet(self, past: Hours) -> QuietWindow | None:
        """Return the quiet window of a group, from the past loads of its planned partitions."""
        settings = self._means.settings
        totals = {hour: sum(load.bytes_per_second for load in loads.values()) for hour, loads in past.items()}
        return quiet_window(totals, QuietTerms(settings.quiet_hours, settings.quiet_contrast))

    def _trusted(self, found: Outlook | None) -> Outlook | None:
        """Return the forecast, or None if past forecasts were too inaccurate to influence plans."""
        if found is None or not found.grade.error <= self._means.settings.largest_error:
            return None
        return found

    def _expect(
        self, ahead: Mapping[LoadSource, Mapping[GroupName, tuple[Outlook | None, str]]], now_ms: int
    ) -> None:
        """Pass the high end of the forecasts to planning, for the hours that matter until the next turn has
        certainly run."""
        settings = self._means.settings
        counted = max(settings.imminent_hours, settings.consent_hours) + 1
        until = now_ms + counted * HOUR_MS + int(settings.interval_seconds * 1000)
        for source, found in ahead.items():
            hours: dict[int, dict[TopicPartition, PartitionLoad]] = {}
            totals: dict[GroupName, dict[int, float]] = {}
            for group, (one, _) in found.items():
                if one is None:
                    continue
                for number, hour_ms in enumerate(one.hours_ms):
                    if now_ms < hour_ms + HOUR_MS and hour_ms < until:
                        total = totals.setdefault(group, {})[hour_ms] = float(one.totals.high[number])
                        hours.setdefault(hour_ms, {}).update(one.loads(number, total))
            why = "" if hours else next((why for _, why in found.values() if why), "")
            if self._history(source) is not None:
                expected = Expectation(hours, settings.imminent_hours, settings.consent_hours, why, totals)
                self._means.expected.put(source, expected)


def _present_need(group: GroupName, plan: Plan, found: Assessment | None, now_ms: int) -> GroupNeed:
    """Return the current need of a group, from its last plan if that plan had measured loads."""
    tasks = len(plan.of_group(group))
    if found is None:
        return GroupNeed(group, tasks, None, why="it has not been planned yet")
    if found.loads_measured_at_ms is None:
        return GroupNeed(group, tasks, None, why="none of its loads has been measured")
    if now_ms - found.planned_ms > _DAY_MS:
        return GroupNeed(group, tasks, None, why="its last plan is more than a day old")
    return GroupNeed(group, tasks, found.required_tasks)


def _past_need(behind: Sequence[Mapping[int, int]], held: int, now_ms: int, hours: int) -> PastNeed | None:
    """Return the need in the last `hours` complete hours."""
    return past_need(behind, held, now_ms // HOUR_MS * HOUR_MS - hours * HOUR_MS)


def _distrust(need: GroupNeed) -> str:
    if need.error is None:
        return "the accuracy of its forecasts is unknown"
    return f"past forecasts had a median error of {need.error:.0%}"


def _only(
    loads: Mapping[TopicPartition, PartitionLoad], wanted: frozenset[TopicPartition]
) -> dict[TopicPartition, PartitionLoad]:
    return {partition: loads[partition] for partition in wanted if partition in loads}
