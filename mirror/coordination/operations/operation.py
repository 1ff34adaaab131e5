"""One piece of long work, under way or over. Pure.

What is under way follows from what is stored anyway: a request that no leader has answered, a definition that
is STOPPING or DELETING. What is over is stored in the transaction that ends it, so each operation is one or
the other at every moment, under any leader. An id holds digits of ours only; a client can only give it back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from mirror.coordination.stores.problems import legible, reason_of
from mirror.coordination.stores.requests import ApplyRequest, DamagedRequest, MoveRequest, Request
from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import NO_EPOCH, Epoch
from mirror.model.plan import Plan
from mirror.wording import counted

OPERATION_ID: Final = re.compile(r"r-[0-9]{10}|[ds]-[0-9a-f]{32}")
"""A request as the queue has named it; else a digest of what is deleted or stopped."""

_DIGITS: Final = 32
_LARGEST_EPOCH: Final = 2**53


class OperationKind(StrEnum):
    """What is done. OTHER: a request that cannot be read, or that only a newer version knows."""

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
    """How far it is. QUEUED: the leader has not answered it; RUNNING: its tasks are still being given up."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Operation:
    """`datastream`: its name or, of what is planned, that of its group. Moments are epoch ms; None: not over
    yet, or nobody has noted it. `plan_epoch`: of the plan in force that does what a request asked for; None:
    there is none."""

    identity: str
    kind: OperationKind
    datastream: str
    state: OperationState
    requested_by: str
    created_ms: int | None
    sentence: str
    finished_ms: int | None = None
    plan_epoch: Epoch | None = None


def waiting(request: Request) -> Operation:
    """A request that no leader has answered yet."""
    if isinstance(request, DamagedRequest):
        who, since_ms, kind = request.requested_by, None, OperationKind.OTHER
    else:
        who, since_ms, kind = request.requested_by, request.requested_ms, _kind_of(request)
    sentence = "queued; the leader answers with a plan"
    return Operation(request.identity, kind, request.group, OperationState.QUEUED, who, since_ms, sentence)


def answered(
    request: Request, failure: Exception | None, sentence: str, plan: Plan, now_ms: int
) -> Operation:
    """A request that the plan, which is in force, answers as the sentence says; or that cannot be carried
    out. To move what no task has moves nothing."""
    ended = replace(waiting(request), finished_ms=now_ms)
    if failure is None and isinstance(request, MoveRequest):
        asked, missing = len(request.partitions), request.partitions - plan.planned.get(request.group, set())
        if missing:
            sentence = (
                f"{len(missing)} of {counted(asked, 'partition')} have no task and are left out; {sentence}"
            )
        if len(missing) == asked:
            failure = InvalidRequest(f"no task of {request.group} has any of these partitions")
    if failure is not None:
        return replace(ended, state=OperationState.FAILED, sentence=reason_of(failure))
    epoch = plan.epoch if plan.epoch != NO_EPOCH else None
    return replace(ended, state=OperationState.DONE, sentence=legible(sentence), plan_epoch=epoch)


def halting(datastream: Datastream) -> Operation | None:
    """The stop or the deletion of a datastream, as its definition says; None: nobody asked for one."""
    halt = datastream.halt
    who, since_ms = (halt.requested_by, halt.since_ms) if halt is not None else ("", None)
    if datastream.status is DatastreamStatus.DELETING:
        identity = _digest("d", datastream.name, datastream.created_ms)
        sentence = "the definition goes when none of its tasks is left"
        return Operation(
            identity, OperationKind.DELETE, datastream.name, OperationState.RUNNING, who, since_ms, sentence
        )
    if datastream.status not in {DatastreamStatus.STOPPING, DatastreamStatus.STOPPED}:
        return None
    identity = _digest("s", datastream.name, datastream.created_ms, since_ms)
    has_stopped = datastream.status is DatastreamStatus.STOPPED
    state = OperationState.DONE if has_stopped else OperationState.RUNNING
    sentence = "no task of it is left" if has_stopped else "it has stopped when none of its tasks is left"
    return Operation(identity, OperationKind.STOP, datastream.name, state, who, since_ms, sentence)


def ended_stop(before: Datastream, after: Datastream, now_ms: int) -> Operation | None:
    """What became of a stop, if this change of a definition ends it; None: there is none, or it goes on."""
    found = halting(before)
    if before.status is not DatastreamStatus.STOPPING or found is None or after.status is before.status:
        return None
    if (settled := halting(after)) is not None and settled.identity == found.identity:
        return replace(settled, finished_ms=now_ms)
    sentence = f"it is {after.status} before it had stopped"
    return replace(found, state=OperationState.FAILED, sentence=sentence, finished_ms=now_ms)


def deleted(datastream: Datastream, now_ms: int) -> Operation:
    """The deletion of a datastream whose definition goes now."""
    found = halting(replace(datastream, status=DatastreamStatus.DELETING))
    assert found is not None
    sentence = "none of its tasks is left, and the definition is removed"
    return replace(found, state=OperationState.DONE, sentence=sentence, finished_ms=now_ms)


def to_stored_operation(operation: Operation) -> dict[str, Any]:
    """As JSON-ready values."""
    return {
        "id": operation.identity,
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
    """The inverse of `to_stored_operation`; fields that are not known are left alone. Raises
    InvalidRequest."""
    epoch = _optional("the epoch", document.get("plan_epoch"), _LARGEST_EPOCH)
    return Operation(
        identity=bounds.text("the id", bounds.field(document, "id"), bounds.LONGEST_NAME),
        kind=OperationKind(bounds.text("the kind", bounds.field(document, "kind"), bounds.LONGEST_NAME)),
        datastream=bounds.text("the datastream", bounds.field(document, "datastream"), bounds.LONGEST_NAME),
        state=bounds.choice("the state", OperationState, bounds.field(document, "state")),
        requested_by=bounds.text("requested_by", bounds.field(document, "requested_by"), bounds.LONGEST_NAME),
        created_ms=_optional("the moment it was asked for", document.get("created_ms"), bounds.LARGEST_MS),
        finished_ms=_optional("the moment of its end", document.get("finished_ms"), bounds.LARGEST_MS),
        sentence=bounds.text("the sentence", bounds.field(document, "sentence"), bounds.LONGEST_REASON),
        plan_epoch=None if epoch is None else Epoch(epoch),
    )


def _optional(what: str, value: object, highest: int) -> int | None:
    return None if value is None else bounds.integer(what, value, 0, highest)


def _kind_of(request: Request) -> OperationKind:
    if isinstance(request, MoveRequest):
        return OperationKind.MOVE
    return OperationKind.APPLY if isinstance(request, ApplyRequest) else OperationKind.REBALANCE


def _digest(mark: str, *parts: object) -> str:
    text = json.dumps(parts).encode()
    return f"{mark}-{hashlib.sha256(text).hexdigest()[:_DIGITS]}"
