"""/v1/openapi.json, /v1/docs: the API documentation."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.errors import LegibleJson
from api.openapi.page import POLICY, page_of

router = APIRouter(prefix="/v1", include_in_schema=False)


@router.get("/openapi.json")
def document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return LegibleJson(request.app.openapi())


@router.get("/docs")
def page(request: Request) -> Response:
    """Return the documentation as one self-contained HTML page."""
    return HTMLResponse(page_of(request.app.openapi()), headers={"Content-Security-Policy": POLICY})
