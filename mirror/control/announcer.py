"""Events of what people asked for: who changed, paused, resumed, stopped or deleted what, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from mirror.control.commands import ChangePauses, ChangeStatus, UpdateDatastream
from mirror.coordination.stores.events import EventLog, command_event
from mirror.model.datastreams.change import definition_changes
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.pauses import moment_text
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import PlacementEvent
from mirror.ports import Clock

_log = structlog.get_logger(__name__)
_FIELDS_SHOWN: Final = 10
_DONE: Final = {"pause": "paused", "resume": "resumed", "stop": "stopped", "delete": "deleted"}


class Announcer:
    """Stores and publishes them. A command that was carried out does not fail because its event is lost."""

    def __init__(
        self, log: EventLog, publish: Callable[[Sequence[PlacementEvent]], None], clock: Clock
    ) -> None:
        self._events = log
        self._publish = publish
        self._clock = clock

    def updated(self, command: UpdateDatastream, before: Datastream, after: Datastream) -> None:
        """A definition has become another one."""
        fields = [one.pointer for one in definition_changes(before, after)]
        more = f" and {len(fields) - _FIELDS_SHOWN} more" if len(fields) > _FIELDS_SHOWN else ""
        self._announce(command, after.name, f"changed {', '.join(fields[:_FIELDS_SHOWN])}{more}")

    def status_changed(self, command: ChangeStatus) -> None:
        """A datastream was paused, resumed, stopped or deleted."""
        what = f"{_DONE.get(command.action, command.action)} the datastream{_until(command.until_ms)}"
        self._announce(command, command.name, what)

    def pauses_changed(self, command: ChangePauses) -> None:
        """Partitions were paused or resumed."""
        shown = ", ".join(
            f"{topic}:{'*' if numbers is None else ','.join(map(str, sorted(numbers)))}"
            for topic, numbers in sorted(command.partitions.items())
        )
        what = f"{'paused' if command.pause else 'resumed'} {shown}{_until(command.until_ms)}"
        self._announce(command, command.name, what)

    def _announce(
        self, command: ChangeStatus | ChangePauses | UpdateDatastream, name: DatastreamName, what: str
    ) -> None:
        because = f": {command.reason}" if command.reason else ""
        sentence = f"{command.requested_by or 'somebody'} {what}{because}"
        events = (command_event(name, sentence, self._clock.now_ms()),)
        try:
            self._events.append(events)
            self._publish(events)
        except Exception as error:  # noqa: BLE001 - the bulkhead around telling
            _log.warning("event lost", datastream=name, sentence=sentence, reason=str(error))


def _until(moment_ms: int | None) -> str:
    return f" until {moment_text(moment_ms)}" if moment_ms is not None else ""
