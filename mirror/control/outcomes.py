"""Results of commands on definitions, and checks that a change is based on the stored version. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mirror.control.commands import ChangeGroup, ChangePauses, ChangeStatus
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.errors import IllegalTransition, StaleVersion
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, Halt, next_status
from mirror.model.datastreams.pauses import later_end, noting_resumptions, paused, resumed
from mirror.model.identifiers import DatastreamName, GroupName

READ_AGAIN: Final = "read it again and retry"


def check_unchanged(stored: StoredDatastream, before: StoredDatastream | None) -> None:
    """Raise StaleVersion if the stored definition is newer than the version that the caller has read."""
    if before is not None and stored != before:
        raise stale(stored.datastream.name)


def stale(name: DatastreamName) -> StaleVersion:
    """Return the error for a change that is based on an outdated version of a datastream."""
    return StaleVersion(f"datastream {name} was modified concurrently", advice=READ_AGAIN)


def stale_group(group: GroupName) -> StaleVersion:
    """Return the error for a change of a group that has changed concurrently."""
    return StaleVersion(f"datastreams of {group} were modified concurrently", advice=READ_AGAIN)


def with_state_of(stored: Datastream, definition: Datastream) -> Datastream:
    """Return `definition` with the status and the pauses of `stored`."""
    return replace(
        definition,
        status=stored.status,
        pauses=stored.pauses,
        halt=stored.halt,
        resumptions=stored.resumptions,
    )


_AT_REST: Final = frozenset({DatastreamStatus.STOPPING, DatastreamStatus.STOPPED})


def outcome(datastream: Datastream, command: ChangeStatus | ChangePauses, now_ms: int) -> Datastream:
    """Return the definition that results from the command. Raises IllegalTransition and InvalidRequest."""
    if isinstance(command, ChangeStatus):
        return _with_status(datastream, command, now_ms)
    return _with_pauses(datastream, command, now_ms)


def joint_outcome(
    stored: Sequence[StoredDatastream], command: ChangeGroup, now_ms: int
) -> tuple[tuple[StoredDatastream, Datastream], ...]:
    """Return each member of a group with its definition after the command.

    Raises IllegalTransition if a member does not permit the command, or if no member would change. Raises
    StaleVersion if a member differs from its expected version.
    """
    if command.before is not None and tuple(stored) != command.before:
        raise stale_group(command.group)
    changes = tuple((member, _of_member(member.datastream, command, now_ms)) for member in stored)
    if all(before.datastream == after for before, after in changes):
        raise IllegalTransition(f"{command.action} does not change any datastream of group {command.group}")
    return changes


def _of_member(datastream: Datastream, command: ChangeGroup, now_ms: int) -> Datastream:
    """Return the definition of a member after the command.

    Stopped and stopping members are unchanged. If a member is already paused, the later of the two expiry
    times applies. Raises IllegalTransition for an initializing member, which cannot be paused yet.
    """
    is_paused = datastream.status is DatastreamStatus.PAUSED
    if datastream.status in _AT_REST or (command.action == "resume" and not is_paused):
        return datastream
    if command.action == "resume" or not is_paused:
        return _with_status(datastream, command.of(datastream.name), now_ms)
    halt = datastream.halt or Halt("", now_ms)
    until_ms = later_end(halt.until_ms, command.until_ms)
    if until_ms == halt.until_ms:
        return datastream
    requester, why = command.requested_by or halt.requested_by, command.reason or halt.reason
    return replace(datastream, halt=Halt(why, halt.since_ms, requester, until_ms))


def check_ready(datastream: Datastream) -> None:
    """Raise IllegalTransition unless the datastream is READY."""
    if datastream.status is not DatastreamStatus.READY:
        raise IllegalTransition(f"datastream {datastream.name} is {datastream.status}; it must be READY")


def _with_pauses(datastream: Datastream, command: ChangePauses, now_ms: int) -> Datastream:
    check_ready(datastream)
    if command.pause:
        cause = Halt(command.reason, now_ms, command.requested_by, command.until_ms)
        pauses = paused(datastream.pauses, command.partitions, cause)
    else:
        pauses = resumed(datastream.pauses, command.partitions)
    return noting_resumptions(datastream, replace(datastream, pauses=pauses), now_ms)


def _with_status(datastream: Datastream, command: ChangeStatus, now_ms: int) -> Datastream:
    """Return the datastream with the status that results from the command.

    If the datastream already has the status, it keeps the first reason, unless the end of the pause changes.
    """
    halt = datastream.halt
    if command.until_ms is not None and datastream.status is DatastreamStatus.PAUSED:
        since_ms, former = (halt.since_ms, halt.requested_by) if halt else (now_ms, "")
        reason = command.reason or (halt.reason if halt else "")
        changed = Halt(reason, since_ms, command.requested_by or former, command.until_ms)
        return replace(datastream, halt=changed)
    status = next_status(datastream, command.action)
    ends = status.is_halted or status is DatastreamStatus.DELETING
    if ends and (halt is None or status is not datastream.status):
        halt = Halt(command.reason, now_ms, command.requested_by, command.until_ms)
    elif status.is_mirrored:
        halt = None
    return noting_resumptions(datastream, replace(datastream, status=status, halt=halt), now_ms)
