"""Restores or forgets datastreams that the coordination store has lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mirror.control.commands import CreateDatastream
from mirror.control.handlers import Control
from mirror.control.outcomes import check_unchanged
from mirror.coordination.datastream_records.loss_store import LostStore, RestoredRecords
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.errors import AlreadyExists, NotFound
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName

_FIRST: Final[Mapping[DatastreamStatus, DatastreamStatus]] = {
    DatastreamStatus.PAUSED: DatastreamStatus.PAUSED,
    DatastreamStatus.STOPPING: DatastreamStatus.STOPPED,
    DatastreamStatus.STOPPED: DatastreamStatus.STOPPED,
}
"""Initial status of a restored datastream, by its last known status.

Datastreams with another last status start again, and the leader changes them to READY.
"""


@dataclass(frozen=True)
class LostDatastreams:
    """Operations on lost datastreams for one caller, who needs rights on all datastreams.

    `written`: callback that returns the topics at a destination for which a group has stored progress.
    """

    control: Control
    store: LostStore
    records: RestoredRecords
    written: Callable[[ClusterRef, GroupName], Collection[str]]

    def all(self) -> tuple[StoredDatastream, ...]:
        """Return the lost datastreams, sorted by name."""
        there = self.control.list()
        names = {stored.datastream.name for stored in there.readable} | {
            damaged.name for damaged in there.damaged
        }
        return tuple(stored for stored in self.store.all() if stored.datastream.name not in names)

    def get(self, name: DatastreamName) -> StoredDatastream:
        """Return the definition of a lost datastream. Raises NotFound; AlreadyExists if the name is in
        use."""
        with suppress(NotFound):
            self.control.read(name)
            raise AlreadyExists(
                f"datastream {shown(name)} exists and is not lost",
                advice="delete it first, or change it (headrace datastream update)",
            )
        return self.store.get(name)

    def to_restore(
        self, name: DatastreamName, before: StoredDatastream | None, reason: str = "", requested_by: str = ""
    ) -> CreateDatastream:
        """Return the command that creates a lost datastream again.

        `before`: expected version.

        Raises NotFound, AlreadyExists, StaleVersion, Forbidden.
        """
        self.control.check_right_to_all()
        lost = self.get(name)
        check_unchanged(lost, before)
        datastream = lost.datastream
        status = _FIRST.get(datastream.status, DatastreamStatus.INITIALIZING)
        return CreateDatastream(
            datastream,
            status,
            is_restored=True,
            reason=reason or "the coordination store had lost it",
            requested_by=requested_by,
        )

    def restore(self, command: CreateDatastream) -> StoredDatastream:
        """Restore a datastream. The lanes of the datastream resume from their checkpoints and write to the
        same topics.

        Raises the errors of a creation. Raises Unreachable if the datastream may not adopt topics and the
        destination does not respond, so that the topics that it has written are unknown.
        """
        datastream = command.datastream
        may_adopt = self.control.may_adopt(datastream)
        written = () if may_adopt else self.written(datastream.destination, datastream.group)
        self.records.begin(datastream)
        stored = self.control.creations.create(command)
        if not may_adopt:
            self.records.claim(datastream, written)
        self.store.remove(stored.datastream.name)
        return stored

    def forget(
        self, name: DatastreamName, before: StoredDatastream | None, reason: str = "", requested_by: str = ""
    ) -> StoredDatastream:
        """Drop a lost definition permanently and return it.

        Raises NotFound, AlreadyExists, StaleVersion, VersionConflict, Forbidden.
        """
        lost = self.to_forget(name, before)
        self.store.forget(lost)
        self.control.note_forgotten(lost.datastream, reason, requested_by)
        return lost

    def to_forget(self, name: DatastreamName, before: StoredDatastream | None) -> StoredDatastream:
        """Return the lost definition that `forget` would drop.

        Raises NotFound, AlreadyExists, StaleVersion, Forbidden.
        """
        self.control.check_right_to_all()
        lost = self.get(name)
        check_unchanged(lost, before)
        return lost
