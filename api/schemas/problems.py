"""Errors of /v1 in the OpenAPI document.

An endpoint declares its specific errors as `responses=problems(404, 409)`. Errors that any call can return
(`EVERYWHERE`) are declared once, where the application includes the routers of /v1.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from api.schemas.headers import described

PROBLEM_TYPE: Final = "application/problem+json"


class _ProblemModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ProblemField(_ProblemModel):
    """Problem with one field of the body."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    detail: str
    """Reason."""


class ProblemDocument(_ProblemModel):
    """Reason why a call failed (RFC 9457)."""

    type: str = "about:blank"
    """Always `about:blank`; `status` and `kind` identify the problem."""
    title: str
    """Reason phrase of the status."""
    status: int
    """HTTP status code."""
    kind: str
    """Class of the error, for clients to branch on."""
    detail: str
    """Description of the error."""
    advice: str
    """Suggested remedy; empty if none."""
    request_id: str
    """Value of the header X-Request-ID, which log lines contain."""
    errors: list[ProblemField] | None = None
    """All invalid fields of the body; absent if the error is not about fields."""


class _StatusDescription(NamedTuple):
    """Description of a status, and an example."""

    text: str
    kind: str
    detail: str
    advice: str = ""


_MEANINGS: Final = {
    HTTPStatus.BAD_REQUEST: _StatusDescription(
        "The body or a parameter of the request is invalid.",
        "InvalidRequest",
        "name: String should have at least 1 character",
    ),
    HTTPStatus.UNAUTHORIZED: _StatusDescription(
        "Authentication is required, or an upstream server rejects Headrace's credentials.",
        "NotAuthenticated",
        "authentication required",
        "send an Authorization: Bearer header with a token of this service",
    ),
    HTTPStatus.FORBIDDEN: _StatusDescription(
        "The caller lacks the required permission.",
        "Forbidden",
        "ci may not change resources of team-orders",
        "ask an operator or an admin",
    ),
    HTTPStatus.NOT_FOUND: _StatusDescription(
        "The named resource does not exist.", "NotFound", "datastream orders does not exist"
    ),
    HTTPStatus.CONFLICT: _StatusDescription(
        "Conflict with the current state: the name is taken, the state does not allow the change, the"
        " resource was modified concurrently, or its stored state is missing or damaged.",
        "IllegalTransition",
        "cannot pause datastream orders: it is STOPPED",
    ),
    HTTPStatus.PRECONDITION_FAILED: _StatusDescription(
        "The version in If-Match is not the current one.",
        "StaleVersion",
        "datastream orders was modified since the version in If-Match",
        "read it again and retry",
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: _StatusDescription(
        "Invalid values of fields, or an impossible plan.",
        "RefusedFields",
        "2 fields are invalid",
    ),
    HTTPStatus.REQUEST_TIMEOUT: _StatusDescription(
        "The body did not arrive in time.", "BodyTooLate", "the body did not arrive within 30 seconds"
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _StatusDescription(
        "The body exceeds the maximum size.",
        "BodyTooLarge",
        "the body is too large",
        "the limit is 900000 bytes",
    ),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: _StatusDescription(
        "The Content-Type of a change is not JSON: the request could come from a page of another site.",
        "BodyNotJson",
        "the body of a change must be JSON",
        "send a JSON body, at least {}, with Content-Type: application/json",
    ),
    HTTPStatus.TOO_MANY_REQUESTS: _StatusDescription(
        "The caller exceeds its rate limit.",
        "TooOften",
        "ci exceeds 100 calls per second",
        "retry after the time in Retry-After",
    ),
    HTTPStatus.PRECONDITION_REQUIRED: _StatusDescription(
        "The change has no If-Match header.",
        "VersionNotGiven",
        "the change of datastream orders has no If-Match header",
        "read it and send its ETag as If-Match; If-Match: * changes any version",
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: _StatusDescription(
        "Internal error of Headrace; see the log.",
        "HeadraceError",
        "internal error",
        "see the log of this instance",
    ),
    HTTPStatus.BAD_GATEWAY: _StatusDescription(
        "An upstream server rejected the request.", "Refused", "topic orders.created does not exist"
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: _StatusDescription(
        "An upstream server does not respond, or too many calls to other servers are in progress.",
        "Busy",
        "8 calls to other servers are in progress",
        "retry in a few seconds",
    ),
    HTTPStatus.GATEWAY_TIMEOUT: _StatusDescription(
        "An upstream server did not respond in time.",
        "TimedOut",
        "cluster source did not respond within 10 s",
    ),
}


_WAITED_FOR: Final = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS})


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of an endpoint or a router: each status with a problem document."""
    return {status: _documented(HTTPStatus(status)) for status in sorted(statuses)}


def _documented(status: HTTPStatus) -> dict[str, Any]:
    """Document one status by hand: FastAPI's `model` would use the media type of successful responses."""
    schema = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}
    meaning = _MEANINGS[status]
    headers = described("Retry-After") if status in _WAITED_FOR else {}
    example = ProblemDocument(
        title=status.phrase,
        status=status,
        kind=meaning.kind,
        detail=meaning.detail,
        advice=meaning.advice,
        request_id="4f1c9d0e7a62b358",
    )
    content = {"schema": schema, "example": example.model_dump(exclude_none=True)}
    return {"description": meaning.text, "headers": headers, "content": {PROBLEM_TYPE: content}}


EVERYWHERE: Final = problems(400, 401, 403, 408, 413, 429, 500, 502, 503, 504)
"""Errors of any call: malformed, too large, too frequent or not permitted, failed ZooKeeper or another
server, or a bug."""

OF_CHANGES: Final = problems(415)
"""Further errors of every change."""
