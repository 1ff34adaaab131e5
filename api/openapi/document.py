"""The OpenAPI document of /v1: what FastAPI finds in the endpoints, and what it does not know of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from api.calls.answer_headers import SafeHeaders
from api.calls.request_ids import RequestIds
from api.openapi.examples import Examples
from api.schemas.headers import OF_MODELS, HeaderName, described
from api.schemas.problems import OF_CHANGES, ProblemDocument

_SCHEMAS: Final = "#/components/schemas/"
_CREATED: Final = "201"
_OF_THE_MOMENT: Final = frozenset({"/v1/health", "/v1/ready"})
"""What is never read from ZooKeeper."""
_NEVER: Final = "HTTPValidationError"
"""FastAPI's own answer to bodies and parameters that are wrong; here it is 400 with a problem document."""

DESCRIPTION: Final = """\
Datastreams, plans and the state of a Headrace service. Any instance answers.

Errors are problem documents (RFC 9457): `kind` is the class of the error, `advice` what a person can do,
`errors` every field that is wrong, by its JSON pointer. Every answer has `X-Request-ID`, which the log has,
too; a caller may give its own. A change says which version it is a change of: the `ETag` of what was read
goes into `If-Match`. A POST has a body of JSON, `{}` at least, with its `Content-Type`: no page of another
site can send one.

Where the service asks who calls, a token goes into `Authorization: Bearer`, or the connection shows a
certificate: 401 without either, 403 where the role or the owner of the datastream does not allow the call.

Brooklin's clients are answered at `/datastream`, `/diag` and `/health`, in the forms of Rest.li, which are
not part of this.
"""
TAGS: Final = [
    {"name": "datastreams", "description": "Definitions: create, change, pause, delete; progress."},
    {"name": "plans", "description": "Which task has which partition and why, new plans, and what happened."},
    {"name": "operations", "description": "Long work that was asked for: how far it is, what became of it."},
    {"name": "status", "description": "The instance that is asked, the others, and lanes."},
]
SECURITY_SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of this service: `headrace token add`.",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A certificate that the settings map to a principal.",
    },
}
SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"certificate": []}, {}]
"""The last one: a service that asks nobody who they are, as on loopback by default."""
SERVERS: Final = [{"url": "/", "description": "The instance that serves this document."}]


class DocumentedApi(FastAPI):
    """An application that names each call and describes what it answers, errors included."""

    def build_middleware_stack(self) -> ASGIApp:
        """Calls are named around the framework's own answer to errors that nobody foresaw."""
        return SafeHeaders(RequestIds(super().build_middleware_stack()))

    def openapi(self) -> dict[str, Any]:
        """Made once, then kept."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """Short, and the same wherever the path moves: what generated clients call it."""
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
            operation["responses"] |= {str(status): dict(one) for status, one in OF_CHANGES.items()}
        is_remembered = method == "get" and path not in _OF_THE_MOMENT
        for status, response in operation["responses"].items():
            names = _headers_of(status, response, is_remembered=is_remembered)
            response["headers"] = response.get("headers", {}) | described(*names)
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
            str(one.get("$ref", "")).removeprefix(_SCHEMAS) for one in (schema, *schema.get("anyOf", ()))
        ]
        yield from (name for model in models for name in OF_MODELS.get(model, ()))
        if is_remembered:
            yield from ("As-Of-Ms", "Age")


def _forget_validation(responses: dict[str, Any]) -> None:
    content = responses.get("422", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if str(schema.get("$ref", "")).endswith(f"/{_NEVER}"):
        del responses["422"]


def _add_examples(document: dict[str, Any], examples: Examples) -> None:
    """To whatever has none of its own."""
    found = {name: examples.of(schema, name) for name, schema in document["components"]["schemas"].items()}
    for name, schema in document["components"]["schemas"].items():
        schema.setdefault("examples", [found[name]])
    for _, _, operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            if not {"example", "examples"} & parameter.keys():
                parameter["example"] = examples.of(parameter["schema"], field=parameter["name"])
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media in (one for body in bodies for one in body.get("content", {}).values()):
            if not {"example", "examples"} & media.keys() and media.get("schema"):
                title = str(media["schema"].get("title", ""))
                media["example"] = examples.of(media["schema"], field=title.lower())
