"""One table: which HTTP status each error of `mirror.errors` has, and the body that carries it."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse

from mirror import errors

STATUS: Final[dict[type[errors.HeadraceError], HTTPStatus]] = {
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.AlreadyExists: HTTPStatus.CONFLICT,
    errors.IllegalTransition: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.InvalidRequest: HTTPStatus.BAD_REQUEST,
    errors.NotAuthorized: HTTPStatus.UNAUTHORIZED,
    errors.VersionConflict: HTTPStatus.CONFLICT,
    errors.DamagedState: HTTPStatus.CONFLICT,
    errors.PlanRejected: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.TimedOut: HTTPStatus.GATEWAY_TIMEOUT,
    errors.Unreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.CoordinationError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.LoadUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.AnalyticsError: HTTPStatus.BAD_GATEWAY,
    errors.Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Refused: HTTPStatus.BAD_GATEWAY,
    errors.HeadraceError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The nearest ancestor that is listed counts."""


def status_of(error: errors.HeadraceError) -> HTTPStatus:
    """The HTTP status of an error."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def problem(error: errors.HeadraceError) -> dict[str, Any]:
    """A problem document (RFC 9457); `advice` says what to do."""
    status = status_of(error)
    return {
        "title": status.phrase,
        "status": status.value,
        "kind": type(error).__name__,
        "detail": error.message,
        "advice": error.advice,
    }


def restli_problem(error: errors.HeadraceError, instance: str, correlation: str) -> dict[str, Any]:
    """The envelope of Rest.li 2 with Brooklin's message format; without a stack trace."""
    return {
        "status": status_of(error).value,
        "exceptionClass": "com.linkedin.restli.server.RestLiServiceException",
        "message": f"msg={error}; cause=None; instance={instance}; id={correlation};",
    }


class LegibleJson(JSONResponse):
    """JSON that can always be sent: half of a surrogate pair is shown as its escape."""

    def render(self, content: Any) -> bytes:
        """UTF-8."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(
            errors="backslashreplace"
        )
