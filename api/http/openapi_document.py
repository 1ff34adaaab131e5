"""OpenAPI document of /v1, as JSON and as one HTML page without scripts.

FastAPI generates the document from the endpoints, and this module completes the document.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from api.http.middleware import RequestIds, SafeHeaders
from api.http.openapi_examples import Examples
from api.http.problems import OF_CHANGES, OF_MODELS, HeaderName, LegibleJson, ProblemDocument, described

router = APIRouter(prefix="/v1", include_in_schema=False)

_SCHEMAS: Final = "#/components/schemas/"
_CREATED: Final = "201"
_OF_THE_MOMENT: Final = frozenset({"/v1/health", "/v1/ready"})
"""Paths whose responses do not depend on the coordination store."""
_NEVER: Final = "HTTPValidationError"
"""Name of FastAPI's default model of validation errors, which these routes never return.

The response is 400 with a problem document, not FastAPI's 422.
"""

DESCRIPTION: Final = """\
Datastreams, plans and status of a Headrace service. Any instance responds.

Errors are problem documents (RFC 9457): `kind` is the class of the error, `advice` suggests a remedy, and
`errors` lists every invalid field by its JSON pointer. Every response has an `X-Request-ID`, which log lines
contain; callers may send their own. A change names the version that it applies to: send the `ETag` of the
version you read as `If-Match`. POST, PUT and PATCH require a JSON body, at least `{}`, and its
`Content-Type`, so that no page of another site can send one. HEAD is GET without the body.

If the service requires authentication, send a token as `Authorization: Bearer`, or connect with a client
certificate: 401 without either, 403 if your role or the owner of the datastream does not allow the call.

Brooklin's clients use `/datastream`, `/diag` and `/health` in the format of Rest.li, which this document does
not cover.
"""
TAGS: Final = [
    {"name": "datastreams", "description": "Definitions: create, change, pause, delete; progress."},
    {
        "name": "plans",
        "description": "Assignment of partitions to tasks, its reasons, new plans, and events.",
    },
    {"name": "operations", "description": "Long-running requests: progress and results."},
    {"name": "status", "description": "Instances, lanes, loads, movement and incidents."},
]
SECURITY_SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of this service: `headrace token add`.",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A client certificate that the settings map to a principal.",
    },
}
SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"certificate": []}, {}]
"""Security requirements of the operations. The last entry is for a service without authentication, which is
the default on loopback."""
SERVERS: Final = [{"url": "/", "description": "The instance that serves this document."}]


class DocumentedApi(FastAPI):
    """The web application, which adds request ids to responses and documents all responses, including
    errors."""

    def build_middleware_stack(self) -> ASGIApp:
        """Wrap the framework's handler of unexpected errors. Responses of error handlers then also have
        request ids."""
        return SafeHeaders(RequestIds(super().build_middleware_stack()))

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, which is generated once."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """Return a short operation id for the OpenAPI document, independent of the path.

    Generated clients use the id as a function name.
    """
    return "_".join([*map(str, route.tags[:1]), route.name])


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    schemas.pop(_NEVER, None)
    schemas.pop("ValidationError", None)
    found = ProblemDocument.model_json_schema(ref_template=_SCHEMAS + "{model}", mode="serialization")
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    document["security"] = SECURITY
    schemas |= found.pop("$defs", {}) | {ProblemDocument.__name__: found}
    for method, path, operation in _operations(document):
        _forget_validation(operation["responses"])
        if method != "get":
            operation["responses"] |= {str(status): dict(response) for status, response in OF_CHANGES.items()}
        is_remembered = method == "get" and path not in _OF_THE_MOMENT
        for status, response in operation["responses"].items():
            names = _headers_of(status, response, is_remembered=is_remembered)
            response["headers"] = response.get("headers", {}) | described(*names)
    _forget_unused(document)
    _add_examples(document, Examples(schemas))
    return document


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield method, path, operation


def _headers_of(status: str, response: dict[str, Any], *, is_remembered: bool) -> Iterator[HeaderName]:
    yield "X-Request-ID"
    if status == _CREATED:
        yield "Location"
    if status.startswith("2"):
        schema = response.get("content", {}).get("application/json", {}).get("schema", {})
        models = [
            str(part.get("$ref", "")).removeprefix(_SCHEMAS) for part in (schema, *schema.get("anyOf", ()))
        ]
        yield from (name for model in models for name in OF_MODELS.get(model, ()))
        if is_remembered:
            yield from ("As-Of-Ms", "Age")


def _forget_validation(responses: dict[str, Any]) -> None:
    content = responses.get("422", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if str(schema.get("$ref", "")).endswith(f"/{_NEVER}"):
        del responses["422"]


def _forget_unused(document: dict[str, Any]) -> None:
    """Remove unreferenced schemas, such as enumerations that were inlined into their fields."""
    schemas = document["components"]["schemas"]
    waiting, used = [*_references(document["paths"])], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += _references(schemas[name])
    for name in schemas.keys() - used:
        del schemas[name]


def _references(part: Any) -> Iterator[str]:
    """Yield the names of the schemas to which a part of the document refers."""
    if isinstance(part, dict):
        if isinstance(reference := part.get("$ref"), str):
            yield reference.removeprefix(_SCHEMAS)
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _add_examples(document: dict[str, Any], examples: Examples) -> None:
    """Add an example to each schema, parameter and body of the OpenAPI document that lacks one."""
    found = {name: examples.of(schema, name) for name, schema in document["components"]["schemas"].items()}
    for name, schema in document["components"]["schemas"].items():
        schema.setdefault("examples", [found[name]])
    for _, _, operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            if not {"example", "examples"} & parameter.keys():
                parameter["example"] = examples.of(parameter["schema"], field=parameter["name"])
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media in (media for body in bodies for media in body.get("content", {}).values()):
            if not {"example", "examples"} & media.keys() and media.get("schema"):
                title = str(media["schema"].get("title", ""))
                media["example"] = examples.of(media["schema"], field=title.lower())


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
    rows = [(item["name"], item["in"], item["description"]) for item in operation.get("parameters", ())]
    if rows:
        yield from _table(("parameter", "in", "meaning"), rows)
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        example = json.dumps(body["example"], indent=2, ensure_ascii=False)
        yield f"<p>Body, <code>{escape(media)}</code>, for example</p><pre>{escape(example)}</pre>"
    answers = [(status, response["description"]) for status, response in operation["responses"].items()]
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
