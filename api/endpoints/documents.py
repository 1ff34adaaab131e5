"""/v1/openapi.json, /v1/docs"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.errors import LegibleJson
from api.openapi.page import POLICY, page_of

router = APIRouter(prefix="/v1", include_in_schema=False)


@router.get("/openapi.json")
def document(request: Request) -> Response:
    """What /v1 has, for programs."""
    return LegibleJson(request.app.openapi())


@router.get("/docs")
def page(request: Request) -> Response:
    """The same for people: one page that needs nothing else, from here or elsewhere."""
    return HTMLResponse(page_of(request.app.openapi()), headers={"Content-Security-Policy": POLICY})
