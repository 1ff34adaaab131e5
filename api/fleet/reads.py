"""Reads of the shared state for one answer, which is marked with their age.

While ZooKeeper answers, a read shows everything that this instance has acknowledged before, and what others
have within the moment that ZooKeeper takes to tell. While it does not, a read shows what there was, and the
answer has two headers more: `As-Of-Ms`, the moment as of which it is true (epoch milliseconds), and `Age`,
the seconds since (RFC 9111). Of several reads the oldest counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from starlette.datastructures import MutableHeaders

from api.fleet.memory import Seen, StateMemory
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
    """Used for one call, in one thread. `headers`: of its answer."""

    def __init__(self, services: Services, memory: StateMemory, headers: MutableHeaders) -> None:
        self._services = services
        self._memory = memory
        self._headers = headers
        self._as_of_ms: int | None = None

    def definitions(self) -> Definitions:
        """All definitions, those that are damaged apart."""
        return self._taken(self._memory.read(_DEFINITIONS, self._services.control.list))

    def look(self, name: DatastreamName) -> StoredDatastream | DamagedDefinition:
        """One definition, readable or not. Raises NotFound."""
        return self._taken(
            self._memory.read_part(
                _DEFINITIONS,
                name,
                lambda: self._services.control.look(name),
                lambda known: _named(known, name),
            )
        )

    def acknowledged(self, stored: StoredDatastream) -> None:
        """This has just been written: no read after it shows what was there before."""
        name, now_ms = stored.datastream.name, self._services.clock.now_ms()
        self._memory.note_part(_DEFINITIONS, name, stored, now_ms)

    def stored(self, name: DatastreamName) -> StoredDatastream:
        """One definition that can be read. Raises NotFound, DamagedState."""
        found = self.look(name)
        if isinstance(found, DamagedDefinition):
            raise found.error()
        return found

    def problems(self) -> Mapping[DatastreamName, Problem]:
        """What is wrong with which datastream."""
        return self._taken(self._memory.read(_PROBLEMS, self._services.problems.all))

    def problem(self, name: DatastreamName) -> Problem | None:
        """None: nothing is wrong with it."""
        seen: Seen[Problem | None] = self._memory.read_part(
            _PROBLEMS, name, lambda: self._services.problems.get(name), lambda known: known.get(name)
        )
        return self._taken(seen)

    def plan(self) -> Plan:
        """The one in force. Raises DamagedState."""
        return self._taken(self._memory.read("plan", self._services.plan))

    def assessments(self) -> Mapping[GroupName, Assessment]:
        """What the last planning of each group found."""
        return self._taken(self._memory.read("assessments", self._services.assessments))

    def advice(self) -> Advice | None:
        """How the leader advised to size the service last; None: not yet."""
        return self._taken(self._memory.read("advice", self._services.newest_advice))

    def events(self, limit: int) -> tuple[PlacementEvent, ...]:
        """The newest, the newest publication first."""
        newest = self._services.events.newest
        if limit == _EVENTS_KEPT:
            return self._taken(self._memory.read(_EVENTS, lambda: newest(limit)))
        return self._taken(
            self._memory.read_part(_EVENTS, str(limit), lambda: newest(limit), lambda known: known[:limit])
        )

    def operations(self) -> tuple[Operation, ...]:
        """Long work under way, or over for at most a day; the newest first."""
        return self._taken(self._memory.read(_OPERATIONS, self._services.operations.all))

    def operation(self, identity: str) -> Operation:
        """One of them. Raises NotFound."""
        ask = self._services.operations.get
        seen: Seen[Operation] = self._memory.read_part(
            _OPERATIONS,
            identity,
            lambda: ask(identity),
            lambda known: {one.identity: one for one in known}[identity],
        )
        return self._taken(seen)

    def names_of(self, datastream: str) -> frozenset[str]:
        """By what a datastream may be called where it is told of: what is planned is told of its group."""
        return frozenset({datastream, self.group_of(datastream)})

    def group_of(self, datastream: str) -> GroupName:
        """The group of a datastream, of which instances tell; what is none may be the name of one."""
        try:
            return self.stored(DatastreamName(datastream)).datastream.group
        except (NotFound, DamagedState):
            return GroupName(datastream)

    def live(self) -> tuple[LiveInstance, ...]:
        """Who is here, in order of arrival."""
        return self._taken(self._memory.read("instances", self._services.live))

    def refresh(self) -> None:
        """Remember what there is now, but for events, which are many: those seldom."""
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
        """Remember the newest events."""
        self.events(_EVENTS_KEPT)

    def _taken(self, seen: Seen[_T]) -> _T:
        if not seen.is_now and (self._as_of_ms is None or seen.as_of_ms < self._as_of_ms):
            self._as_of_ms = seen.as_of_ms
            self._headers[AS_OF] = str(seen.as_of_ms)
            self._headers[AGE] = str(max(0, self._services.clock.now_ms() - seen.as_of_ms) // 1000)
        return seen.value


def _named(known: Any, name: DatastreamName) -> StoredDatastream | DamagedDefinition:
    """Raises LookupError."""
    readable: list[StoredDatastream] = [one for one in known.readable if one.datastream.name == name]
    damaged: list[DamagedDefinition] = [one for one in known.damaged if one.name == name]
    return (readable or damaged)[0]
