"""/v1/operations: long-running requests and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Path, Query, Response

from api.fleet.dependencies import ReadsDep
from api.http.problems import RecordAnswer, by_value, problems
from mirror.coordination.operations.operation import Operation, OperationKind, OperationState

router = APIRouter(prefix="/v1/operations", tags=["operations"])


@dataclass(frozen=True)
class OperationAnswer(Operation, RecordAnswer):
    """Long-running request of a caller. Times are epoch ms."""

    DESCRIPTIONS: ClassVar = {
        "id": "Id for `/v1/operations/{operation}`.",
        "kind": "Kind of request; `other`: this instance cannot read the request.",
        "datastream": "Datastream; for a request that is planned, the group whose tasks are planned.",
        "state": (
            "`queued`: the leader has not processed it; `running`: tasks are being stopped; `done`: the "
            "plan in force implements it, or no longer contains the stopped or deleted datastream; "
            "`failed`: it was not carried out."
        ),
        "requested_by": "Requester; empty if the request named none.",
        "created_ms": "Time of the request (epoch ms); null if not recorded.",
        "finished_ms": "Time at which the operation finished (epoch ms); null if it has not, or is unknown.",
        "sentence": "Progress or result, or reason of a failure.",
        "plan_epoch": (
            "Epoch of the plan that implements the request, once done; null for a stop and a deletion."
        ),
    }

    kind: Annotated[OperationKind, by_value(OperationKind)]
    state: Annotated[OperationState, by_value(OperationState)]


def located(operation: Operation, response: Response) -> OperationAnswer:
    """Return a started operation; the Location header contains its URL."""
    response.headers["Location"] = f"/v1/operations/{operation.id}"
    return OperationAnswer.of(operation)


@router.get("")
def list_all(
    reads: ReadsDep,
    limit: Annotated[int, Query(ge=1, le=1_000, description="maximum number of operations")] = 100,
    datastream: Annotated[
        str | None, Query(description="only operations of this datastream or its group")
    ] = None,
) -> list[OperationAnswer]:
    """List running operations, and operations that ended within a day, newest first."""
    only = None if datastream is None else reads.names_of(datastream)
    found = (operation for operation in reads.operations() if only is None or operation.datastream in only)
    return [OperationAnswer.of(operation) for operation, _ in zip(found, range(limit), strict=False)]


@router.get("/{operation}", responses=problems(404))
def get(
    operation: Annotated[str, Path(description="id, as in the Location header")],
    reads: ReadsDep,
) -> OperationAnswer:
    """Return the state of an operation.

    Any instance responds, even after a change of the leader. Results are kept for a day; afterwards, and for
    unknown ids, the response is 404.
    """
    return OperationAnswer.of(reads.operation(operation))
