"""Atomic changes of a group of datastreams."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Final

from mirror.control.audit import Announcer
from mirror.control.caller import Caller
from mirror.control.commands import ChangeGroup
from mirror.control.outcomes import READ_AGAIN, joint_outcome
from mirror.coordination.stores.definitions import DefinitionCache, DefinitionStore, StoredDatastream
from mirror.errors import NotFound, VersionConflict
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import GroupName
from mirror.ports import Clock

_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class Groups:
    """Operations on whole groups of datastreams, for one caller.

    `known`: definition cache of `Control`.
    """

    definitions: DefinitionStore
    known: DefinitionCache
    announcer: Announcer
    caller: Caller
    clock: Clock

    def members(self, group: GroupName) -> tuple[StoredDatastream, ...]:
        """Return the members of a group, sorted by name. Omits members that are being deleted.

        Includes all writes that other instances have completed. Raises NotFound if the group has no members,
        DamagedState if a member is unreadable.
        """
        self.definitions.catch_up()
        found = []
        for datastream in self.known.newest().datastreams:
            if datastream.group == group:
                with contextlib.suppress(NotFound):  # deleted since its name was listed
                    found.append(self.definitions.get(datastream.name))
        mine = [member for member in found if member.datastream.group == group]
        left = tuple(member for member in mine if member.datastream.status is not DatastreamStatus.DELETING)
        if not left:
            raise NotFound(f"no datastreams in group {shown(group)}")
        return left

    def change(self, command: ChangeGroup) -> tuple[StoredDatastream, ...]:
        """Change all members in one transaction, and return the stored members, sorted by name.

        Raises NotFound, DamagedState, Forbidden, IllegalTransition, InvalidRequest, StaleVersion,
        VersionConflict.
        """
        command = replace(command, requested_by=self.caller.signed(command.requested_by))
        for _ in range(_ATTEMPTS):
            changes = self.expected(command)
            try:
                written = self.definitions.replace_together(changes)
            except (VersionConflict, NotFound):  # a member was changed or deleted meanwhile
                continue
            for before, after in changes:
                self.known.changed(after.name)
                if before.datastream != after:
                    self.announcer.status_changed(command.of(after.name), before.datastream, after)
            return written
        raise VersionConflict(f"datastreams of {command.group} were modified concurrently", advice=READ_AGAIN)

    def expected(self, command: ChangeGroup) -> tuple[tuple[StoredDatastream, Datastream], ...]:
        """Return each member of the group with its definition after the command, for a dry run. Raises the
        errors of `change`."""
        stored = self.members(command.group)
        for stored_definition in stored:
            self.caller.check(
                stored_definition.datastream.name,
                stored_definition.datastream,
                stored_definition.datastream,
                lambda: (),
            )
        return joint_outcome(stored, command, self.clock.now_ms())
