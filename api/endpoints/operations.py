"""/v1/operations: long-running requests and their results."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from api.dependencies import ReadsDep
from api.schemas.plans import OperationAnswer
from api.schemas.problems import problems

router = APIRouter(prefix="/v1/operations", tags=["operations"])


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
