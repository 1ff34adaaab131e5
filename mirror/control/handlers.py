"""Executes commands: checks the command, then writes the desired state with compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror.control.admission import Admission
from mirror.control.audit import Announcer, audit
from mirror.control.caller import NOBODY_IN_PARTICULAR, Caller
from mirror.control.commands import (
    ChangePauses,
    ChangeStatus,
    CreateDatastream,
    MovePartitions,
    TriggerRebalance,
    UpdateDatastream,
)
from mirror.control.creations import Creations, OwnerLocks
from mirror.control.definition_checks import DefinitionChecks, RouteCheck
from mirror.control.group_changes import Groups
from mirror.control.outcomes import READ_AGAIN, check_ready, check_unchanged, outcome, stale, with_state_of
from mirror.coordination.operation import ended_stop
from mirror.coordination.outcome_store import outcome_entries, superseded_by
from mirror.coordination.stores.definitions import (
    DamagedDefinition,
    DefinitionCache,
    Definitions,
    DefinitionStore,
    StoredDatastream,
)
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.guard import Guard
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest, Request, RequestQueue
from mirror.errors import (
    AlreadyExists,
    HeadraceError,
    IllegalTransition,
    InvalidRequest,
    VersionConflict,
)
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.metrics import PlacementEvent
from mirror.ports import Clock

_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class ControlStores:
    """Stores that the operations read and write. `publish`: callback for events stored in `events`."""

    definitions: DefinitionStore
    requests: RequestQueue
    membership: Membership
    events: EventLog
    publish: Callable[[Sequence[PlacementEvent]], None] = lambda _: None


class Control:
    """Operations on datastreams for one caller: check the caller's rights, and store the caller's name."""

    def __init__(
        self,
        stores: ControlStores,
        checks: DefinitionChecks,
        known: DefinitionCache,
        locks: OwnerLocks,
        caller: Caller,
    ) -> None:
        self._stores, self._checks, self._clock = stores, checks, checks.clock
        self._definitions, self._known, self._locks = stores.definitions, known, locks
        self._requests, self._membership = stores.requests, stores.membership
        self._announcer = Announcer(stores.events, stores.publish, checks.clock, caller)
        self.creations = Creations(stores.definitions, checks, known, locks, self._announcer, caller)
        self.caller = caller

    @staticmethod
    def build(stores: ControlStores, admission: Admission, clock: Clock, routes: RouteCheck) -> Control:
        """Return the operations with the rights of the service itself. `admission`: rules for definitions."""
        known = DefinitionCache(stores.definitions, lambda: None)
        checks = DefinitionChecks(admission, routes, clock)
        return Control(stores, checks, known, OwnerLocks(), NOBODY_IN_PARTICULAR)

    def of(self, caller: Caller) -> Control:
        """Return the operations for another caller, with the same locks and cache."""
        return Control(self._stores, self._checks, self._known, self._locks, caller)

    def check_right(self, name: DatastreamName) -> Datastream:
        """Return a datastream that the caller may change. Raises NotFound, DamagedState, Forbidden.

        The caller needs rights on all datastreams that share tasks with it.
        """
        datastream = self.get(name)
        self._check_right(name, datastream, datastream, of_tasks=True)
        return datastream

    def hides_group(self, group: str, datastream: Datastream) -> str:
        """Return why readers of a datastream may not see a consumer group, or an empty string if they may."""
        clusters, same_as = (datastream.source, datastream.destination), self._checks.routes.same_as
        found = self._checks.admission.hidden_at(group, clusters, same_as)
        if found is None:
            return ""
        return f"consumer group {shown(group)} is not allowed for datastreams on cluster {found}"

    def check_right_to_group(self, group: GroupName) -> None:
        """Check that the caller may change all datastreams of a group. Raises Forbidden."""
        member = next((other for other in self.list().datastreams if other.group == group), None)
        self._check_right(member.name if member else DatastreamName(group), member, member, of_tasks=True)

    def check_right_to_all(self, action: str = "", reason: str = "") -> None:
        """Check that the caller may change every datastream. Raises Forbidden. `action`: name of the action
        in the audit."""
        no_datastream = DatastreamName("")
        self._check_right(no_datastream, None, None, of_tasks=False)
        if action:
            audit(action, no_datastream, self.caller, None, None, self.caller.name, reason)

    @property
    def groups(self) -> Groups:
        """Operations on groups of datastreams."""
        return Groups(self._definitions, self._known, self._announcer, self.caller, self._clock)

    def record_request(self, request: Request) -> None:
        """Write the audit line of a request to the leader that was queued by other code."""
        self._announcer.requested(request, DatastreamName(request.group))

    def may_adopt(self, datastream: Datastream) -> bool:
        """Return whether a datastream may write to existing topics at its destination."""
        return self._checks.admission.adopts(datastream, self._checks.routes.same_as)

    def note_forgotten(self, lost: Datastream, reason: str, requested_by: str) -> None:
        """Announce that the caller dropped a definition that the coordination store had lost."""
        self._announcer.forgotten(lost, reason, self.caller.signed(requested_by))

    def _check_right(
        self, name: DatastreamName, before: Datastream | None, after: Datastream | None, *, of_tasks: bool
    ) -> None:
        """Raise Forbidden unless the caller may change the datastream. `of_tasks`: the change also affects
        the datastreams that share tasks."""
        self.caller.check(name, before, after, lambda: self.list().datastreams if of_tasks else ())

    def check_update(self, commands: Sequence[UpdateDatastream]) -> None:
        """Check that several changes are valid together and with the other datastreams. Raises
        IllegalTransition, InvalidRequest and Forbidden."""
        after = {command.after.name: command.after for command in commands}
        there = self.list().datastreams
        for command in commands:
            before, new = command.before.datastream, command.after
            of_tasks = (new.limits, new.placement) != (before.limits, before.placement)
            self._check_right(new.name, before, new, of_tasks=of_tasks)
            self._checks.check_change(command, after, there, self.caller.name)

    def check_clusters(self, datastream: Datastream, identities: Mapping[ClusterRef, str]) -> None:
        """Check that a datastream may use clusters with the given ids. Raises InvalidRequest and
        IllegalTransition."""
        self._checks.check_clusters(datastream, identities, self.list().datastreams, self.caller.name)

    def update(self, command: UpdateDatastream) -> StoredDatastream:
        """Replace the definition of a datastream, and return it as stored.

        Raises NotFound, DamagedState, IllegalTransition, InvalidRequest, Forbidden; StaleVersion or
        VersionConflict after a concurrent change.
        """
        guard = self._checked_guard((command,))
        return self._become(command, (command,), guard)

    def update_together(
        self, commands: Sequence[UpdateDatastream]
    ) -> Mapping[DatastreamName, StoredDatastream | HeadraceError]:
        """Change several definitions, and map each name to the stored definition or the error.

        All changes are checked before the first write. A failed write does not affect the other changes.
        Raises IllegalTransition, InvalidRequest, Forbidden.
        """
        guard = self._checked_guard(commands)
        found: dict[DatastreamName, StoredDatastream | HeadraceError] = {}
        for command in commands:
            try:
                found[command.after.name] = self._become(command, commands, guard)
            except HeadraceError as error:
                found[command.after.name] = error
        return found

    def _checked_guard(self, commands: Sequence[UpdateDatastream]) -> Guard:
        """Check changes of definitions. Return a guard that detects concurrent changes that affect the
        checks. Raises the errors of the checks."""
        guard = self._definitions.guard(self._checks.guarded([command.after for command in commands]))
        self.check_update(commands)
        return guard

    def _become(
        self, command: UpdateDatastream, together: Sequence[UpdateDatastream], guard: Guard
    ) -> StoredDatastream:
        """Write one changed definition. `together`: all changes of the call, which are checked again after a
        concurrent change."""
        command = replace(command, requested_by=self.caller.signed(command.requested_by))
        before, after = command.before.datastream, command.after
        for _ in range(_ATTEMPTS):
            stored = self._definitions.get(after.name)
            if command.is_exact and stored.version != command.before.version:
                raise stale(after.name)
            if with_state_of(stored.datastream, before) != stored.datastream:
                break
            changed = with_state_of(stored.datastream, after)
            if changed == stored.datastream:
                return stored
            try:
                written = self._definitions.replace(stored, changed, (*guard.changes(), *command.entries))
            except (AlreadyExists, VersionConflict):
                guard.read()
                self.check_update(together)
                continue
            guard.advance()
            self._known.changed(after.name)
            self._announcer.updated(command, stored.datastream, changed)
            return written
        raise VersionConflict(f"datastream {after.name} was modified concurrently", advice=READ_AGAIN)

    def stored(self, name: DatastreamName) -> StoredDatastream:
        """Return a definition with its version. Raises NotFound and DamagedState."""
        return self._definitions.get(name)

    def get(self, name: DatastreamName) -> Datastream:
        """Return the definition with this name. Raises NotFound and DamagedState."""
        return self._definitions.get(name).datastream

    def read(self, name: DatastreamName) -> StoredDatastream | DamagedDefinition:
        """Return a definition with its version, or a description of its damage. Raises NotFound."""
        return self._definitions.read(name)

    def catch_up(self) -> None:
        """Ensure that later reads include all completed writes of all instances."""
        self._definitions.catch_up()

    def list(self) -> Definitions:
        """Return all definitions, with damaged definitions in a separate list."""
        return self._known.newest()

    def list_again(self) -> Definitions:
        """Return all definitions, bypassing the cache."""
        self._known.invalidate()
        return self._known.newest()

    def delete(self, command: ChangeStatus) -> StoredDatastream | DamagedDefinition:
        """Mark a datastream for deletion, and return its definition as stored.

        A damaged definition is deleted immediately.

        Raises NotFound, IllegalTransition, VersionConflict, StaleVersion, Forbidden.
        """
        found = self.read(command.name)
        if isinstance(found, StoredDatastream):
            return self.change_status(command)
        if command.before is not None:
            raise stale(command.name)
        self._check_right(command.name, None, None, of_tasks=False)
        if not self._definitions.remove(command.name, (), self._clock.now_ms(), found):
            raise VersionConflict(f"datastream {command.name} was modified concurrently", advice=READ_AGAIN)
        self._known.changed(command.name)
        command = replace(command, requested_by=self.caller.signed(command.requested_by))
        self._announcer.status_changed(command, None, None)
        return found

    def change_status(self, command: ChangeStatus) -> StoredDatastream:
        """Change the status of a datastream, and return the stored definition. Raises NotFound, DamagedState,
        IllegalTransition, StaleVersion, VersionConflict, Forbidden."""
        command = replace(command, requested_by=self.caller.signed(command.requested_by))
        before, changed = self._change(command)
        self._announcer.status_changed(command, before, changed.datastream)
        return changed

    def change_pauses(self, command: ChangePauses) -> StoredDatastream:
        """Pause or resume partitions and return the stored definition.

        Raises NotFound, DamagedState, IllegalTransition, InvalidRequest, StaleVersion, VersionConflict,
        Forbidden."""
        command = replace(command, requested_by=self.caller.signed(command.requested_by))
        before, stored = self._change(command)
        self._announcer.pauses_changed(command, before, stored.datastream)
        return stored

    def move(self, command: MovePartitions) -> MoveRequest:
        """Queue a request to move partitions for the leader, and return the request.

        The operation ends when the leader publishes a plan.

        Raises NotFound, IllegalTransition, InvalidRequest, StaleVersion, Forbidden.
        """
        request = self.move_request_of(command)
        added = replace(request, identity=self._requests.add(request, superseded_by(request)))
        self._announcer.requested(added, command.name)
        return added

    def move_request_of(self, command: MovePartitions) -> MoveRequest:
        """Return the request that `move` would queue, for a dry run. Raises NotFound, IllegalTransition,
        InvalidRequest, StaleVersion, Forbidden."""
        if command.before is not None:
            self.catch_up()
        stored = self.stored(command.name)
        check_unchanged(stored, command.before)
        datastream = stored.datastream
        self._check_right(command.name, datastream, datastream, of_tasks=True)
        check_ready(datastream)
        live = [instance for instance in self._membership.live() if not instance.is_leaving]
        if not any(command.host in {instance.name, instance.host} for instance in live):
            raise InvalidRequest(
                f"no instance is named {shown(command.host)}",
                advice=f"live instances: {', '.join(sorted(instance.name for instance in live)) or 'none'}",
            )
        return MoveRequest(
            group=datastream.group,
            partitions=command.partitions,
            host=command.host,
            requested_by=self.caller.signed(command.requested_by),
            requested_ms=self._clock.now_ms(),
        )

    def _change(self, command: ChangeStatus | ChangePauses) -> tuple[Datastream, StoredDatastream]:
        """Apply a command to a definition, and return the definition before and after. Retries after
        concurrent changes, unless `before` requires a version."""
        now_ms = self._clock.now_ms()
        for attempt in range(_ATTEMPTS):
            stored = self._definitions.get(command.name)
            self._check_right(command.name, stored.datastream, stored.datastream, of_tasks=False)
            check_unchanged(stored, command.before)
            changed = outcome(stored.datastream, command, now_ms)
            if changed == stored.datastream:
                return stored.datastream, stored
            try:
                ended = outcome_entries(ended_stop(stored.datastream, changed, now_ms))
                written = self._definitions.replace(stored, changed, ended)
            except VersionConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                self._known.changed(command.name)
                return stored.datastream, written
        raise AssertionError("internal error: no attempt returned a result")

    def expected(
        self, command: CreateDatastream | ChangeStatus | ChangePauses
    ) -> tuple[Datastream | None, Datastream]:
        """Return the definition before and after the command, for a dry run. Raises the errors of the
        command."""
        if isinstance(command, CreateDatastream):
            return self.creations.expected(command)
        stored = self._definitions.get(command.name)
        self._check_right(command.name, stored.datastream, stored.datastream, of_tasks=False)
        check_unchanged(stored, command.before)
        return stored.datastream, outcome(stored.datastream, command, self._clock.now_ms())

    def rebalance(self, command: TriggerRebalance) -> RebalanceRequest:
        """Queue a request to rebalance a group for the leader, and return the request.

        The operation ends when the leader publishes a plan.

        Raises NotFound, IllegalTransition, Forbidden.
        """
        request = self.request_of(command)
        added = replace(request, identity=self._requests.add(request, superseded_by(request)))
        self._announcer.requested(added, command.name)
        return added

    def request_of(self, command: TriggerRebalance) -> RebalanceRequest:
        """Return the request that `rebalance` would queue, for a dry run. Raises NotFound,
        IllegalTransition, Forbidden."""
        datastream = self.check_right(command.name)
        if not datastream.status.is_mirrored:
            kept = "keeps its tasks unchanged" if datastream.status.has_tasks else "has no tasks"
            raise IllegalTransition(f"datastream {command.name} is {datastream.status} and {kept}")
        return RebalanceRequest(
            group=datastream.group,
            full=command.full,
            requested_by=self.caller.signed(command.requested_by),
            reason=command.reason,
            requested_ms=self._clock.now_ms(),
        )
