"""Errors of REST: HTTP status, problem document (RFC 9457), and both in the OpenAPI document.

An endpoint declares its specific errors as `responses=problems(404, 409)`. Errors that any call can return
(`EVERYWHERE`) are declared once, where the application includes the routers of /v1.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import cache
from http import HTTPStatus
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, cast

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, TypeAdapter, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from starlette.responses import JSONResponse

from api.access.origins import BodyNotJson
from mirror import errors
from mirror.model.documents import pointer_to
from mirror.options import validation_text


class MethodNotAllowed(errors.InvalidRequest):
    """Raised if the path exists, but not for the method of the request."""


class BodyTooLarge(errors.InvalidRequest):
    """Raised if the request body is larger than the limit."""


class BodyTooLate(errors.InvalidRequest):
    """Raised if the request body did not arrive in time."""


STATUS: Final[dict[type[errors.HeadraceError], HTTPStatus]] = {
    errors.NotAuthenticated: HTTPStatus.UNAUTHORIZED,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.AlreadyExists: HTTPStatus.CONFLICT,
    errors.KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
    BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    BodyTooLate: HTTPStatus.REQUEST_TIMEOUT,
    BodyNotJson: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.TooOften: HTTPStatus.TOO_MANY_REQUESTS,
    errors.RefusedFields: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.VersionNotGiven: HTTPStatus.PRECONDITION_REQUIRED,
    errors.IllegalTransition: HTTPStatus.CONFLICT,
    errors.NothingStored: HTTPStatus.CONFLICT,
    errors.InvalidRequest: HTTPStatus.BAD_REQUEST,
    errors.NotAuthorized: HTTPStatus.UNAUTHORIZED,
    errors.VersionConflict: HTTPStatus.CONFLICT,
    errors.StaleVersion: HTTPStatus.PRECONDITION_FAILED,
    errors.DamagedState: HTTPStatus.CONFLICT,
    errors.PlanRejected: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.TimedOut: HTTPStatus.GATEWAY_TIMEOUT,
    errors.Unreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.CoordinationError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.LoadUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.HistoryUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.AnalyticsError: HTTPStatus.BAD_GATEWAY,
    errors.Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Refused: HTTPStatus.BAD_GATEWAY,
    errors.HeadraceError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""HTTP status by error class. A class that is not listed has the status of its nearest listed ancestor."""

_BODY: Final = "body"
_MOST_PROBLEMS: Final = 100
"""Maximum number of errors in a response, for a body with very many errors."""
_NOT_OF_THE_BODY: Final = frozenset({"query", "path", "header", "cookie"})


