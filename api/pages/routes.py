"""Routes / and /ui/…: the web pages.

The files are public; their data comes from /v1 with the user's rights.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api.http.request_headers import accepts_gzip
from mirror.errors import NotFound
from mirror.model.bounds import shown

router = APIRouter(include_in_schema=False)


FOLDER: Final = Path(__file__).with_name("static")
INDEX: Final = "index.html"
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Types of the files that are served. Licences and notes in the folder are not served."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the web pages. `etag`: fingerprint of its content."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Map the path of each file of the web pages, relative to their folder with `/` as separator, to its
    content."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _TYPES:
            content = path.read_bytes()
            found[path.relative_to(FOLDER).as_posix()] = PageFile(
                _TYPES[path.suffix],
                content,
                gzip.compress(content, mtime=0),
                f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            )
    return MappingProxyType(found)


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
"""Response headers of the web pages. `no-cache` makes browsers revalidate the files on each load, so that an
upgrade is visible at once."""


@router.get("/")
async def root(request: Request) -> Response:
    """Redirect browsers to the web pages; other clients get 404. Raises NotFound."""
    if "text/html" not in request.headers.get("accept", ""):
        raise NotFound("unknown path /", advice="/v1/docs lists all endpoints, /ui/ has the web pages")
    return RedirectResponse(HOME, HTTPStatus.TEMPORARY_REDIRECT, {"Vary": "Accept"})


@router.get("/ui")
async def without_slash() -> Response:
    """Redirect to the URL with a slash at its end, because the URLs in the web pages are relative to it."""
    return RedirectResponse(HOME, HTTPStatus.TEMPORARY_REDIRECT)


@router.get("/ui/{path:path}")
async def file(path: str, request: Request) -> Response:
    """Return one file of the web pages; without a path, return the first page. Raises NotFound."""
    found = page_files().get(path or INDEX)
    if found is None:
        raise NotFound(f"unknown file {shown(path)}", advice="the first page is /ui/")
    return _answer(found, request)


def _answer(found: PageFile, request: Request) -> Response:
    headers = {**_HEADERS, "ETag": found.etag}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    content = found.content
    if accepts_gzip(request):
        content, headers["Content-Encoding"] = found.compressed, "gzip"
    return Response(content, headers=headers, media_type=found.media_type)
