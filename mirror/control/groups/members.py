"""Carries out what is done with all datastreams that share tasks, or with none of them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Final

from mirror.control.announcer import Announcer
from mirror.control.caller import Caller
from mirror.control.commands import ChangeGroup
from mirror.control.outcomes import joint_outcome
from mirror.control.versions import READ_AGAIN
from mirror.coordination.stores.definitions import DefinitionCache, DefinitionStore, StoredDatastream
from mirror.errors import NotFound, VersionConflict
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import GroupName
from mirror.ports import Clock

_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class Groups:
    """The use cases of whole groups, for one caller. `known`: what `Control` remembers of definitions."""

    definitions: DefinitionStore
    known: DefinitionCache
    announcer: Announcer
    caller: Caller
    clock: Clock

    def members(self, group: GroupName) -> tuple[StoredDatastream, ...]:
        """Those that share these tasks and are not about to go, by name, as new as what anybody had written
        before. Raises NotFound where there is none; DamagedState where one cannot be read."""
        self.definitions.catch_up()
        found = []
        for one in self.known.newest().datastreams:
            if one.group == group:
                with contextlib.suppress(NotFound):  # deleted since its name was listed
                    found.append(self.definitions.get(one.name))
        mine = [one for one in found if one.datastream.group == group]
        left = tuple(one for one in mine if one.datastream.status is not DatastreamStatus.DELETING)
        if not left:
            raise NotFound(f"no datastream has the tasks of {shown(group)}")
        return left

    def change(self, command: ChangeGroup) -> tuple[StoredDatastream, ...]:
        """All members or none, as one write of each: returns them as stored, by name. Raises NotFound,
        DamagedState, Forbidden, IllegalTransition, InvalidRequest, StaleVersion, VersionConflict."""
        command = replace(command, requested_by=self.caller.signed(command.requested_by))
        for _ in range(_ATTEMPTS):
            changes = self.expected(command)
            try:
                written = self.definitions.replace_together(changes)
            except (VersionConflict, NotFound):  # one of them has changed or gone meanwhile
                continue
            for before, after in changes:
                self.known.changed(after.name)
                if before.datastream != after:
                    self.announcer.status_changed(command.of(after.name), before.datastream, after)
            return written
        raise VersionConflict(
            f"somebody else has changed datastreams of {command.group} meanwhile", advice=READ_AGAIN
        )

    def expected(self, command: ChangeGroup) -> tuple[tuple[StoredDatastream, Datastream], ...]:
        """Every member, and what the command would make of it; for a dry run. Raises as `change`."""
        stored = self.members(command.group)
        for one in stored:
            self.caller.check(one.datastream.name, one.datastream, one.datastream, lambda: ())
        return joint_outcome(stored, command, self.clock.now_ms())