def status_of(error: errors.HeadraceError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def headers_of(error: errors.HeadraceError) -> dict[str, str]:
    """Return the response headers of an error, which tell the client when and how to retry."""
    if isinstance(error, errors.TooOften):
        return {"Retry-After": str(error.after_seconds)}
    if isinstance(error, BodyTooLate):
        return {"Connection": "close"}  # the remainder of the body is not the next request
    return {"Retry-After": "5"} if status_of(error) is HTTPStatus.SERVICE_UNAVAILABLE else {}


def problem(error: errors.HeadraceError, request_id: str) -> dict[str, Any]:
    """Return the problem document (RFC 9457) for an error. `advice`: how to fix the problem; `errors`: errors
    of single fields, if known."""
    status = status_of(error)
    fields = error.fields if isinstance(error, errors.InvalidRequest) else ()
    return {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "kind": type(error).__name__,
        "detail": error.message,
        "advice": error.advice,
        "request_id": request_id,
        **({"errors": [field._asdict() for field in fields]} if fields else {}),
    }


def invalid_body(found: Sequence[Mapping[str, Any]]) -> errors.InvalidRequest:
    """Return the error for a request body that pydantic rejects. The message is the first error; `fields` has
    the first hundred errors of the body."""
    where = ".".join(str(part) for part in found[0]["loc"] if part != _BODY)
    fields = [
        errors.FieldProblem(pointer_to(item["loc"][item["loc"][:1] == (_BODY,) :]), validation_text(item))
        for item in found[:_MOST_PROBLEMS]
        if not _NOT_OF_THE_BODY.intersection(item["loc"][:1])
    ]
    return errors.InvalidRequest(f"{where or 'the body'}: {validation_text(found[0])}", fields=fields)


def json_text(content: Any) -> bytes:
    """Return the content as JSON in UTF-8 with lone surrogates escaped."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")


def json_list(values: Iterable[Any]) -> bytes:
    """Return a list as JSON. Other threads can run between the elements, but not during `json.dumps`."""
    return b"[" + b",".join(map(json_text, values)) + b"]"


class LegibleJson(JSONResponse):
    """JSON response in UTF-8 with lone surrogates escaped."""

    def render(self, content: Any) -> bytes:
        """Return the content as JSON in UTF-8."""
        return json_text(content)


HeaderName = Literal["Age", "As-Of-Ms", "ETag", "Link", "Location", "Retry-After", "X-Request-ID"]

HEADERS: Final[dict[HeaderName, dict[str, Any]]] = {
    "Age": {
        "description": "Age of the response in seconds; only while the coordination store is unreachable.",
        "schema": {"type": "integer"},
        "example": 12,
    },
    "As-Of-Ms": {
        "description": "Time of the returned state (epoch ms); only while the coordination store is"
        " unreachable.",
        "schema": {"type": "integer"},
        "example": 1764000000000,
    },
    "ETag": {
        "description": "Version of the definition, for If-Match of a change (RFC 9110).",
        "schema": {"type": "string"},
        "example": '"1764000000000-3"',
    },
    "Link": {
        "description": 'URL of the next page, with rel="next" (RFC 8288); absent on the last page.',
        "schema": {"type": "string"},
        "example": '</v1/datastreams?limit=100&cursor=b3JkZXJz>; rel="next"',
    },
    "Location": {
        "description": "URL of the resource.",
        "schema": {"type": "string", "format": "uri-reference"},
        "example": "/v1/datastreams/orders",
    },
    "Retry-After": {
        "description": "Time to wait before a retry, in seconds.",
        "schema": {"type": "integer"},
        "example": 5,
    },
    "X-Request-ID": {
        "description": "The caller's id if it is a short token, else a new one; log lines contain it.",
        "schema": {"type": "string"},
        "example": "4f1c9d0e7a62b358",
    },
}

OF_MODELS: Final[dict[str, tuple[HeaderName, ...]]] = {
    "DatastreamAnswer": ("ETag",),
    "GroupMembersAnswer": ("ETag",),
    "MoveAnswer": ("ETag",),
}
"""Headers of responses by response model."""


def described(*names: HeaderName) -> dict[str, Any]:
    """Return the documentation of one header of a response."""
    return {name: HEADERS[name] for name in names}


PROBLEM_TYPE: Final = "application/problem+json"


class AnswerModel(BaseModel):
    """Base of response models, which have only the documented fields."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class StrictModel(BaseModel):
    """Base of models that reject unknown fields and do not convert types.

    For example, 1 is not accepted for true.
    """

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class SharedFields(BaseModel):
    """Base of models whose fields other models inherit.

    In JSON, the fields that a model itself declares come first.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Put the fields that a new model declares before its inherited fields."""
        fields, own = cls.__pydantic_fields__, [*cls.__annotations__]
        first = [name for name in own if name in fields]
        cls.__pydantic_fields__ = {name: fields[name] for name in dict.fromkeys([*first, *fields])}
        cls.model_rebuild(force=True, raise_errors=False)


class RecordAnswer:
    """Base of response models that have the fields of a dataclass, and possibly more.

    A subclass extends the dataclass and this class, and redeclares only fields whose JSON differs.
    `DESCRIPTIONS`: descriptions of fields for the OpenAPI document.
    """

    DESCRIPTIONS: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def of(cls, record: Any, **fields: Any) -> Self:
        """Convert a dataclass instance to a response. `fields`: further fields, or fields with different
        values."""
        kind = cast(Hashable, cls)
        found: Self = _adapter_of(kind).validate_python({**asdict(record), **fields})
        return found

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema, in which all fields are required, because all are always present."""
        found = handler(schema)
        whole = handler.resolve_ref_schema(found)
        for name, field in whole["properties"].items():
            field.pop("default", None)
            if "enum" in field:
                field["title"] = name.replace("_", " ").title()
            if name in cls.DESCRIPTIONS:
                field["description"] = cls.DESCRIPTIONS[name]
        whole |= {"required": list(whole["properties"]), "additionalProperties": False}
        return found


@cache
def _adapter_of(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def by_value(kind: type[StrEnum]) -> WithJsonSchema:
    """Return a schema that lists the values of an enumeration within the field's schema, not as a separate
    type."""
    return WithJsonSchema({"enum": [member.value for member in kind], "type": "string"})


class ProblemField(AnswerModel):
    """Problem with one field of the body."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    detail: str
    """Description of the problem."""


class ProblemDocument(AnswerModel):
    """Problem document (RFC 9457): the reason why a call failed."""

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
    """Value of the header X-Request-ID, which log lines about the request contain."""
    errors: list[ProblemField] | None = None
    """All invalid fields of the body; absent if the error does not concern fields."""


class _StatusDescription(NamedTuple):
    """Documentation of an HTTP status: its meaning, and an example of its problem document."""

    text: str
    kind: str
    detail: str
    advice: str = ""


_MEANINGS: Final = {
    HTTPStatus.BAD_REQUEST: _StatusDescription(
        "The body or a parameter of the request is invalid.",
        "InvalidRequest",
        "name: must have at least 1 character",
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
        "The version in If-Match is not the current version.",
        "StaleVersion",
        "datastream orders was modified since the version in If-Match",
        "read it again and retry",
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: _StatusDescription(
        "Fields have invalid values, or no plan is possible.", "RefusedFields", "2 fields are invalid"
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
    """Return `responses=` for an endpoint or router: the documentation of each status, with a problem
    document."""
    return {status: _documented(HTTPStatus(status)) for status in sorted(statuses)}


def _documented(status: HTTPStatus) -> dict[str, Any]:
    """Return the OpenAPI documentation of one error status.

    FastAPI's `model` is not used, because it would use the media type of successful responses.
    """
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
"""Errors that any call can return.

The errors mean a malformed, too large, too frequent or forbidden request, a failure of the coordination store
or another server, or a bug.
"""

OF_CHANGES: Final = problems(415)
"""Further errors that every change can return."""
