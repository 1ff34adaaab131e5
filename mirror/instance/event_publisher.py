"""What the leader does is published: events go into the log in ZooKeeper, and out as records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from mirror.control.audit import SERVICE, audit
from mirror.coordination.leader_actions import Change
from mirror.coordination.stores.events import EventLog, command_event
from mirror.errors import CoordinationError, Unreachable
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import PlacementEvent
from mirror.model.nodes import NextNode
from mirror.model.plan import Plan

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

    def entry(self, events: Events) -> NextNode:
        """What stores events together with the change that they describe; `sent` follows."""
        return self._events.entry(events)

    def sent(self, events: Events) -> None:
        """Send events that were stored with their change."""
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


def change_events(change: Change, now_ms: int) -> Events:
    """What is told of a change of a definition, if anything."""
    return (command_event(change.datastream.name, change.why, now_ms),) if change.is_told else ()


def audit_change(before: Datastream, change: Change) -> None:
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
