"""Selects load providers: the default provider of the service, and those that datastreams choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror.errors import ConfigError
from mirror.instance.loads.watch import AskFreshness
from mirror.loggers import get_logger
from mirror.model.capacity.knobs import NO_LOADS, joint_provider
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSource
from mirror.model.reasons import legible
from mirror.ports import Clock, LoadProvider

_log = get_logger(__name__)
AGAIN_SECONDS: Final = 60.0
"""Seconds between attempts to create a load provider."""


@dataclass(frozen=True)
class ProviderInUse:
    """A load provider in use. `freshness`: reports the age of its loads; None if unsupported."""

    provider: LoadProvider
    freshness: AskFreshness | None = None


@dataclass(frozen=True)
class GroupSources:
    """Load source of each group.

    `of`: load source for planning. `by_count`: groups that are planned by partition count, whose `of` is not
    used. `missing`: reason why a group uses the default provider instead of its chosen provider.
    """

    of: Mapping[GroupName, LoadSource] = field(default_factory=dict)
    by_count: frozenset[GroupName] = frozenset()
    missing: Mapping[GroupName, str] = field(default_factory=dict)


def chosen_sources(datastreams: Iterable[Datastream], service: str) -> GroupSources:
    """Return the load source that each group's datastreams choose, even if unavailable. Pure. `service`: name
    of the default provider. A datastream that names the default provider makes no choice."""
    groups: dict[GroupName, list[Datastream]] = {}
    for datastream in datastreams:
        groups.setdefault(datastream.group, []).append(datastream)
    found: dict[GroupName, LoadSource] = {}
    by_count = set()
    for group, members in groups.items():
        chosen = joint_provider(member.placement for member in members)
        if chosen == NO_LOADS:
            by_count.add(group)
        provider = chosen if chosen and chosen not in (NO_LOADS, service) else ""
        found[group] = LoadSource(members[0].source, provider)
    return GroupSources(found, frozenset(by_count))


class LoadProviders:
    """Creates and selects load providers. Used by one thread.

    `service`: default provider. `make`: creates the provider with a given name, or raises ConfigError. After
    a failure, the default provider is used, and the creation is retried later. The failure is logged once,
    and shown as a reason in every plan.
    """

    def __init__(
        self, service: ProviderInUse, name: str, make: Callable[[str], ProviderInUse], clock: Clock
    ) -> None:
        self._service = service
        self._name = name
        self._make = make
        self._clock = clock
        self._created: dict[str, ProviderInUse] = {}
        self._missing: dict[str, tuple[float, str]] = {}
        self._chosen: tuple[Sequence[Datastream], GroupSources] = ((), GroupSources())

    def choose(self, datastreams: Sequence[Datastream]) -> GroupSources:
        """Return the load source of each group. Replaces an unavailable choice by the default provider."""
        if self._chosen[0] is not datastreams:
            self._chosen = datastreams, chosen_sources(datastreams, self._name)
        _, chosen = self._chosen
        names = {source.provider for source in chosen.of.values() if source.provider}
        failed = {name: why for name in sorted(names) if (why := self._problem(name))}
        if not failed:
            return chosen
        missing = {
            group: failed[source.provider] for group, source in chosen.of.items() if source.provider in failed
        }
        instead = {group: LoadSource(chosen.of[group].cluster) for group in missing}
        return GroupSources({**chosen.of, **instead}, chosen.by_count, missing)

    def of(self, source: LoadSource) -> LoadProvider:
        """Return the provider of a load source. `source`: a value that `choose` returned."""
        return self._in_use(source).provider

    def freshness_of(self, source: LoadSource) -> AskFreshness | None:
        """Return the object that reports the age of a source's loads, or None."""
        return self._in_use(source).freshness

    def _in_use(self, source: LoadSource) -> ProviderInUse:
        return self._created[source.provider] if source.provider else self._service

    def _problem(self, name: str) -> str:
        """Return why a provider cannot be created, or an empty string."""
        if name in self._created:
            return ""
        now = self._clock.monotonic()
        since, before = self._missing.get(name, (None, ""))
        if since is not None and now < since + AGAIN_SECONDS:
            return before
        try:
            self._created[name] = self._make(name)
        except ConfigError as error:
            reason = legible(str(error))
            if reason != before:
                _log.warning("using the service's load provider", chosen=name, reason=reason)
            self._missing[name] = now, reason
            return reason
        self._missing.pop(name, None)
        return ""
