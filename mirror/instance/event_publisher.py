"""Publishes actions of the leader as events, in the coordination store and in a topic.

A change of a definition is stored together with its event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mirror.bulkheads import Bulkhead
from mirror.control.audit import SERVICE, audit
from mirror.coordination.leader_actions import StoreDefinition
from mirror.coordination.operation import ended_stop
from mirror.coordination.outcome_store import outcome_entries
from mirror.coordination.stores.definitions import DefinitionStore, StoredDatastream, replacement
from mirror.coordination.stores.events import EventLog, command_event, worker_event
from mirror.errors import CoordinationError, NotFound, SessionLost, Unreachable, VersionConflict
from mirror.instance.problem_board import ProblemBoard
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.model.metrics import PlacementEvent, WorkerLoss
from mirror.model.nodes import NextNode, NodeWrite
from mirror.model.plan import Plan
from mirror.ports import Clock

_log = get_logger(__name__)
Events = tuple[PlacementEvent, ...]


class EventPublisher:
    """Stores and sends placement events. Raises only errors of the coordination store."""

    def __init__(self, log: EventLog, publish: Callable[[Sequence[PlacementEvent]], None]) -> None:
        self.log = log
        self._publish = publish
        self._unpublished: tuple[Plan, Events] | None = None

    def announce(self, events: Events) -> None:
        """Store events of placement changes, and send them to their topic."""
        self._guard(events, lambda: self.log.append(events))

    def sent(self, events: Events) -> None:
        """Send events that were already stored in the transaction of their change."""
        self._guard(events, self.log.trim)

    def prepare(self, plan: Plan, events: Events) -> None:
        """Keep the events of a plan until the plan is published, or its publication has failed."""
        self._unpublished = plan, events

    def catch_up(self, in_force: Plan) -> None:
        """Publish the events of the plan that is now in effect, if they were not published yet."""
        if self._unpublished is None:
            return
        plan, events = self._unpublished
        if plan == in_force:
            self.announce(events)
        self._unpublished = None

    def _guard(self, events: Events, store: Callable[[], None]) -> None:
        lost = partial(_log.exception, "events lost", events=len(events))
        with Bulkhead(lambda _: lost(), through=(Unreachable, CoordinationError)):
            store()
            self._publish(events)


@dataclass(frozen=True, slots=True)
class _Writing:
    """A change of a definition with its node writes and events, which one transaction stores."""

    change: StoreDefinition
    before: StoredDatastream
    write: NodeWrite
    entries: tuple[NextNode, ...]
    events: Events


class DefinitionWriter:
    """Stores definitions changed by the leader. `invalidate`: called with the name of a definition to read
    again after a concurrent change."""

    def __init__(
        self,
        definitions: DefinitionStore,
        publisher: EventPublisher,
        clock: Clock,
        invalidate: Callable[[], None],
    ) -> None:
        self._definitions = definitions
        self._log = publisher.log
        self._publisher = publisher
        self._clock = clock
        self._invalidate = invalidate

    def write(
        self,
        changes: Sequence[StoreDefinition],
        stored: Mapping[DatastreamName, StoredDatastream],
        board: ProblemBoard,
    ) -> None:
        """Store changed definitions in a few transactions. A failure affects only its own datastream."""
        writings: dict[DatastreamName, _Writing] = {}
        for change in changes:
            with board.guarding(change.datastream.name):
                writings[change.datastream.name] = self._writing(stored[change.datastream.name], change)

        def write_alone(name: DatastreamName) -> None:
            with board.guarding(name, through=(Unreachable, SessionLost)):
                self._write_alone(writings[name])

        self._log.change_each(
            {name: (writing.write, *writing.entries) for name, writing in writings.items()},
            lambda names: self._publish_events([writings[name] for name in names]),
            write_alone,
        )

    def _writing(self, before: StoredDatastream, change: StoreDefinition) -> _Writing:
        now_ms = self._clock.now_ms()
        events = _change_events(change, now_ms)
        entries: tuple[NextNode, ...] = (self._log.entry(events),) if events else ()
        if before.datastream.status is DatastreamStatus.STOPPING:
            entries += outcome_entries(ended_stop(before.datastream, change.datastream, now_ms))
        return _Writing(change, before, replacement(before, change.datastream), entries, events)

    def _write_alone(self, writing: _Writing) -> None:
        try:
            self._definitions.replace(writing.before, writing.change.datastream, writing.entries)
        except (VersionConflict, NotFound) as error:  # modified concurrently; the next tick reads it
            name = writing.change.datastream.name
            _log.info("datastream not changed", datastream=name, reason=str(error))
            self._invalidate()
        else:
            self._publish_events([writing])

    def _publish_events(self, publications: Sequence[_Writing]) -> None:
        for publication in publications:
            _audit_change(publication.before.datastream, publication.change)
            name, status = publication.change.datastream.name, publication.change.datastream.status.value
            _log.info("datastream changed", datastream=name, status=status, reason=publication.change.why)
        if events := tuple(event for publication in publications for event in publication.events):
            self._publisher.sent(events)


def _change_events(change: StoreDefinition, now_ms: int) -> Events:
    """Return the event for a definition change. Empty if the change is not published."""
    return (command_event(change.datastream.name, change.why, now_ms),) if change.is_told else ()


def _audit_change(before: Datastream, change: StoreDefinition) -> None:
    """Log a change that no caller requested: the end of a time to live or of a pause. Changes by callers are
    already in the audit log."""
    after = change.datastream
    if not change.is_told:
        return
    action = "resume" if after.status is not before.status else "resume partitions"
    if after.status is DatastreamStatus.DELETING:
        action = "delete"
    audit(action, after.name, SERVICE, before, after, reason=change.why)


def audit_removal(removed: Datastream) -> None:
    """Log the removal of a definition. `removed`: its last state."""
    asked_by = removed.halt.requested_by if removed.halt is not None else ""
    audit("remove", removed.name, SERVICE, removed, None, asked_by, "none of its tasks is left")


def publish_losses(
    instance: InstanceName, log: EventLog, publish: Callable[[Events], None], losses: Sequence[WorkerLoss]
) -> None:
    """Store and publish the events of lost worker processes. Raises Unreachable, SessionLost."""
    events = tuple(worker_event(instance, loss) for loss in losses)
    log.append(events)
    publish(events)
