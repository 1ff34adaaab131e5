"""The OpenAPI document of /v1."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from starlette.types import ASGIApp

from api.calls.request_ids import RequestIds
from api.schemas.problems import ProblemDocument

_REFERENCE: Final = "#/components/schemas/{model}"
_NEVER: Final = "HTTPValidationError"
"""FastAPI's own answer to bodies and parameters that are wrong; here it is 400 with a problem document."""


class DocumentedApi(FastAPI):
    """An application that names each call and describes what it answers, errors included."""

    def build_middleware_stack(self) -> ASGIApp:
        """Calls are named around the framework's own answer to errors that nobody foresaw."""
        return RequestIds(super().build_middleware_stack())

    def openapi(self) -> dict[str, Any]:
        """Made once, then kept."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    schemas.pop(_NEVER, None)
    schemas.pop("ValidationError", None)
    found = ProblemDocument.model_json_schema(ref_template=_REFERENCE, mode="serialization")
    schemas |= found.pop("$defs", {}) | {ProblemDocument.__name__: found}
    for operations in document["paths"].values():
        for operation in operations.values():
            _forget_validation(operation["responses"])
    return document


def _forget_validation(responses: dict[str, Any]) -> None:
    content = responses.get("422", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if str(schema.get("$ref", "")).endswith(f"/{_NEVER}"):
        del responses["422"]
