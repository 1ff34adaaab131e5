"""/v1/operations: long work that somebody asked for, and what became of it."""

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
    limit: Annotated[int, Query(ge=1, le=1_000, description="the newest of them")] = 100,
    datastream: Annotated[str | None, Query(description="only those of this one, or of its group")] = None,
) -> list[OperationAnswer]:
    """What is under way, and what has ended within a day; the newest first."""
    only = None if datastream is None else reads.names_of(datastream)
    found = (one for one in reads.operations() if only is None or one.datastream in only)
    return [OperationAnswer.from_operation(one) for one, _ in zip(found, range(limit), strict=False)]


@router.get("/{operation}", responses=problems(404))
def get(
    operation: Annotated[str, Path(description="the id, as the header Location has named it")],
    reads: ReadsDep,
) -> OperationAnswer:
    """How far it is, at any instance and under any leader. What became of it is kept for a day; then, and for
    what never was, it is 404."""
    return OperationAnswer.from_operation(reads.operation(operation))
