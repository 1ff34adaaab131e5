"""Creates datastreams. Creations by an owner with a quota run one at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakValueDictionary

from mirror.control.audit import Announcer
from mirror.control.caller import Caller
from mirror.control.commands import CreateDatastream
from mirror.control.definition_checks import DefinitionChecks
from mirror.coordination.stores.definitions import (
    DamagedDefinition,
    DefinitionCache,
    DefinitionStore,
    StoredDatastream,
    taken,
)
from mirror.errors import AlreadyExists, NotFound, VersionConflict
from mirror.model.datastreams.creation import reused
from mirror.model.datastreams.datastream import Datastream

_ATTEMPTS: Final = 20


class OwnerLocks:
    """One lock for each owner, held while a datastream is created. A lock exists only in use. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def of(self, owner: str | None) -> AbstractContextManager[object]:
        """Return the lock of an owner.

        If `owner` is None, returns a context manager that never waits.
        """
        if owner is None:
            return contextlib.nullcontext()
        with self._mutex:
            return self._locks.setdefault(owner, threading.Lock())


@dataclass(frozen=True)
class Creations:
    """Creates datastreams for one caller. `known`, `locks`: definition cache and locks of `Control`."""

    definitions: DefinitionStore
    checks: DefinitionChecks
    known: DefinitionCache
    locks: OwnerLocks
    announcer: Announcer
    caller: Caller

    def create(self, command: CreateDatastream) -> StoredDatastream:
        """Create a datastream, and return the stored definition. Idempotent.

        Raises InvalidRequest, AlreadyExists, KeyReused, DamagedState, Forbidden, VersionConflict.
        """
        command = replace(command, requested_by=self.caller.signed(command.requested_by))
        with self.locks.of(self.checks.quota_owner(command.datastream)):
            for _ in range(_ATTEMPTS):
                with contextlib.suppress(VersionConflict):
                    return self._create(command)
        raise VersionConflict(
            f"cannot create {command.datastream.name}: its group or its owner's datastreams keep changing",
            advice="retry in a few seconds",
        )

    def expected(self, command: CreateDatastream) -> tuple[Datastream | None, Datastream]:
        """Return the definitions before and after a creation without creating it, for a dry run. Raises the
        errors of `create`."""
        created, others = self._existing(command.datastream)
        if created is not None:
            return created.datastream, created.datastream
        return None, self.checks.created(command, others, self.caller.name)

    def _create(self, command: CreateDatastream) -> StoredDatastream:
        """Create a datastream in one attempt. Raises VersionConflict if another change affects the checks."""
        guard = self.definitions.guard(self.checks.guarded((command.datastream,)))
        created, others = self._existing(command.datastream)
        if created is not None:
            return created
        datastream = self.checks.created(command, others, self.caller.name)
        event, entry = self.announcer.creation(command)
        try:
            stored = self.definitions.create(datastream, (entry, *guard.changes()))
        except AlreadyExists:
            created = self._created_before(datastream)
            if created is None:
                raise
            return created
        self.announcer.created(command, stored.datastream, event)
        return stored

    def _existing(self, definition: Datastream) -> tuple[StoredDatastream | None, Sequence[Datastream]]:
        """Return the definition if an earlier attempt created it, otherwise None; and all other datastreams.
        Raises AlreadyExists, KeyReused, Forbidden."""
        found, name = self.known.newest(), definition.name
        others = [datastream for datastream in found.datastreams if datastream.name != name]
        self.caller.check(name, None, definition, lambda: others)
        is_listed = len(others) < len(found.datastreams) or any(
            damaged.name == name for damaged in found.damaged
        )
        return self._created_before(definition) if is_listed else None, others

    def _created_before(self, definition: Datastream) -> StoredDatastream | None:
        """Return the definition that an earlier attempt created, or None if the name is unused. Raises
        AlreadyExists and KeyReused."""
        try:
            found = self.definitions.read(definition.name)
        except NotFound:
            return None
        creation = definition.creation
        if isinstance(found, DamagedDefinition) or creation is None:
            raise taken(definition.name)
        if not creation.has_key_of(found.datastream.creation):
            raise taken(definition.name)
        if found.datastream.creation != creation:
            raise reused(definition.name)
        return found
