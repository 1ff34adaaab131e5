"""Errors of /v1 as the OpenAPI document shows them.

An endpoint says `responses=problems(404, 409)` for what its own call may be refused for. What any call may be
answered with (`EVERYWHERE`) is said once, where the application includes the routers of /v1.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

PROBLEM_TYPE: Final = "application/problem+json"


class _ProblemModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ProblemField(_ProblemModel):
    """What is wrong with one field of the body."""

    pointer: str
    """Which field (RFC 6901)."""
    detail: str
    """What is wrong with it."""


class ProblemDocument(_ProblemModel):
    """Why a call was not done (RFC 9457)."""

    type: str = "about:blank"
    """Always `about:blank`: `status` and `kind` say which problem it is."""
    title: str
    """The phrase of the status."""
    status: int
    """The HTTP status."""
    kind: str
    """The class of the error; a client may look at it."""
    detail: str
    """What happened."""
    advice: str
    """What a person can do; empty where there is nothing to say."""
    request_id: str
    """That of the header X-Request-ID; lines of the log have it."""
    errors: list[ProblemField] | None = None
    """All fields of the body that are wrong; left out where it is not about fields."""


_MEANINGS: Final = {
    HTTPStatus.BAD_REQUEST: "The request cannot be accepted: its body, a parameter or what it asks for.",
    HTTPStatus.UNAUTHORIZED: "A server that was asked for this call refuses Headrace's credentials.",
    HTTPStatus.NOT_FOUND: "There is nothing of that name.",
    HTTPStatus.REQUEST_TIMEOUT: "It was not done in time.",
    HTTPStatus.CONFLICT: "Not in the present state: there is one of that name, its state does not allow it,"
    " somebody else was faster, or what is stored is damaged.",
    HTTPStatus.GONE: "What it refers to is not kept any more.",
    HTTPStatus.PRECONDITION_FAILED: "The version that If-Match names is not the present one.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Fields that cannot be as they are asked for, or a plan that cannot be.",
    HTTPStatus.PRECONDITION_REQUIRED: "If-Match is missing: the change does not say of which version it is.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "An error in Headrace itself; the log has it.",
    HTTPStatus.BAD_GATEWAY: "A server that was asked for this call said no.",
    HTTPStatus.SERVICE_UNAVAILABLE: "A server does not answer, or too many such calls are under way.",
    HTTPStatus.GATEWAY_TIMEOUT: "A server that was asked for this call answered too late.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of an endpoint or a router: each status with a problem document."""
    return {status: _documented(HTTPStatus(status)) for status in sorted(statuses)}


def _documented(status: HTTPStatus) -> dict[str, Any]:
    """FastAPI's own `model` would be of the type of the answers that are none."""
    schema = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}
    return {"description": _MEANINGS[status], "content": {PROBLEM_TYPE: {"schema": schema}}}


EVERYWHERE: Final = problems(400, 401, 500, 502, 503, 504)
"""Any call may be malformed, may need ZooKeeper or another server, or may meet a bug."""
