"""Errors of /v1 as the OpenAPI document shows them.

An endpoint says `responses=problems(404, 409)` for what its own call may be refused for. What any call may be
answered with (`EVERYWHERE`) is said once, where the application includes the routers of /v1.
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


class _Meaning(NamedTuple):
    """Of a status: in which cases, and one of them."""

    text: str
    kind: str
    detail: str
    advice: str = ""


_MEANINGS: Final = {
    HTTPStatus.BAD_REQUEST: _Meaning(
        "The request cannot be accepted: its body, a parameter or what it asks for.",
        "InvalidRequest",
        "name: String should have at least 1 character",
    ),
    HTTPStatus.UNAUTHORIZED: _Meaning(
        "It is not known who asks, where that is asked; or a server that was asked for this call refuses"
        " Headrace's credentials.",
        "NotAuthenticated",
        "this call says nothing of who asks",
        "send Authorization: Bearer with a token of this service",
    ),
    HTTPStatus.FORBIDDEN: _Meaning(
        "Who asks has no right to it.",
        "Forbidden",
        "ci may not change what belongs to team-orders",
        "an operator or an admin may",
    ),
    HTTPStatus.NOT_FOUND: _Meaning(
        "There is nothing of that name.", "NotFound", "there is no datastream orders"
    ),
    HTTPStatus.CONFLICT: _Meaning(
        "Not in the present state: there is one of that name, its state does not allow it, somebody else was"
        " faster, nothing is stored of it yet, or what is stored is damaged.",
        "IllegalTransition",
        "datastream orders is STOPPED: pause is not possible",
    ),
    HTTPStatus.PRECONDITION_FAILED: _Meaning(
        "The version that If-Match names is not the present one.",
        "StaleVersion",
        "datastream orders is not the version that the change is of",
        "read it again",
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: _Meaning(
        "Fields that cannot be as they are asked for, or a plan that cannot be.",
        "RefusedFields",
        "2 fields cannot be as they are asked for",
    ),
    HTTPStatus.REQUEST_TIMEOUT: _Meaning(
        "The body was not here in time.", "BodyTooLate", "the body was not here within 30 seconds"
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _Meaning(
        "The body is larger than a definition may be.",
        "BodyTooLarge",
        "the body is too large",
        "900000 bytes are possible",
    ),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: _Meaning(
        "The body of a change is not said to be JSON: a page of another site could have sent it.",
        "BodyNotJson",
        "a change has a body of JSON",
        "send a body of JSON, {} at least, with Content-Type: application/json",
    ),
    HTTPStatus.TOO_MANY_REQUESTS: _Meaning(
        "The caller makes more calls than it may.",
        "TooOften",
        "ci calls more than 100 times a second",
        "wait as Retry-After says",
    ),
    HTTPStatus.PRECONDITION_REQUIRED: _Meaning(
        "If-Match is missing: the change does not say of which version it is.",
        "VersionNotGiven",
        "the change of datastream orders does not say of which version",
        "read it, and send its ETag as If-Match; If-Match: * changes whichever is there",
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: _Meaning(
        "An error in Headrace itself; the log has it.",
        "HeadraceError",
        "an error in Headrace itself",
        "see the log of this instance",
    ),
    HTTPStatus.BAD_GATEWAY: _Meaning(
        "A server that was asked for this call said no.", "Refused", "topic orders.created is not there"
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: _Meaning(
        "A server does not answer, or too many such calls are under way.",
        "Busy",
        "8 calls that ask other servers are under way",
        "ask again in a few seconds",
    ),
    HTTPStatus.GATEWAY_TIMEOUT: _Meaning(
        "A server that was asked for this call answered too late.",
        "TimedOut",
        "cluster source did not answer within 10 s",
    ),
}


_WAITED_FOR: Final = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS})


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of an endpoint or a router: each status with a problem document."""
    return {status: _documented(HTTPStatus(status)) for status in sorted(statuses)}


def _documented(status: HTTPStatus) -> dict[str, Any]:
    """FastAPI's own `model` would be of the type of the answers that are none."""
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
"""Any call may be malformed, too large, too often or without a right, may need ZooKeeper or another server,
or may meet a bug."""

OF_CHANGES: Final = problems(415)
"""Any change, besides."""
