"""Reads the shared state for responses, which report how old the state is.

While the coordination store responds, a read returns a state with all changes that this instance has
acknowledged. Changes acknowledged by other instances appear after the store's replication delay. While the
coordination store does not respond, a read returns the cached state, and the response has two more headers:
`As-Of-Ms`, the time of that state (epoch milliseconds), and `Age`, the seconds since then (RFC 9111). The
oldest of several reads determines both headers. The cache is refreshed periodically, even without requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders

from api.services import Services
from mirror.bulkheads import Bulkhead
from mirror.coordination.operation import Operation
from mirror.coordination.stores.definitions import DamagedDefinition, Definitions, StoredDatastream
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import Problem
from mirror.errors import DamagedState, HeadraceError, NotFound, SessionLost, Unreachable
from mirror.instance.loads.assessments import Assessment
from mirror.loggers import get_logger
from mirror.model.capacity.advice import Advice
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.metrics import PlacementEvent
from mirror.model.plan import Plan
from mirror.model.reasons import reason_of
from mirror.ports import Clock

_T = TypeVar("_T")
_AWAY: Final = (Unreachable, SessionLost)
_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 0.1
"""Interval at which a waiting call checks whether the coordination store still responds (seconds)."""


@dataclass(frozen=True, slots=True)
class CachedValue(Generic[_T]):
    """Value read from the shared state, and the time at which it was read.

    `as_of_ms`, `began`: start of the read in epoch ms and monotonic seconds; the value includes all earlier
    writes. `is_now`: the value was read for this request.
    """

    value: _T
    as_of_ms: int
    began: float
    is_now: bool = True


class StateMemory:
    """Cache of the latest values read from the shared state. Thread-safe. `is_answering`: function that
    returns whether the coordination store has responded to the last heartbeat, without sending a request."""

    def __init__(self, clock: Clock, is_answering: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_answering = is_answering
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "reads")
        self._last: dict[str, CachedValue[Any]] = {}
        self._parts: dict[str, dict[str, CachedValue[Any]]] = {}

    def read(self, kind: str, ask: Callable[[], _T]) -> CachedValue[_T]:
        """Return the current value or, while the coordination store is down, the cached value.

        Raises the errors of `ask`, but Unreachable and SessionLost only if no value is cached.
        """
        as_of_ms, began = self._clock.now_ms(), self._clock.monotonic()
        last = self._last.get(kind)
        try:
            value = self._answer(ask, last is not None)
        except _AWAY:
            if last is None:
                raise
            return replace(last, is_now=False)
        seen = CachedValue(value, as_of_ms, began)
        with self._lock:
            newer = self._last.get(kind)
            if newer is None or newer.began <= began:
                self._last[kind] = seen
                parts = self._parts.get(kind, {})
                self._parts[kind] = {name: part for name, part in parts.items() if part.began > began}
        return seen

    def read_part(
        self, kind: str, name: str, ask: Callable[[], _T], part: Callable[[Any], _T]
    ) -> CachedValue[_T]:
        """Return one object of a collection, such as one definition.

        Works like `read` for the collection. `part` finds the object in the cached collection, or raises
        LookupError, for example if the object is newer than the cache.
        """
        as_of_ms, began = self._clock.now_ms(), self._clock.monotonic()
        known = self._known_part(kind, name, part)
        try:
            value = self._answer(ask, known is not None)
        except _AWAY:
            if known is None:
                raise
            return replace(known, is_now=False)
        return self._note_part(kind, name, CachedValue(value, as_of_ms, began))

    def note_written(self, kind: str, name: str, value: object) -> None:
        """Cache one object of a collection that has just been written."""
        self._note_part(kind, name, CachedValue(value, self._clock.now_ms(), self._clock.monotonic()))

    def _note_part(self, kind: str, name: str, seen: CachedValue[_T]) -> CachedValue[_T]:
        with self._lock:
            parts = self._parts.setdefault(kind, {})
            if name not in parts or parts[name].began <= seen.began:
                parts[name] = seen
        return seen

    def _known_part(self, kind: str, name: str, part: Callable[[Any], _T]) -> CachedValue[_T] | None:
        last, alone = self._last.get(kind), self._parts.get(kind, {}).get(name)
        if alone is not None and (last is None or alone.began >= last.began):
            return alone
        if last is None:
            return None
        try:
            return replace(last, value=part(last.value))
        except LookupError:
            return None

    def _answer(self, ask: Callable[[], _T], has_another: bool) -> _T:
        """Return the result of a read, executed in another thread. The coordination store may take as long as
        a session timeout to respond. With a cached value, the wait ends as soon as the store is known to be
        down."""
        if has_another and not self._is_answering():
            raise _unreachable()
        answer: Future[_T] = self._threads.submit(ask)
        while not wait([answer], _LOOK_SECONDS).done:
            if has_another and not self._is_answering():
                answer.cancel()
                raise _unreachable()
        return answer.result()


def _unreachable() -> Unreachable:
    return Unreachable("the coordination store does not respond", advice="retry when it is available")


AS_OF: Final = "As-Of-Ms"
AGE: Final = "Age"
_EVENTS_KEPT: Final = 1_000
MOST_EVENTS: Final = 10_000
"""Maximum number of events in one response."""
_EVENT_SIZES: Final = (100, _EVENTS_KEPT, MOST_EVENTS)
_DEFINITIONS: Final = "definitions"
_PROBLEMS: Final = "problems"
_EVENTS: Final = "events"
_OPERATIONS: Final = "operations"


class Reads:
    """Reads the shared state for one request, in one thread. `headers`: headers of the response."""

    def __init__(self, services: Services, memory: StateMemory, headers: MutableHeaders) -> None:
        self._services = services
        self._memory = memory
        self._headers = headers
        self._oldest: float | None = None
        """Start of the oldest read with a cached value (monotonic seconds)."""

    def definitions(self) -> Definitions:
        """Return all definitions, readable and damaged ones separately."""
        return self._taken(self._memory.read(_DEFINITIONS, self._services.control.list))

    def definition(self, name: DatastreamName) -> StoredDatastream | DamagedDefinition:
        """Return the readable or damaged definition of a datastream. Raises NotFound."""
        return self._taken(
            self._memory.read_part(
                _DEFINITIONS,
                name,
                lambda: self._services.control.read(name),
                lambda known: _named(known, name),
            )
        )

    def acknowledged(self, stored: StoredDatastream) -> None:
        """Cache a definition that was just written, so that later reads do not return an older version."""
        self._memory.note_written(_DEFINITIONS, stored.datastream.name, stored)

    def stored(self, name: DatastreamName) -> StoredDatastream:
        """Return the readable definition of a datastream. Raises NotFound, DamagedState."""
        found = self.definition(name)
        if isinstance(found, DamagedDefinition):
            raise found.error()
        return found

    def problems(self) -> Mapping[DatastreamName, Problem]:
        """Map each datastream that has a problem to its current problem."""
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
        """Map each group of datastreams to the result of its latest planning run."""
        return self._taken(self._memory.read("assessments", self._services.assessments))

    def advice(self) -> Advice | None:
        """Return the leader's latest sizing advice, or None if there is none yet."""
        return self._taken(self._memory.read("advice", self._services.newest_advice))

    def events(self, limit: int) -> tuple[PlacementEvent, ...]:
        """Return the latest events, most recently published first."""
        # Few sizes, because each has its own entry in the cache.
        size, newest = next(size for size in _EVENT_SIZES if limit <= size), self._services.events.newest
        seen: CachedValue[tuple[PlacementEvent, ...]]
        if size == _EVENTS_KEPT:
            seen = self._memory.read(_EVENTS, lambda: newest(size))
        else:
            seen = self._memory.read_part(
                _EVENTS, str(size), lambda: newest(size), lambda known: known[:size]
            )
        return self._taken(seen)[:limit]

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations that are in progress or were completed within the last day, newest first."""
        return self._taken(self._memory.read(_OPERATIONS, self._services.operations.all))

    def operation(self, identity: str) -> Operation:
        """Return one operation by id. Raises NotFound."""
        ask = self._services.operations.get
        seen: CachedValue[Operation] = self._memory.read_part(
            _OPERATIONS,
            identity,
            lambda: ask(identity),
            lambda known: {entry.id: entry for entry in known}[identity],
        )
        return self._taken(seen)

    def names_of(self, datastream: str) -> frozenset[str]:
        """Return the names under which the event log contains events about a datastream.

        The events have the name of the datastream or, for planning, the name of its group.
        """
        return frozenset({datastream, self.group_of(datastream)})

    def group_of(self, datastream: str) -> GroupName:
        """Return the group of a datastream. If no datastream has this name, return the name itself as a
        group."""
        try:
            return self.stored(DatastreamName(datastream)).datastream.group
        except (NotFound, DamagedState):
            return GroupName(datastream)

    def live(self) -> tuple[LiveInstance, ...]:
        """Return the live instances in order of registration."""
        return self._taken(self._memory.read("instances", self._services.live))

    def _taken(self, seen: CachedValue[_T]) -> _T:
        if not seen.is_now and (self._oldest is None or seen.began < self._oldest):
            self._oldest = seen.began
            self._headers[AS_OF] = str(seen.as_of_ms)
            self._headers[AGE] = str(int(self._services.clock.monotonic() - seen.began))
        return seen.value


def _named(known: Any, name: DatastreamName) -> StoredDatastream | DamagedDefinition:
    """Return the cached definition with this name. Raises LookupError."""
    readable: list[StoredDatastream] = [stored for stored in known.readable if stored.datastream.name == name]
    damaged: list[DamagedDefinition] = [damaged for damaged in known.damaged if damaged.name == name]
    return (readable or damaged)[0]


_log = get_logger(__name__)
OFTEN_SECONDS: Final = 5.0
SELDOM_SECONDS: Final = 60.0


@contextmanager
def kept_up(app: FastAPI) -> Iterator[None]:
    """Refresh the application's cache at once and then periodically, in daemon threads. Events, which are
    large, are refreshed less often."""
    ended = threading.Event()
    often, seldom = (Reads(app.state.services, app.state.memory, MutableHeaders()) for _ in range(2))
    state = (
        often.definitions,
        often.problems,
        often.assessments,
        often.live,
        often.plan,
        often.operations,
    )
    for reads, seconds in (
        (state, OFTEN_SECONDS),
        ((partial(seldom.events, _EVENTS_KEPT),), SELDOM_SECONDS),
    ):
        threading.Thread(
            target=_repeat, args=(reads, seconds, ended), name="reads-upkeep", daemon=True
        ).start()
    try:
        yield
    finally:
        ended.set()


def _repeat(reads: Sequence[Callable[[], object]], seconds: float, ended: threading.Event) -> None:
    while True:
        for read in reads:
            with Bulkhead(_note_failure):
                read()
        if ended.wait(seconds):
            return


def _note_failure(error: Exception) -> None:
    trace = None if isinstance(error, HeadraceError) else error
    _log.info("cannot refresh the cached state", reason=reason_of(error), exc_info=trace)
