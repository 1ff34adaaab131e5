"""The use cases of datastreams that ZooKeeper has lost: restore one, or forget it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mirror.control.commands import CreateDatastream
from mirror.control.handlers import Control
from mirror.control.versions import check_unchanged
from mirror.coordination.losses.records import RestoredRecords
from mirror.coordination.losses.store import LostStore
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
"""How a datastream begins that is restored; any other is made READY by the leader."""


@dataclass(frozen=True)
class LostDatastreams:
    """For one caller, whose right to every datastream is checked. `written`: the destination topics of which
    a group has stored progress there."""

    control: Control
    store: LostStore
    records: RestoredRecords
    written: Callable[[ClusterRef, GroupName], Collection[str]]

    def all(self) -> tuple[StoredDatastream, ...]:
        """Return the lost datastreams, sorted by name."""
        there = self.control.list()
        names = {one.datastream.name for one in there.readable} | {one.name for one in there.damaged}
        return tuple(one for one in self.store.all() if one.datastream.name not in names)

    def get(self, name: DatastreamName) -> StoredDatastream:
        """Raises NotFound, AlreadyExists where a datastream was created under the name meanwhile."""
        with suppress(NotFound):
            self.control.look(name)
            raise AlreadyExists(
                f"datastream {shown(name)} exists: it is not lost",
                advice="delete it first, or change it (headrace datastream update)",
            )
        return self.store.get(name)

    def to_restore(
        self, name: DatastreamName, before: StoredDatastream | None, reason: str = "", requested_by: str = ""
    ) -> CreateDatastream:
        """Return the creation that restores one. `before`: what was read; it must be what is lost. Raises
        NotFound, AlreadyExists, StaleVersion, Forbidden."""
        self.control.check_right_to_all()
        lost = self.get(name)
        check_unchanged(lost, before)
        datastream = lost.datastream
        status = _FIRST.get(datastream.status, DatastreamStatus.INITIALIZING)
        return CreateDatastream(
            datastream,
            status,
            is_restored=True,
            reason=reason or "ZooKeeper had lost it",
            requested_by=requested_by,
        )

    def restore(self, command: CreateDatastream) -> StoredDatastream:
        """Create it again as it was; lanes continue from their checkpoints, into the topics that they have
        written. Raises what a creation raises, and Unreachable where its destination is asked for these
        topics, as of a datastream that may not adopt any, and does not answer."""
        one = command.datastream
        may_adopt = self.control.may_adopt(one)
        written = () if may_adopt else self.written(one.destination, one.group)
        self.records.begin(one)
        stored = self.control.create(command)
        if not may_adopt:
            self.records.claim(one, written)
        self.store.remove(stored.datastream.name)
        return stored

    def forget(
        self, name: DatastreamName, before: StoredDatastream | None, reason: str = "", requested_by: str = ""
    ) -> StoredDatastream:
        """Drop a lost definition for good; returns it. Raises NotFound, AlreadyExists, StaleVersion,
        VersionConflict, Forbidden."""
        lost = self.to_forget(name, before)
        self.store.forget(lost)
        self.control.note_forgotten(lost.datastream, reason, requested_by)
        return lost

    def to_forget(self, name: DatastreamName, before: StoredDatastream | None) -> StoredDatastream:
        """Return what `forget` would drop. Raises NotFound, AlreadyExists, StaleVersion, Forbidden."""
        self.control.check_right_to_all()
        lost = self.get(name)
        check_unchanged(lost, before)
        return lost
