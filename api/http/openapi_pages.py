"""The OpenAPI document as JSON, and as one HTML page without scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.http.problems import LegibleJson

router = APIRouter(prefix="/v1", include_in_schema=False)


_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 13px/1.45 ui-monospace, monospace; background: #8881; border-radius: 3px }
pre { padding: .6rem; overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0 }
details { border-top: 1px solid #8884; padding: .4rem 0 } summary { cursor: pointer }
"""
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""Content security policy: allows only the page's own style."""


def page_of(document: Mapping[str, Any]) -> str:
    """Return an OpenAPI document as an HTML page."""
    return "\n".join(_page(document))


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])} REST</title>
<style>{_STYLE}</style></head><body>
<h1>{escape(info["title"])} {escape(info["version"])}</h1>
<p>OpenAPI document of <code>/v1</code>: <a href="/v1/openapi.json">/v1/openapi.json</a></p>"""
    for part in info["description"].split("\n\n"):
        yield f"<p>{escape(part)}</p>"
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2><p>{escape(tag['description'])}</p>"
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    yield from _section(f"{method.upper()} {path}", operation)
    yield "</body></html>"


def _section(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<details><summary><code>{escape(title)}</code></summary><p>{escape(operation['description'])}</p>"
    parameters = [(one["name"], one["in"], one["description"]) for one in operation.get("parameters", ())]
    if parameters:
        yield from _table(("parameter", "in", "meaning"), parameters)
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        example = json.dumps(body["example"], indent=2, ensure_ascii=False)
        yield f"<p>Body, <code>{escape(media)}</code>, for example</p><pre>{escape(example)}</pre>"
    answers = [(status, one["description"]) for status, one in operation["responses"].items()]
    yield from _table(("status", "meaning"), answers)
    yield "</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"<table><tr>{''.join(f'<th>{name}</th>' for name in header)}</tr>"
    for name, *texts in rows:
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        yield f"<tr><td><code>{escape(name)}</code></td>{cells}</tr>"
    yield "</table>"


@router.get("/openapi.json")
def document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return LegibleJson(request.app.openapi())


@router.get("/docs")
def page(request: Request) -> Response:
    """Return the documentation as one self-contained HTML page."""
    return HTMLResponse(page_of(request.app.openapi()), headers={"Content-Security-Policy": POLICY})
