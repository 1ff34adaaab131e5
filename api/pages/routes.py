"""/, /ui/…: the pages, for browsers. They need no rights: what they show they ask /v1 for."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api.pages.files import INDEX, PageFile, page_files
from mirror.errors import NotFound
from mirror.model.bounds import shown

router = APIRouter(include_in_schema=False)
HOME: Final = "/ui/"
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
"""`no-cache`: a browser keeps the files and asks each time whether they are the present ones, so that an
upgrade is seen at once."""


@router.get("/")
async def root(request: Request) -> Response:
    """Leads people to the pages; programs find nothing here. Raises NotFound."""
    if "text/html" not in request.headers.get("accept", ""):
        raise NotFound("there is nothing at /", advice="/v1/docs lists what there is, /ui/ is for people")
    return RedirectResponse(HOME, HTTPStatus.TEMPORARY_REDIRECT, {"Vary": "Accept"})


@router.get("/ui")
async def without_slash() -> Response:
    """Addresses in the pages are relative to the folder."""
    return RedirectResponse(HOME, HTTPStatus.TEMPORARY_REDIRECT)


@router.get("/ui/{path:path}")
async def file(path: str, request: Request) -> Response:
    """One file; the first page without a name. Raises NotFound."""
    found = page_files().get(path or INDEX)
    if found is None:
        raise NotFound(f"the pages have no file {shown(path)}", advice="they begin at /ui/")
    return _answer(found, request)


def _answer(found: PageFile, request: Request) -> Response:
    headers = {**_HEADERS, "ETag": found.etag}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    content = found.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = found.compressed, "gzip"
    return Response(content, headers=headers, media_type=found.media_type)
