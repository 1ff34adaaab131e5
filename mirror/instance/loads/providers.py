"""The load providers of a service: its own, and those that datastreams choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from mirror.errors import ConfigError, legible
from mirror.instance.loads.watch import AskFreshness
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSource
from mirror.model.sizing.knobs import NO_LOADS, joint_provider
from mirror.ports import Clock, LoadProvider

_log = structlog.get_logger(__name__)
AGAIN_SECONDS: Final = 60.0
"""After which a provider that could not be made is tried again."""


@dataclass(frozen=True)
class ProviderInUse:
    """A load provider, and whom to ask how new its loads are; None: nobody knows."""

    provider: LoadProvider
    freshness: AskFreshness | None = None


@dataclass(frozen=True)
class GroupSources:
    """`of`: of which loads each group is planned; of those in `by_count`: could be. `missing`: why the
    service's provider counts for a group in place of the one that it chooses."""

    of: Mapping[GroupName, LoadSource] = field(default_factory=dict)
    by_count: frozenset[GroupName] = frozenset()
    missing: Mapping[GroupName, str] = field(default_factory=dict)


def chosen_sources(datastreams: Iterable[Datastream], service: str) -> GroupSources:
    """What datastreams choose, whether it can be had or not. `service`: the name of the service's provider;
    to choose it by name is to choose nothing. Pure."""
    groups: dict[GroupName, list[Datastream]] = {}
    for one in datastreams:
        groups.setdefault(one.group, []).append(one)
    found: dict[GroupName, LoadSource] = {}
    by_count = set()
    for group, members in groups.items():
        chosen = joint_provider(one.placement for one in members)
        if chosen == NO_LOADS:
            by_count.add(group)
        provider = chosen if chosen and chosen not in (NO_LOADS, service) else ""
        found[group] = LoadSource(members[0].source, provider)
    return GroupSources(found, frozenset(by_count))


class LoadProviders:
    """`service`: for those who choose nothing, or choose it by its `name`. `make`: the provider of another
    name; raises ConfigError. One that was made is kept; one that cannot be made is tried again after a while,
    and the service's counts in its place: the log says so once, the plan each time. Used by one thread."""

    def __init__(
        self, service: ProviderInUse, name: str, make: Callable[[str], ProviderInUse], clock: Clock
    ) -> None:
        self._service = service
        self._name = name
        self._make = make
        self._clock = clock
        self._made: dict[str, ProviderInUse] = {}
        self._missing: dict[str, tuple[float, str]] = {}
        self._chosen: tuple[Sequence[Datastream], GroupSources] = ((), GroupSources())

    def choose(self, datastreams: Sequence[Datastream]) -> GroupSources:
        """Of which loads groups are planned now."""
        if self._chosen[0] is not datastreams:
            self._chosen = datastreams, chosen_sources(datastreams, self._name)
        _, chosen = self._chosen
        names = {one.provider for one in chosen.of.values() if one.provider}
        failed = {name: why for name in sorted(names) if (why := self._problem(name))}
        if not failed:
            return chosen
        missing = {group: failed[one.provider] for group, one in chosen.of.items() if one.provider in failed}
        instead = {group: LoadSource(chosen.of[group].cluster) for group in missing}
        return GroupSources({**chosen.of, **instead}, chosen.by_count, missing)

    def of(self, source: LoadSource) -> LoadProvider:
        """The provider of a source that `choose` has given."""
        return self._in_use(source).provider

    def freshness_of(self, source: LoadSource) -> AskFreshness | None:
        """Whom to ask how new its loads are; None: nobody knows."""
        return self._in_use(source).freshness

    def _in_use(self, source: LoadSource) -> ProviderInUse:
        return self._made[source.provider] if source.provider else self._service

    def _problem(self, name: str) -> str:
        """Why it cannot be made; empty: it is there."""
        if name in self._made:
            return ""
        now = self._clock.monotonic()
        since, before = self._missing.get(name, (None, ""))
        if since is not None and now < since + AGAIN_SECONDS:
            return before
        try:
            self._made[name] = self._make(name)
        except ConfigError as error:
            reason = legible(str(error))
            if reason != before:
                _log.warning("the service's load provider is used", chosen=name, reason=reason)
            self._missing[name] = now, reason
            return reason
        self._missing.pop(name, None)
        return ""
