"""Reads of the shared state for one response, which reports their age.

While ZooKeeper responds, a read reflects every change that this instance has acknowledged, and changes by
others after ZooKeeper's replication delay. Otherwise a read returns the cached state, and the response has
two more headers: `As-Of-Ms`, the time of that state (epoch milliseconds), and `Age`, the seconds since then
(RFC 9111). Of several reads the oldest determines both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from starlette.datastructures import MutableHeaders

from api.fleet.memory import CachedValue, StateMemory
from api.services import Services
from mirror.coordination.operations.operation import Operation
from mirror.coordination.stores.definitions import DamagedDefinition, Definitions, StoredDatastream
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import Problem
from mirror.errors import DamagedState, NotFound
from mirror.instance.loads.assessments import Assessment
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.metrics import PlacementEvent
from mirror.model.plan import Plan
from mirror.model.sizing.advice import Advice

_T = TypeVar("_T")
AS_OF: Final = "As-Of-Ms"
AGE: Final = "Age"
_EVENTS_KEPT: Final = 1_000
_DEFINITIONS: Final = "definitions"
_PROBLEMS: Final = "problems"
_EVENTS: Final = "events"
_OPERATIONS: Final = "operations"


class Reads:
    """Reads for one request in one thread. `headers`: headers of its response."""

    def __init__(self, services: Services, memory: StateMemory, headers: MutableHeaders) -> None:
        self._services = services
        self._memory = memory
        self._headers = headers
        self._as_of_ms: int | None = None

    def definitions(self) -> Definitions:
        """Return all definitions, with damaged ones separate."""
        return self._taken(self._memory.read(_DEFINITIONS, self._services.control.list))

    def look(self, name: DatastreamName) -> StoredDatastream | DamagedDefinition:
        """Return one definition, readable or damaged. Raises NotFound."""
        return self._taken(
            self._memory.read_part(
                _DEFINITIONS,
                name,
                lambda: self._services.control.look(name),
                lambda known: _named(known, name),
            )
        )

    def acknowledged(self, stored: StoredDatastream) -> None:
        """Record a definition that was just written, so that no later read returns an older one."""
        name, now_ms = stored.datastream.name, self._services.clock.now_ms()
        self._memory.note_part(_DEFINITIONS, name, stored, now_ms)

    def stored(self, name: DatastreamName) -> StoredDatastream:
        """Return one readable definition. Raises NotFound, DamagedState."""
        found = self.look(name)
        if isinstance(found, DamagedDefinition):
            raise found.error()
        return found

    def problems(self) -> Mapping[DatastreamName, Problem]:
        """Return the problems by datastream."""
        return self._taken(self._memory.read(_PROBLEMS, self._services.problems.all))

    def problem(self, name: DatastreamName) -> Problem | None:
        """Return the problem of a datastream, or None."""
        seen: CachedValue[Problem | None] = self._memory.read_part(
            _PROBLEMS, name, lambda: self._services.problems.get(name), lambda known: known.get(name)
        )
        return self._taken(seen)

    def plan(self) -> Plan:
        """Return the current plan. Raises DamagedState."""
        return self._taken(self._memory.read("plan", self._services.plan))

    def assessments(self) -> Mapping[GroupName, Assessment]:
        """Return the result of the last planning of each group."""
        return self._taken(self._memory.read("assessments", self._services.assessments))

    def advice(self) -> Advice | None:
        """Return the leader's latest sizing advice, or None if there is none yet."""
        return self._taken(self._memory.read("advice", self._services.newest_advice))

    def events(self, limit: int) -> tuple[PlacementEvent, ...]:
        """Return the latest events, latest publication first."""
        newest = self._services.events.newest
        if limit == _EVENTS_KEPT:
            return self._taken(self._memory.read(_EVENTS, lambda: newest(limit)))
        return self._taken(
            self._memory.read_part(_EVENTS, str(limit), lambda: newest(limit), lambda known: known[:limit])
        )

    def operations(self) -> tuple[Operation, ...]:
        """Return operations in progress, or completed within the last day; newest first."""
        return self._taken(self._memory.read(_OPERATIONS, self._services.operations.all))

    def operation(self, identity: str) -> Operation:
        """Return one operation. Raises NotFound."""
        ask = self._services.operations.get
        seen: CachedValue[Operation] = self._memory.read_part(
            _OPERATIONS,
            identity,
            lambda: ask(identity),
            lambda known: {one.identity: one for one in known}[identity],
        )
        return self._taken(seen)

    def names_of(self, datastream: str) -> frozenset[str]:
        """Return the names that events about a datastream may carry: its own, and that of its group for
        planning."""
        return frozenset({datastream, self.group_of(datastream)})

    def group_of(self, datastream: str) -> GroupName:
        """Return the group of a datastream; an unknown name may be the name of a group."""
        try:
            return self.stored(DatastreamName(datastream)).datastream.group
        except (NotFound, DamagedState):
            return GroupName(datastream)

    def live(self) -> tuple[LiveInstance, ...]:
        """Return the live instances in order of arrival."""
        return self._taken(self._memory.read("instances", self._services.live))

    def refresh(self) -> None:
        """Refresh the cache, except for events, which are large and refreshed less often."""
        for read in (
            self.definitions,
            self.problems,
            self.assessments,
            self.live,
            self.plan,
            self.operations,
        ):
            read()

    def refresh_events(self) -> None:
        """Refresh the cached events."""
        self.events(_EVENTS_KEPT)

    def _taken(self, seen: CachedValue[_T]) -> _T:
        if not seen.is_now and (self._as_of_ms is None or seen.as_of_ms < self._as_of_ms):
            self._as_of_ms = seen.as_of_ms
            self._headers[AS_OF] = str(seen.as_of_ms)
            self._headers[AGE] = str(max(0, self._services.clock.now_ms() - seen.as_of_ms) // 1000)
        return seen.value


def _named(known: Any, name: DatastreamName) -> StoredDatastream | DamagedDefinition:
    """Return the definition of that name. Raises LookupError."""
    readable: list[StoredDatastream] = [one for one in known.readable if one.datastream.name == name]
    damaged: list[DamagedDefinition] = [one for one in known.damaged if one.name == name]
    return (readable or damaged)[0]
