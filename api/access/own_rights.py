"""/v1/caller: principal of the request, and its permissions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict

from api.access.gate import principal_of
from api.access.rights import Action, reason_against

router = APIRouter(prefix="/v1", tags=["status"])


class CallerAnswer(BaseModel):
    """Principal of the request."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str
    role: str
    """viewer, owner, operator or admin."""
    owners: list[str]
    """For the role owner: owners whose datastreams it may change."""
    refusal: str
    """Why it may not change datastreams of the given owner, or without one, of any; empty: it may."""


@router.get("/caller")
async def caller(
    request: Request,
    owner: Annotated[str | None, Query(description="owner of the datastreams to change")] = None,
) -> CallerAnswer:
    """Return the principal of this request, and whether it may change datastreams."""
    principal = principal_of(request)
    owners = frozenset({owner}) if owner else None
    return CallerAnswer(
        name=principal.name,
        role=principal.role.value,
        owners=sorted(principal.owners),
        refusal=reason_against(principal, Action.CHANGE, owners),
    )
