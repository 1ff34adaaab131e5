"""What the leader does is published: events go into the log in ZooKeeper, and out as records; what it changes
of definitions is stored together with the events of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from mirror.control.audit import SERVICE, audit
from mirror.coordination.leader_actions import Change
from mirror.coordination.operations.operation import ended_stop
from mirror.coordination.operations.outcome_store import outcome_entries
from mirror.coordination.stores.definitions import DefinitionStore, StoredDatastream, replacement
from mirror.coordination.stores.events import EventLog, command_event
from mirror.errors import CoordinationError, NotFound, SessionLost, Unreachable, VersionConflict
from mirror.instance.problem_board import ProblemBoard
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import PlacementEvent
from mirror.model.nodes import NextNode, NodeWrite
from mirror.model.plan import Plan
from mirror.ports import Clock

_log = structlog.get_logger(__name__)
Events = tuple[PlacementEvent, ...]


class EventPublisher:
    """What cannot be published must not hold up what is done; only ZooKeeper's failures are raised."""

    def __init__(self, log: EventLog, publish: Callable[[Sequence[PlacementEvent]], None]) -> None:
        self._events = log
        self._publish = publish
        self._unpublished: tuple[Plan, Events] | None = None

    def announce(self, events: Events) -> None:
        """Store events and send them."""
        self._guard(events, lambda: self._events.append(events))

    def sent(self, events: Events) -> None:
        """Send events that were stored together with what they tell of."""
        self._guard(events, self._events.trim)

    def prepare(self, plan: Plan, events: Events) -> None:
        """A plan is about to be published; its publication may break off, and be in force nevertheless."""
        self._unpublished = plan, events

    def catch_up(self, in_force: Plan) -> None:
        """Publish what is known of the plan that was published last, if it is the one in force."""
        if self._unpublished is None:
            return
        plan, events = self._unpublished
        if plan == in_force:
            self.announce(events)
        self._unpublished = None

    def _guard(self, events: Events, store: Callable[[], None]) -> None:
        try:
            store()
            self._publish(events)
        except (Unreachable, CoordinationError):
            raise
        except Exception:  # noqa: BLE001 - the bulkhead around publishing
            _log.exception("events are lost", events=len(events))


@dataclass(frozen=True, slots=True)
class _Writing:
    """A change with what is stored together with it, and what is told of it."""

    change: Change
    before: StoredDatastream
    write: NodeWrite
    entries: tuple[NextNode, ...]
    events: Events


class DefinitionWriter:
    """Stores what the leader changes of definitions. `look_again`: somebody else was faster."""

    def __init__(
        self,
        definitions: DefinitionStore,
        log: EventLog,
        publisher: EventPublisher,
        clock: Clock,
        look_again: Callable[[], None],
    ) -> None:
        self._definitions = definitions
        self._log = log
        self._publisher = publisher
        self._clock = clock
        self._look_again = look_again

    def write(
        self,
        changes: Sequence[Change],
        stored: Mapping[DatastreamName, StoredDatastream],
        board: ProblemBoard,
    ) -> None:
        """In a few transactions; what fails for one datastream sets that one aside. Raises Unreachable,
        SessionLost."""
        writings: dict[DatastreamName, _Writing] = {}
        for one in changes:
            with board.guarding(one.datastream.name):
                writings[one.datastream.name] = self._writing(stored[one.datastream.name], one)

        def write_alone(name: DatastreamName) -> None:
            with board.guarding(name, through=(Unreachable, SessionLost)):
                self._write_alone(writings[name])

        self._log.change_each(
            {name: (one.write, *one.entries) for name, one in writings.items()},
            lambda names: self._tell([writings[name] for name in names]),
            write_alone,
        )

    def _writing(self, before: StoredDatastream, change: Change) -> _Writing:
        now_ms = self._clock.now_ms()
        events = _change_events(change, now_ms)
        told = (self._log.entry(events),) if events else ()
        ended = outcome_entries(ended_stop(before.datastream, change.datastream, now_ms))
        return _Writing(change, before, replacement(before, change.datastream), (*told, *ended), events)

    def _write_alone(self, one: _Writing) -> None:
        try:
            self._definitions.replace(one.before, one.change.datastream, one.entries)
        except (VersionConflict, NotFound) as error:  # somebody was faster; the next look sees it
            name = one.change.datastream.name
            _log.info("datastream not changed", datastream=name, reason=str(error))
            self._look_again()
        else:
            self._tell([one])

    def _tell(self, made: Sequence[_Writing]) -> None:
        for one in made:
            _audit_change(one.before.datastream, one.change)
            name, status = one.change.datastream.name, one.change.datastream.status.value
            _log.info("datastream changed", datastream=name, status=status, reason=one.change.why)
        if events := tuple(event for one in made for event in one.events):
            self._publisher.sent(events)


def _change_events(change: Change, now_ms: int) -> Events:
    """What is told of a change of a definition, if anything."""
    return (command_event(change.datastream.name, change.why, now_ms),) if change.is_told else ()


def _audit_change(before: Datastream, change: Change) -> None:
    """Log what nobody has asked for just now: a time to live or a pause that is over. What the leader makes
    of a request is in the audit with that request."""
    after = change.datastream
    if not change.is_told:
        return
    action = "resume" if after.status is not before.status else "resume partitions"
    if after.status is DatastreamStatus.DELETING:
        action = "delete"
    audit(action, after.name, SERVICE, before, after, reason=change.why)


def audit_removal(name: DatastreamName, gone: Datastream | None) -> None:
    """Log that the definition is there no more. `gone`: as it was, if it could be read."""
    asked_by = gone.halt.requested_by if gone is not None and gone.halt is not None else ""
    audit("remove", name, SERVICE, gone, None, asked_by, "nothing runs for it any more")
