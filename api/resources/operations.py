"""/v1/operations: long-running requests and their results."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from api.fleet.dependencies import ReadsDep
from api.http.problems import problems
from api.resources.plan_answers import OperationAnswer
from mirror.coordination.operation import Operation

router = APIRouter(prefix="/v1/operations", tags=["operations"])


def located(operation: Operation, response: Response) -> OperationAnswer:
    """Set the Location header to the URL of an operation, and return the operation as a response."""
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
    operation: Annotated[str, Path(description="id, as in the Location header")], reads: ReadsDep
) -> OperationAnswer:
    """Return the state of an operation.

    Any instance responds, even after a change of the leader. Results are kept for a day; afterwards, and for
    unknown ids, the response is 404.
    """
    return OperationAnswer.of(reads.operation(operation))
