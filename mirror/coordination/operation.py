"""Long-running operations, in progress or finished. Pure.

An operation in progress is not stored. It is derived from a request that the leader has not answered, or from
a definition with status STOPPING or DELETING. The result is stored in the transaction that ends the
operation. An operation is therefore always either in progress or finished, even after a change of leader.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from mirror.coordination.stores.requests import ApplyRequest, DamagedRequest, MoveRequest, Request
from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import NO_EPOCH, Epoch
from mirror.model.plan import Plan
from mirror.model.reasons import legible, reason_of
from mirror.wording import counted

OPERATION_ID: Final = re.compile(r"r-[0-9]{10}|[ds]-[0-9a-f]{32}")
"""Format of operation ids: the request's id, or a digest of the datastream that is deleted or stopped."""

_DIGITS: Final = 32
_LARGEST_EPOCH: Final = 2**53


class OperationKind(StrEnum):
    """Type of a long-running operation.

    OTHER: an unreadable request, or a kind from a newer version.
    """

    REBALANCE = "rebalance"
    MOVE = "move"
    APPLY = "apply"
    STOP = "stop"
    DELETE = "delete"
    OTHER = "other"

    @classmethod
    def _missing_(cls, _value: object) -> OperationKind:
        return cls.OTHER


class OperationState(StrEnum):
    """Progress of a long-running operation.

    QUEUED: the leader has not answered the request yet. RUNNING: tasks are still being released.
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Operation:
    """A long-running operation, in progress or finished.

    `datastream`: name of the datastream, or of the group for plans. Times are in epoch ms, None if not
    finished or not recorded. `plan_epoch`: epoch of the plan that fulfils the request; None if there is none.
    """

    id: str
    kind: OperationKind
    datastream: str
    state: OperationState
    requested_by: str
    created_ms: int | None
    sentence: str
    finished_ms: int | None = None
    plan_epoch: Epoch | None = None


def waiting(request: Request) -> Operation:
    """Return the pending operation of a request that no leader has answered yet."""
    if isinstance(request, DamagedRequest):
        requester, since_ms, kind = request.requested_by, None, OperationKind.OTHER
    else:
        requester, since_ms, kind = request.requested_by, request.requested_ms, _kind_of(request)
    sentence = "queued; the leader answers with a plan"
    return Operation(
        request.identity, kind, request.group, OperationState.QUEUED, requester, since_ms, sentence
    )


def answered(
    request: Request, failure: Exception | None, sentence: str, plan: Plan, now_ms: int
) -> Operation:
    """Return the finished operation of an answered request.

    `sentence`: description of the result, if the plan fulfils the request. Partitions without a task cannot
    be moved; the request fails if no partition can be moved.
    """
    ended = replace(waiting(request), finished_ms=now_ms)
    if failure is None and isinstance(request, MoveRequest):
        total, missing = len(request.partitions), request.partitions - plan.planned.get(request.group, set())
        if missing:
            sentence = (
                f"{len(missing)} of {counted(total, 'partition')} have no task and were ignored; {sentence}"
            )
        if len(missing) == total:
            failure = InvalidRequest(f"no task of {request.group} contains any of these partitions")
    if failure is not None:
        return replace(ended, state=OperationState.FAILED, sentence=reason_of(failure))
    epoch = plan.epoch if plan.epoch != NO_EPOCH else None
    return replace(ended, state=OperationState.DONE, sentence=legible(sentence), plan_epoch=epoch)


def halting(datastream: Datastream) -> Operation | None:
    """Return the stop or deletion of a datastream as an operation, or None if neither was requested."""
    halt = datastream.halt
    requester, since_ms = (halt.requested_by, halt.since_ms) if halt is not None else ("", None)
    if datastream.status is DatastreamStatus.DELETING:
        identity = _digest("d", datastream.name, datastream.created_ms)
        sentence = "the definition is removed once the datastream has no tasks"
        return Operation(
            identity,
            OperationKind.DELETE,
            datastream.name,
            OperationState.RUNNING,
            requester,
            since_ms,
            sentence,
        )
    if datastream.status not in {DatastreamStatus.STOPPING, DatastreamStatus.STOPPED}:
        return None
    identity = _digest("s", datastream.name, datastream.created_ms, since_ms)
    has_stopped = datastream.status is DatastreamStatus.STOPPED
    state = OperationState.DONE if has_stopped else OperationState.RUNNING
    sentence = "no remaining tasks" if has_stopped else "stopped once the datastream has no tasks"
    return Operation(identity, OperationKind.STOP, datastream.name, state, requester, since_ms, sentence)


def ended_stop(before: Datastream, after: Datastream, now_ms: int) -> Operation | None:
    """Return the finished stop operation if this change of the definition completes it, or None."""
    found = halting(before)
    if before.status is not DatastreamStatus.STOPPING or found is None or after.status is before.status:
        return None
    if (settled := halting(after)) is not None and settled.id == found.id:
        return replace(settled, finished_ms=now_ms)
    sentence = f"changed to {after.status} before it had stopped"
    return replace(found, state=OperationState.FAILED, sentence=sentence, finished_ms=now_ms)


def deleted(datastream: Datastream, now_ms: int) -> Operation:
    """Return the finished operation of a deletion whose definition is being removed."""
    found = halting(replace(datastream, status=DatastreamStatus.DELETING))
    assert found is not None
    sentence = "no remaining tasks; the definition was removed"
    return replace(found, state=OperationState.DONE, sentence=sentence, finished_ms=now_ms)


def to_stored_operation(operation: Operation) -> dict[str, Any]:
    """Return an operation as a JSON object."""
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "datastream": operation.datastream,
        "state": operation.state.value,
        "requested_by": operation.requested_by,
        "created_ms": operation.created_ms,
        "finished_ms": operation.finished_ms,
        "sentence": operation.sentence,
        "plan_epoch": operation.plan_epoch,
    }


def from_stored_operation(document: Mapping[str, Any]) -> Operation:
    """Parse a stored operation. Unknown fields are ignored. Raises InvalidRequest."""
    epoch = _optional("the epoch", document.get("plan_epoch"), _LARGEST_EPOCH)
    return Operation(
        id=bounds.text("the id", bounds.field(document, "id"), bounds.LONGEST_NAME),
        kind=OperationKind(bounds.text("the kind", bounds.field(document, "kind"), bounds.LONGEST_NAME)),
        datastream=bounds.text("the datastream", bounds.field(document, "datastream"), bounds.LONGEST_NAME),
        state=bounds.choice("the state", OperationState, bounds.field(document, "state")),
        requested_by=bounds.text("requested_by", bounds.field(document, "requested_by"), bounds.LONGEST_NAME),
        created_ms=_optional("the creation time", document.get("created_ms"), bounds.LARGEST_MS),
        finished_ms=_optional("the end time", document.get("finished_ms"), bounds.LARGEST_MS),
        sentence=bounds.text("the sentence", bounds.field(document, "sentence"), bounds.LONGEST_REASON),
        plan_epoch=None if epoch is None else Epoch(epoch),
    )


def _optional(label: str, value: object, highest: int) -> int | None:
    return None if value is None else bounds.integer(label, value, 0, highest)


def _kind_of(request: Request) -> OperationKind:
    if isinstance(request, MoveRequest):
        return OperationKind.MOVE
    return OperationKind.APPLY if isinstance(request, ApplyRequest) else OperationKind.REBALANCE


def _digest(mark: str, *parts: object) -> str:
    text = json.dumps(parts).encode()
    return f"{mark}-{hashlib.sha256(text).hexdigest()[:_DIGITS]}"
