"""Writes audit lines and publishes events for changes.

An audit line in the log contains the action, the reason, the state before and after, the requester, and the
remote address. Each change that a caller requests is also published as an event for operators.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from mirror.bulkheads import Bulkhead
from mirror.control.caller import Caller
from mirror.control.commands import ChangePauses, ChangeStatus, CreateDatastream, UpdateDatastream
from mirror.coordination.stores.definition_document import to_document
from mirror.coordination.stores.events import EventLog, command_event
from mirror.coordination.stores.requests import Request
from mirror.loggers import get_logger
from mirror.model.datastreams.change import definition_changes
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.datastreams.pauses import moment_text
from mirror.model.datastreams.secrets import without_secrets
from mirror.model.documents import differences
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import PlacementEvent
from mirror.model.nodes import NextNode
from mirror.model.reasons import legible
from mirror.ports import Clock
from mirror.wording import first_few

_log = get_logger(__name__)
AUDIT: Final = "audit"
"""Event name of all audit lines."""
SERVICE: Final = Caller("headrace", "service")
"""Caller of changes that the leader makes on its own. Tokens and certificates cannot have this role."""
MONITOR: Final = Caller("monitor", "service")
"""Name of the caller in audit lines for changes that the monitor makes."""
_VALUE_SHOWN: Final = 2_000
_FIELDS_SHOWN: Final = 10
_DONE: Final = {
    "pause": "paused",
    "resume": "resumed",
    "stop": "stopped",
    "delete": "deleted",
    "forget": "forgot",
}


def audit(
    action: str,
    name: DatastreamName,
    caller: Caller,
    before: Datastream | None,
    after: Datastream | None,
    requested_by: str = "",
    reason: str = "",
) -> None:
    """Write an audit line with the old and new values of changed fields.

    For a creation or a removal, logs all fields.
    """
    was, becomes = (shown_document(version) if version else {} for version in (before, after))
    changes = list(differences(was, becomes))
    _log.info(
        AUDIT,
        action=action,
        datastream=legible(name),
        principal=caller.name or "not asked",
        role=caller.role,
        remote=caller.remote,
        call=caller.request_id,
        requested_by=legible(requested_by),
        reason=legible(reason),
        before=_values([(change.pointer, change.before) for change in changes] if before else []),
        after=_values([(change.pointer, change.after) for change in changes] if after else []),
    )


def shown_document(datastream: Datastream) -> dict[str, Any]:
    """Return a definition without secrets, to be logged or printed."""
    return {**to_document(datastream), "metadata": without_secrets(datastream.metadata)}


def _values(fields: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Map JSON pointers to field values as text. Long values are truncated."""
    return {legible(pointer): legible(json.dumps(value), _VALUE_SHOWN) for pointer, value in fields}


class Announcer:
    """Stores and publishes events of requested changes. A change succeeds even if its event is lost."""

    def __init__(
        self, log: EventLog, publish: Callable[[Sequence[PlacementEvent]], None], clock: Clock, caller: Caller
    ) -> None:
        self._events = log
        self._publish = publish
        self._clock = clock
        self._caller = caller

    def creation(self, command: CreateDatastream) -> tuple[PlacementEvent, NextNode]:
        """Return the event of a creation, and the node that stores it.

        Write the node in the transaction of the definition, to save a request. Then call `created`.
        """
        status = command.status
        how = f" {status}" if status is not DatastreamStatus.INITIALIZING else ""
        event = self._event(command, command.datastream.name, f"created the datastream{how}")
        return event, self._events.entry((event,))

    def created(self, command: CreateDatastream, after: Datastream, event: PlacementEvent) -> None:
        """Announce a created datastream whose event is already stored."""
        self._guard(event, self._events.trim_now_and_then)
        audit("create", after.name, self._caller, None, after, command.requested_by, command.reason)

    def forgotten(self, lost: Datastream, reason: str, requested_by: str) -> None:
        """Announce that an operator dropped a definition that the coordination store had lost."""
        command = ChangeStatus(lost.name, "forget", reason, requested_by)
        self.status_changed(command, lost, None)

    def requested(self, request: Request, name: DatastreamName) -> None:
        """Write the audit line of a request to the leader. The leader publishes the event."""
        kind = type(request).__name__.removesuffix("Request").lower()
        audit(kind, name, self._caller, None, None, request.requested_by, request.reason)

    def updated(self, command: UpdateDatastream, before: Datastream, after: Datastream) -> None:
        """Announce a changed definition of a datastream."""
        fields = [change.pointer for change in definition_changes(before, after)]
        self._announce(command, after.name, f"changed {first_few(fields, _FIELDS_SHOWN)}")
        audit("change", after.name, self._caller, before, after, command.requested_by, command.reason)

    def status_changed(
        self, command: ChangeStatus, before: Datastream | None, after: Datastream | None
    ) -> None:
        """Announce that a datastream was paused, resumed, stopped or deleted.

        `before`, `after`: None for a damaged definition.
        """
        action, requester = command.action, command.requested_by
        done = f"{_DONE.get(action, action)} the datastream{_until(command.until_ms)}"
        self._announce(command, command.name, done)
        audit(action, command.name, self._caller, before, after, requester, command.reason)

    def pauses_changed(self, command: ChangePauses, before: Datastream, after: Datastream) -> None:
        """Announce that partitions of a datastream were paused or resumed."""
        shown = ", ".join(
            f"{topic}:{'*' if numbers is None else ','.join(map(str, sorted(numbers)))}"
            for topic, numbers in sorted(command.partitions.items())
        )
        done = f"{'paused' if command.pause else 'resumed'} {shown}{_until(command.until_ms)}"
        self._announce(command, command.name, done)
        action = f"{'pause' if command.pause else 'resume'} partitions"
        audit(action, command.name, self._caller, before, after, command.requested_by, command.reason)

    def _announce(
        self, command: ChangeStatus | ChangePauses | UpdateDatastream, name: DatastreamName, action: str
    ) -> None:
        event = self._event(command, name, action)
        self._guard(event, lambda: self._events.append((event,)))

    def _event(
        self,
        command: CreateDatastream | ChangeStatus | ChangePauses | UpdateDatastream,
        name: DatastreamName,
        action: str,
    ) -> PlacementEvent:
        because = f": {command.reason}" if command.reason else ""
        place = f" (from {self._caller.remote})" if self._caller.name and self._caller.remote else ""
        sentence = f"{command.requested_by or 'an unknown caller'}{place} {action}{because}"
        return command_event(name, sentence, self._clock.now_ms())

    def _guard(self, event: PlacementEvent, store: Callable[[], None]) -> None:
        def lost(error: Exception) -> None:
            _log.warning(
                "event lost", datastream=event.datastream, sentence=event.sentence, reason=str(error)
            )

        with Bulkhead(lost):
            store()
            self._publish((event,))


def _until(moment_ms: int | None) -> str:
    return f" until {moment_text(moment_ms)}" if moment_ms is not None else ""
