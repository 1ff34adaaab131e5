"""Computes the sizing advice in three steps: tasks needed now, load forecast, and tasks needed in past hours.

The result of each step is stored at once, so that a slow or failed step does not delay the results of earlier
steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from api.services import Services
from assigner.advice.decide import AdviceTerms, FleetSize, advise
from assigner.advice.past import least_tasks, past_need
from assigner.advice.settings import AdviceSettings
from headrace.foresight.expectation import Trusted, expectation_of
from headrace.foresight.history import DAY, HOUR_MS, PartitionDetails, PastHours
from headrace.foresight.needs import WEEK, PastNeeds, Sizing
from headrace.foresight.sums import HourlySums, PastSums, SumQuery
from mirror.coordination.plan_decision import groups_of
from mirror.errors import HeadraceError, InvalidRequest
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.expectation import ExpectedLoads
from mirror.instance.loads.providers import GroupSources, chosen_sources
from mirror.loggers import get_logger
from mirror.model.capacity.advice import Advice, GroupNeed, HourNeed, PastNeed
from mirror.model.capacity.quiet_window import QuietTerms, QuietWindow, quiet_window
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSource, TaskLimits, joint_limits
from mirror.model.plan import Plan
from mirror.model.topics import TopicPartition

if TYPE_CHECKING:
    from assigner.forecast.outlook import Outlook
    from assigner.what_if.document import Fallback

_log = get_logger(__name__)
_DAY_MS = DAY * HOUR_MS
NO_PAST = "no load history: it requires the load provider pinot"
NOT_YET = "its forecast has not been computed yet"


_LATEST_MS: Final = 2 * HOUR_MS
"""Maximum age of stored advice in ms. The stored need of past hours is kept until it is recomputed."""
_SLICE_SECONDS: Final = 1.0
"""Seconds after which the computation of past hours is interrupted."""


@dataclass(frozen=True)
class History:
    """Past loads in Pinot: hourly sums of each datastream group, and loads of partitions."""

    sums: PastSums
    hours: PastHours

    def forget(self) -> None:
        """Drop the caches after losing leadership."""
        self.sums.forget()
        self.hours.forget()


@dataclass(frozen=True)
class Means:
    """Objects and settings with which sizing advice is computed.

    `past`: history for groups that are planned with loads from Pinot, or None. `provider`: name of the
    default load provider. `how`: returns the task capacity of a group and the policy of the planner.
    """

    services: Services
    store: AdviceStore
    expected: ExpectedLoads
    settings: AdviceSettings
    how: Callable[[Sequence[Datastream]], Fallback]
    past: History | None = None
    provider: str = "pinot"


@dataclass(frozen=True)
class _Groups:
    """Datastream groups with their plan, load sources and current needs of tasks."""

    members: Mapping[GroupName, Sequence[Datastream]]
    plan: Plan
    sources: GroupSources
    needs: Mapping[GroupName, GroupNeed]


@dataclass(frozen=True)
class _Member:
    """One datastream group during a computation of sizing advice.

    `sizing`: None if no partition of the group is planned. `sums`: None if unknown; `why` contains the
    reason.
    """

    need: GroupNeed
    source: LoadSource
    by_count: bool
    sizing: Sizing | None
    sums: HourlySums | None = None
    why: str = ""


@dataclass
class _Round:
    """Results of the first two steps, from which the third continues.

    `left`: groups whose past hours are not computed yet.
    """

    now_ms: int
    needs: Sequence[GroupNeed]
    members: Mapping[GroupName, _Member]
    left: list[GroupName]
    behind: list[Mapping[int, int]] = field(default_factory=list)


class SizingAdvisor:
    """Computes the sizing advice while the instance is leader. Not thread-safe."""

    def __init__(self, means: Means, needs: PastNeeds | None = None) -> None:
        self._means = means
        self._needs = needs or PastNeeds()
        self._round: _Round | None = None

    def run(self) -> Advice:
        """Compute the sizing advice in all three steps. Raises HeadraceError if the shared state cannot be
        read or written.

        Problems with the history are reported in the advice.
        """
        self.present()
        advice = self.forecast()
        while self.has_past_left:
            advice = self.past() or advice
        return advice

    def present(self) -> Advice:
        """Compute and store how many tasks each group needs now, without reading past loads.

        Stored advice may come from a former leader. A forecast is kept for hours that have not passed, and
        the need of past hours if the advice is recent. Raises HeadraceError.
        """
        self._round = None
        now_ms = self._clock_ms()
        return self._stored(self._present(now_ms), now_ms, None)

    def forecast(self) -> Advice:
        """Forecast the loads, pass them to planning as expected loads, and store the advice. Raises the
        errors of `run`."""
        now_ms = self._clock_ms()
        members = self._members(now_ms)
        details = {source: self._details(source, members, now_ms) for source in _sources(members)}
        needs: list[GroupNeed] = []
        ahead: dict[LoadSource, dict[GroupName, tuple[Outlook | None, str]]] = {
            detail: {} for detail in details
        }
        quiet: dict[GroupName, QuietWindow] = {}
        for group, member in members.items():
            need = member.need
            if member.by_count:
                need = replace(need, now=_newest_need(member) or need.tasks, why="")
            outlook, need = self._coming(need, member, details[member.source])
            needs.append(need)
            ahead[member.source][group] = self._trusted(outlook), need.why or _distrust(need)
            if member.sums is not None and (window := self._quiet(member.sums.totals())) is not None:
                quiet[group] = window
        self._expect(ahead, now_ms)
        self._means.expected.put_quiet(quiet)
        self._needs.keep(members)
        if all(member.sums is None for member in members.values()):
            self._round = None
            return self._stored(needs, now_ms, [])
        left = [group for group, member in members.items() if member.sizing is not None]
        self._round = _Round(now_ms, needs, members, left)
        return self._stored(needs, now_ms, None)

    @property
    def has_past_left(self) -> bool:
        """True if the tasks that past hours needed were not stored since the last forecast."""
        return self._round is not None

    def past(self) -> Advice | None:
        """Compute how many tasks past hours required, for at most a second.

        When all hours are complete, stores and returns the advice. Until then, returns None.

        If the call raises HeadraceError, the results of completed groups are kept.
        """
        found = self._round
        if found is None:
            return None
        monotonic = self._means.services.clock.monotonic
        until = monotonic() + _SLICE_SECONDS
        while found.left:
            member = found.members[found.left[-1]]
            needed: Mapping[int, int] = {}
            if member.sizing is not None and member.sums is not None:
                needed = self._needs.of(member.need.group, member.sizing, member.sums, found.now_ms)
            found.left.pop()
            found.behind.append(needed)
            if found.left and monotonic() >= until:
                return None
        self._round = None
        return self._stored(found.needs, found.now_ms, found.behind)

    def abandon_past(self) -> Advice | None:
        """Store the advice without the tasks that past hours needed, after a failure. Raises
        HeadraceError."""
        found, self._round = self._round, None
        return None if found is None else self._stored(found.needs, found.now_ms, [])

    def shape(self) -> object:
        """Return a value that changes when the sizing advice becomes outdated. Raises HeadraceError.

        The value consists of the number of tasks by group, and the names of the instances that are not
        leaving.
        """
        services = self._means.services
        plan = services.plan()
        tasks = {group: len(plan.of_group(group)) for group in groups_of(services.status.datastreams)}
        return tasks, frozenset(instance.name for instance in services.live() if not instance.is_leaving)

    def forget(self) -> None:
        """Drop all state after losing leadership."""
        self._means.expected.forget()
        self._needs.keep(())
        self._round = None
        if self._means.past is not None:
            self._means.past.forget()

    def _clock_ms(self) -> int:
        return self._means.services.clock.now_ms()

    def _stored(
        self, needs: Sequence[GroupNeed], now_ms: int, behind: Sequence[Mapping[int, int]] | None
    ) -> Advice:
        """Store and return the sizing advice.

        `behind`: number of tasks required in past hours, by group; None if not computed yet.
        """
        settings, services = self._means.settings, self._means.services
        fleet = FleetSize(
            sum(not instance.is_leaving for instance in services.live()), settings.tasks_per_instance
        )
        terms = AdviceTerms(settings.imminent_hours, settings.shrink_after_hours)
        before = self._means.store.read()
        advice = advise(needs, fleet, terms, before, now_ms)
        if behind is not None:
            day, week = (_past_need(behind, advice.tasks, now_ms, hours) for hours in (DAY, WEEK))
            advice = replace(advice, past_day=day, past_week=week)
        elif before is not None and abs(now_ms - before.computed_ms) < _LATEST_MS and advice.tasks:
            advice = replace(advice, past_day=before.past_day, past_week=before.past_week)
        self._means.store.put(advice)
        return advice

    def _groups(self, now_ms: int) -> _Groups:
        """Return the current datastream groups with their plan, sources and needs."""
        services = self._means.services
        members, plan, assessments = (
            groups_of(services.status.datastreams),
            services.plan(),
            services.assessments(),
        )
        sources = chosen_sources(chain.from_iterable(members.values()), self._means.provider)
        needs = {group: _present_need(group, plan, assessments.get(group), now_ms) for group in members}
        return _Groups(members, plan, sources, needs)

    def _present(self, now_ms: int) -> list[GroupNeed]:
        """Return the tasks that each group needs now, with the stored forecast hours that have not passed."""
        groups, stored = self._groups(now_ms), self._means.store.read()
        before = {known.group: known for known in stored.groups} if stored else {}
        found: list[GroupNeed] = []
        for group in groups.members:
            need, known = groups.needs[group], before.get(group)
            if group in groups.sources.by_count:
                need = replace(need, now=known.now if known and known.now else need.tasks, why="")
            found.append(_with_forecast(need, known, now_ms))
        return found

    def _members(self, now_ms: int) -> dict[GroupName, _Member]:
        """Map each datastream group to its inputs, including past load sums."""
        groups = self._groups(now_ms)
        sources = groups.sources
        if self._means.past is not None:
            self._means.past.sums.begin(groups.members)
        found: dict[GroupName, _Member] = {}
        for group, members in groups.members.items():
            planned = groups.plan.planned.get(group, frozenset())
            sizing = self._sizing(members, planned) if planned else None
            member = _Member(groups.needs[group], sources.of[group], group in sources.by_count, sizing)
            found[group] = self._summed(member, now_ms)
        return found

    def _summed(self, member: _Member, now_ms: int) -> _Member:
        """Add to a group its past load sums, or the reason why they are unknown."""
        history = self._history(member.source)
        if history is None:
            return replace(member, why=NO_PAST)
        if member.sizing is None:
            return replace(member, why="none of its partitions is planned")
        topics = frozenset(partition.topic for partition in member.sizing.planned)
        query = SumQuery(topics, member.sizing.how.capacity)
        try:
            sums = history.sums.of(member.need.group, member.source.cluster, query, now_ms)
        except HeadraceError as error:
            _log.warning("cannot read load history", group=member.need.group, reason=error.message)
            return replace(member, why=f"cannot read load history from Pinot: {error.message}")
        why = "" if sums.newest_ms is not None else "Pinot has no loads of past hours"
        return replace(member, sums=sums if not why else None, why=why)

    def _history(self, source: LoadSource) -> History | None:
        return self._means.past if (source.provider or self._means.provider) == "pinot" else None

    def _details(
        self, source: LoadSource, members: Mapping[GroupName, _Member], now_ms: int
    ) -> PartitionDetails:
        """Return the past loads from which the share of each partition in the forecast is derived."""
        history = self._history(source)
        summed = [
            member for member in members.values() if member.source == source and member.sums is not None
        ]
        known = {hour for member in summed if member.sums is not None for hour in member.sums.totals()}
        if history is None or not known:
            return PartitionDetails()
        from assigner.forecast.outlook import hours_of_shapes

        last = max(known)
        wanted = hours_of_shapes(last, self._means.settings.hours_ahead)
        partitions = sum(len(member.sizing.planned) for member in summed if member.sizing is not None)
        try:
            if history.hours.has_room(partitions, len(wanted)):
                return PartitionDetails(known, history.hours.of(source.cluster, wanted, now_ms))
            return PartitionDetails(known, {}, history.hours.mean_of(source.cluster, last + HOUR_MS))
        except HeadraceError as error:
            _log.warning("cannot read loads of partitions", cluster=source.cluster, reason=error.message)
            return PartitionDetails(why=f"cannot read load history from Pinot: {error.message}")

    def _coming(
        self, need: GroupNeed, member: _Member, details: PartitionDetails
    ) -> tuple[Outlook | None, GroupNeed]:
        """Return the load forecast of a group, and its needs including the needs of the forecast hours.

        Without a forecast, returns None, and the need with the reason.
        """
        why = member.why or details.why
        if why or member.sizing is None or member.sums is None:
            return None, replace(need, why=need.why or why)
        from assigner.forecast.outlook import outlook_of_totals
        from assigner.what_if.ahead import quick_hours

        settings, sizing = self._means.settings, member.sizing
        past = details.of(sizing.planned)
        if not past.places:
            return None, replace(need, why=need.why or "Pinot has no loads of its partitions in the last day")
        totals = member.sums.totals()
        first = min(totals)
        totals = {hour: totals.get(hour, 0.0) for hour in sorted(details.known) if hour >= first}
        try:
            found = outlook_of_totals(totals, past, settings.hours_ahead, settings.certainty)
            hours = quick_hours(found, sizing.limits, sizing.how)
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
        """Return the inputs that determine the task count of a group, except limits on the number of
        tasks."""
        limits = joint_limits(member.limits for member in members)
        free = TaskLimits(max_partitions_per_task=limits.max_partitions_per_task)
        return Sizing(planned, free, self._means.how(members))

    def _quiet(self, totals: Mapping[int, float]) -> QuietWindow | None:
        """Return the hours of the day with little load, from past loads; None if there are none."""
        settings = self._means.settings
        return quiet_window(totals, QuietTerms(settings.quiet_hours, settings.quiet_contrast))

    def _trusted(self, found: Outlook | None) -> Outlook | None:
        """Return the load forecast; None if past forecasts were too inaccurate to influence plans."""
        if found is None or not found.grade.error <= self._means.settings.largest_error:
            return None
        return found

    def _expect(self, ahead: Mapping[LoadSource, Trusted], now_ms: int) -> None:
        """Make the upper bounds of the load forecasts available to planning."""
        for source, found in ahead.items():
            if self._history(source) is not None:
                self._means.expected.put(source, expectation_of(found, self._means.settings, now_ms))


def _sources(members: Mapping[GroupName, _Member]) -> set[LoadSource]:
    return {member.source for member in members.values()}


def _newest_need(member: _Member) -> int | None:
    """Return the lower bound on the tasks that the latest known hour required; None if unknown."""
    if member.sums is None or member.sizing is None or member.sums.newest_ms is None:
        return None
    newest = member.sums.get(member.sums.newest_ms)
    return None if newest is None else least_tasks(newest, member.sizing.terms)


def _with_forecast(need: GroupNeed, before: GroupNeed | None, now_ms: int) -> GroupNeed:
    """Add to a group's need the hours of an earlier forecast that have not passed."""
    coming = tuple(hour for hour in before.coming if hour.hour_ms + HOUR_MS > now_ms) if before else ()
    if before is None or not coming:
        return replace(need, why=need.why or NOT_YET)
    return replace(need, coming=coming, tried=before.tried, covered=before.covered, error=before.error)


def _present_need(group: GroupName, plan: Plan, found: Assessment | None, now_ms: int) -> GroupNeed:
    """Return how many tasks a group needs now.

    The number is known only if the last plan of the group is recent and used measured loads.
    """
    tasks = len(plan.of_group(group))
    if found is None:
        return GroupNeed(group, tasks, None, why="it has not been planned yet")
    if found.loads_measured_at_ms is None:
        return GroupNeed(group, tasks, None, why="none of its loads has been measured")
    if now_ms - found.planned_ms > _DAY_MS:
        return GroupNeed(group, tasks, None, why="its last plan is more than a day old")
    return GroupNeed(group, tasks, found.required_tasks)


def _past_need(behind: Sequence[Mapping[int, int]], held: int, now_ms: int, hours: int) -> PastNeed | None:
    """Return how many tasks the last `hours` complete hours required; None if unknown."""
    return past_need(behind, held, now_ms // HOUR_MS * HOUR_MS - hours * HOUR_MS)


def _distrust(need: GroupNeed) -> str:
    if need.error is None:
        return "the accuracy of its forecasts is unknown"
    return f"past forecasts had a median error of {need.error:.0%}"
