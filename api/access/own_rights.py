"""/v1/caller: who a call is made by, and what it may change."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict

from api.access.gate import principal_of
from api.access.rights import Action, reason_against

router = APIRouter(prefix="/v1", tags=["status"])


class CallerAnswer(BaseModel):
    """Who asks, as the service knows them."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str
    role: str
    """viewer, owner, operator, admin."""
    owners: list[str]
    """Of the role owner: whose datastreams it may change."""
    refusal: str
    """Why it may not change datastreams of the given owner, or any without one; empty: it may."""


@router.get("/caller")
async def caller(
    request: Request,
    owner: Annotated[str | None, Query(description="whose datastreams are to be changed")] = None,
) -> CallerAnswer:
    """Who makes this call, and whether they may change something."""
    who = principal_of(request)
    owners = frozenset({owner}) if owner else None
    return CallerAnswer(
        name=who.name,
        role=who.role.value,
        owners=sorted(who.owners),
        refusal=reason_against(who, Action.CHANGE, owners),
    )
