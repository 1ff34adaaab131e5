"""HTTP status of each error in `mirror.errors`, and the response body for errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse

from mirror import errors
from mirror.model.documents import pointer_to


class MethodNotAllowed(errors.InvalidRequest):
    """The path exists, but not for this method."""


class BodyTooLarge(errors.InvalidRequest):
    """The request body is larger than the limit."""


class BodyNotJson(errors.InvalidRequest):
    """The content type is not JSON, so a page of another site could have sent the request."""


class BodyTooLate(errors.InvalidRequest):
    """The announced body did not arrive in time."""


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
"""Errors that are not listed use their nearest listed ancestor."""

_BODY: Final = "body"
_MOST_PROBLEMS: Final = 100
"""Limits the response to an entirely invalid body."""
_NOT_OF_THE_BODY: Final = frozenset({"query", "path", "header", "cookie"})


def status_of(error: errors.HeadraceError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def headers_of(error: errors.HeadraceError) -> dict[str, str]:
    """Return the response headers that tell the client when and how to retry."""
    if isinstance(error, errors.TooOften):
        return {"Retry-After": str(error.after_seconds)}
    if isinstance(error, BodyTooLate):
        return {"Connection": "close"}  # the remainder of the body is not the next request
    return {"Retry-After": "5"} if status_of(error) is HTTPStatus.SERVICE_UNAVAILABLE else {}


def problem(error: errors.HeadraceError, request_id: str) -> dict[str, Any]:
    """Return a problem document (RFC 9457). `advice`: how to fix it; `errors`: errors of single fields, if
    known."""
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
    """Convert validation errors of pydantic: the message is the first error, `fields` are the first hundred
    of the body."""
    where = ".".join(str(part) for part in found[0]["loc"] if part != _BODY)
    fields = [
        errors.FieldProblem(pointer_to(one["loc"][one["loc"][:1] == (_BODY,) :]), one["msg"])
        for one in found[:_MOST_PROBLEMS]
        if not _NOT_OF_THE_BODY.intersection(one["loc"][:1])
    ]
    return errors.InvalidRequest(f"{where or 'the body'}: {found[0]['msg']}", fields=fields)


class LegibleJson(JSONResponse):
    """JSON response in UTF-8 with lone surrogates escaped."""

    def render(self, content: Any) -> bytes:
        """Return the content as UTF-8."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(
            errors="backslashreplace"
        )
