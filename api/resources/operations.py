"""/v1/operations: long-running requests and their results."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict

from api.fleet.dependencies import ReadsDep
from api.http.problems import problems
from mirror.coordination.operations.operation import Operation

router = APIRouter(prefix="/v1/operations", tags=["operations"])


class OperationAnswer(BaseModel):
    """Long-running request of a caller. Times are epoch ms."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """Id for `/v1/operations/{operation}`."""
    kind: Literal["rebalance", "move", "apply", "stop", "delete", "other"]
    """Kind of request; `other`: this instance cannot read the request."""
    datastream: str
    """Datastream; for a request that is planned, the group whose tasks are planned."""
    state: Literal["queued", "running", "done", "failed"]
    """`queued`: the leader has not processed it; `running`: tasks are being stopped; `done`: the plan in
    force implements it, or no longer contains the stopped or deleted datastream; `failed`: it was not carried
    out."""
    requested_by: str
    """Requester, empty if not given."""
    created_ms: int | None
    """Time of the request; null: not recorded."""
    finished_ms: int | None
    """Time at which it finished; null: not finished, or not recorded."""
    sentence: str
    """Progress, result, or reason of the failure."""
    plan_epoch: int | None
    """Epoch of the plan that implements the request, once done; null for a stop and a deletion."""

    @classmethod
    def from_operation(cls, operation: Operation) -> OperationAnswer:
        """Return the JSON form."""
        return cls(
            id=operation.identity,
            kind=operation.kind.value,
            datastream=operation.datastream,
            state=operation.state.value,
            requested_by=operation.requested_by,
            created_ms=operation.created_ms,
            finished_ms=operation.finished_ms,
            sentence=operation.sentence,
            plan_epoch=operation.plan_epoch,
        )


def located(operation: Operation, response: Response) -> OperationAnswer:
    """Return a started operation; the Location header names its URL."""
    response.headers["Location"] = f"/v1/operations/{operation.identity}"
    return OperationAnswer.from_operation(operation)


@router.get("")
def list_all(
    reads: ReadsDep,
    limit: Annotated[int, Query(ge=1, le=1_000, description="number of newest operations")] = 100,
    datastream: Annotated[
        str | None, Query(description="only operations of this datastream or its group")
    ] = None,
) -> list[OperationAnswer]:
    """List running operations, and operations that ended within a day, newest first."""
    only = None if datastream is None else reads.names_of(datastream)
    found = (operation for operation in reads.operations() if only is None or operation.datastream in only)
    return [OperationAnswer.from_operation(one) for one, _ in zip(found, range(limit), strict=False)]


@router.get("/{operation}", responses=problems(404))
def get(
    operation: Annotated[str, Path(description="id, as in the Location header")],
    reads: ReadsDep,
) -> OperationAnswer:
    """Return the state of an operation; any instance responds, under any leader. Results are kept for a day;
    after that, and for unknown ids, 404."""
    return OperationAnswer.from_operation(reads.operation(operation))
