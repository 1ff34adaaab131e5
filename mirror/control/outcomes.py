"""What commands make of a definition. Pure."""

from __future__ import annotations

from dataclasses import replace

from mirror.control.commands import ChangePauses, ChangeStatus
from mirror.errors import IllegalTransition
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, Halt
from mirror.model.datastreams.lifecycle import next_status
from mirror.model.datastreams.pauses import paused, resumed


def outcome(datastream: Datastream, command: ChangeStatus | ChangePauses, now_ms: int) -> Datastream:
    """The definition as the command leaves it. Raises IllegalTransition, InvalidRequest."""
    if isinstance(command, ChangeStatus):
        return _with_status(datastream, command, now_ms)
    return _with_pauses(datastream, command, now_ms)


def check_ready(datastream: Datastream) -> None:
    """Raises IllegalTransition."""
    if datastream.status is not DatastreamStatus.READY:
        raise IllegalTransition(f"datastream {datastream.name} is {datastream.status}; it must be READY")


def _with_pauses(datastream: Datastream, command: ChangePauses, now_ms: int) -> Datastream:
    check_ready(datastream)
    if command.pause:
        cause = Halt(command.reason, now_ms, command.requested_by, command.until_ms)
        pauses = paused(datastream.pauses, command.partitions, cause)
    else:
        pauses = resumed(datastream.pauses, command.partitions)
    return replace(datastream, pauses=pauses)


def _with_status(datastream: Datastream, command: ChangeStatus, now_ms: int) -> Datastream:
    """As the action leaves it: one that is paused, stopped or deleted already keeps the first reason, unless
    another end of the pause is asked for."""
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
    return replace(datastream, status=status, halt=halt)
