"""Gathers current, earlier and expected loads of the groups to plan."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from mirror.bulkheads import Bulkhead
from mirror.coordination.plan_decision import FleetState, groups_to_plan
from mirror.errors import NoSamples
from mirror.instance.background_calls import LoadsPending
from mirror.instance.loads.expectation import Loads, with_expected
from mirror.instance.loads.observations import LoadMemory
from mirror.instance.loads.providers import GroupSources, LoadProviders
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadReport, LoadSource
from mirror.model.plan import Move
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicPartition
from mirror.ports import Clock

_log = get_logger(__name__)
_BY_COUNT: Final = LoadReport({}, "none", notes=("planned by count: placement.load_provider is none",))
"""Report for groups that are placed by partition count, without loads."""
_FIRST_SECONDS: Final = 5.0
"""Seconds between load requests to a source without known loads."""


class Observed(NamedTuple):
    """A load report of one load source. `at_seconds`: time of the observation (monotonic seconds)."""

    report: LoadReport
    at_seconds: float


class GatheredLoads(NamedTuple):
    """Loads of the groups to plan. `recent`: earlier observations of each group that is planned by load,
    oldest first. `awaited`: groups whose loads are pending."""

    reports: Mapping[GroupName, LoadReport]
    recent: Mapping[GroupName, tuple[Loads, ...]]
    awaited: frozenset[GroupName]


class LoadGathering:
    """Requests loads from load providers. While a provider fails, its last known loads are used.

    `refresh_seconds`: interval between requests for displayed loads; infinite disables them.
    """

    def __init__(
        self, providers: LoadProviders, memory: LoadMemory, clock: Clock, refresh_seconds: float = math.inf
    ) -> None:
        self._providers = providers
        self._memory = memory
        self._clock = clock
        self._refresh_seconds = refresh_seconds
        self._refreshed: dict[LoadSource, float] = {}

    def refresh(self, fleet: FleetState, sources: GroupSources) -> None:
        """Refresh the loads shown to users, for each source that is due. These loads are not observations.
        `LoadWatch` reports failures."""
        if math.isinf(self._refresh_seconds):
            return
        now = self._clock.monotonic()
        wanted = {sources.of[group] for group in fleet.groups}
        self._refreshed = {source: at for source, at in self._refreshed.items() if source in wanted}
        for source in sorted(wanted):
            is_known = self._memory.newest.is_known(source)
            pause = self._refresh_seconds if is_known else min(_FIRST_SECONDS, self._refresh_seconds)
            if now - self._refreshed.get(source, -math.inf) < pause:
                continue
            with suppress(LoadsPending):  # the next call gets them
                self._refresh(source, fleet, sources, now)

    def _refresh(self, source: LoadSource, fleet: FleetState, sources: GroupSources, now: float) -> None:
        """Request the loads of a source, and store them. After a failure, the last known loads remain."""
        report = None
        with Bulkhead(through=(LoadsPending,)):
            report = self._providers.of(source).loads(source.cluster, wanted_of(fleet, sources, source))
        self._refreshed[source] = now
        if report is not None:
            self._memory.newest.note(source, report, self._clock.now_ms())

    def gather(
        self, fleet: FleetState, sources: GroupSources, observed: Mapping[LoadSource, Observed]
    ) -> GatheredLoads:
        """Return the loads of the groups to plan. `observed`: observations of load sources that are due."""
        reports, awaited = self._reports(fleet, sources, observed)
        now = self._clock.monotonic()
        until = {source: at for source, (_, at) in observed.items()} if fleet.due else {}
        before: dict[LoadSource, tuple[Loads, ...]] = {
            source: self._memory.before(source, until.get(source, now))
            for source in {sources.of[group] for group in reports.keys() - sources.by_count}
        }
        recent = {group: before[sources.of[group]] for group in reports if group not in sources.by_count}
        reports, recent = self._looking_ahead(fleet, sources, reports, recent)
        for group in sources.missing.keys() & reports.keys():
            note = f"planned by the loads of the service's provider: {sources.missing[group]}"
            reports[group] = replace(reports[group], notes=(note, *reports[group].notes))
        return GatheredLoads(reports, recent, awaited)

    def ask(
        self, source: LoadSource, partitions: Sequence[TopicPartition], late: set[LoadSource]
    ) -> LoadReport:
        """Return the loads that a provider reports. If it fails, return its last known loads with their age.
        A source whose response is pending is added to `late`."""
        now_ms = self._clock.now_ms()
        try:
            report = self._providers.of(source).loads(source.cluster, partitions)
        except NoSamples as error:  # normal for a new cluster; LoadWatch reports loads that have become old
            reason = error.message
        except Exception as error:  # noqa: BLE001 - placement continues without the provider
            reason = reason_of(error)
            if isinstance(error, LoadsPending):
                late.add(source)
            else:
                _log.warning("cannot read loads", source=str(source), reason=reason)
        else:
            self._memory.newest.note(source, report, now_ms)
            return self._memory.newest.completed(source, report, now_ms)
        held = self._memory.newest.instead(source, partitions, reason, now_ms)
        return held or LoadReport({}, "none", notes=(f"planned by count: {reason}",))

    def loads_of(
        self, moves: Sequence[Move], datastreams: Sequence[Datastream]
    ) -> Mapping[tuple[GroupName, TopicPartition], float]:
        """Map each move to the last known load of its partition in bytes per second. Omits unknown loads."""
        sources = self._providers.choose(datastreams).of
        found = {}
        for move in (move for move in moves if move.group in sources):
            load = self._memory.newest.of(sources[move.group], move.partition)
            if load is not None:
                found[move.group, move.partition] = load
        return found

    def _reports(
        self, fleet: FleetState, sources: GroupSources, observed: Mapping[LoadSource, Observed]
    ) -> tuple[dict[GroupName, LoadReport], frozenset[GroupName]]:
        """Return the load report of each group, and the groups whose loads are pending."""
        requested = {request.group for request in fleet.requests}
        by_source: dict[LoadSource, LoadReport] = {}
        reports: dict[GroupName, LoadReport] = {}
        late: set[LoadSource] = set()
        for group in groups_to_plan(fleet):
            source = sources.of[group]
            if group in sources.by_count:
                reports[group] = _BY_COUNT
                continue
            if group in fleet.due and group not in requested and source in observed:
                reports[group] = observed[source].report
                continue
            if source not in by_source:
                by_source[source] = self.ask(source, wanted_of(fleet, sources, source), late)
            reports[group] = by_source[source]
        by_load = (group for group in reports if group not in sources.by_count)
        return reports, frozenset(group for group in by_load if sources.of[group] in late)

    def _looking_ahead(
        self,
        fleet: FleetState,
        sources: GroupSources,
        reports: Mapping[GroupName, LoadReport],
        recent: Mapping[GroupName, tuple[Loads, ...]],
    ) -> tuple[dict[GroupName, LoadReport], dict[GroupName, tuple[Loads, ...]]]:
        """Raise loads to the forecast of their source. Processes a report of several groups only once."""
        now_ms, found, before = self._clock.now_ms(), dict(reports), dict(recent)
        by_source: dict[LoadSource, list[GroupName]] = {}
        for group in recent:
            by_source.setdefault(sources.of[group], []).append(group)
        for source, groups in by_source.items():
            expectation = self._memory.expected.of(source)
            if expectation is None:
                continue
            planned = frozenset[TopicPartition]().union(*(partitions_of(fleet, group) for group in groups))
            done: dict[int, tuple[LoadReport, tuple[Loads, ...]]] = {}
            for group in groups:
                report = reports[group]
                if id(report) not in done:
                    done[id(report)] = with_expected(report, recent[group], expectation, now_ms, planned)
                found[group], known = done[id(report)]
                stays = () if report.is_blind else expectation.to_stay_for(group, now_ms)
                before[group] = (*stays, *known)
        return found, before


def partitions_of(fleet: FleetState, group: GroupName) -> Collection[TopicPartition]:
    """Return the mirrored partitions of a group, or its planned partitions while its source is unknown."""
    return fleet.wishes.partitions[group] or fleet.plan.planned.get(group) or ()


def wanted_of(fleet: FleetState, sources: GroupSources, source: LoadSource) -> list[TopicPartition]:
    """Return the mirrored partitions of all groups with this load source."""
    wanted = (fleet.wishes.partitions[group] for group in fleet.groups if sources.of[group] == source)
    return list(frozenset().union(*(partitions for partitions in wanted if partitions is not None)))
