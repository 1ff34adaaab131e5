"""Errors in Rest.li's envelope with Brooklin's messages: clients evaluate the status, some also the
message."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import structlog

from api.errors import status_of
from mirror.errors import HeadraceError, IllegalTransition, KeyReused, RefusedFields

_log = structlog.get_logger(__name__)
_EXCEPTION: Final = "com.linkedin.restli.server.RestLiServiceException"
STATUS: Final[Mapping[type[HeadraceError], HTTPStatus]] = {
    RefusedFields: HTTPStatus.BAD_REQUEST,
    IllegalTransition: HTTPStatus.METHOD_NOT_ALLOWED,
    KeyReused: HTTPStatus.CONFLICT,
}
"""Errors for which Brooklin's server returns another status than /v1."""


class RoutingRefusal(HeadraceError):
    """Rest.li itself rejects the request before Brooklin handles it. The message is Rest.li's."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


class BrooklinRefusal(HeadraceError):
    """Brooklin rejects the request, with its message. `cause`: the reason, unless the message already
    contains it."""

    def __init__(self, message: str, status: HTTPStatus, cause: str = "None") -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause


@contextmanager
def in_brooklins_words(words: Mapping[type[HeadraceError], str], *, cause: str = "") -> Iterator[None]:
    """Convert errors of these kinds to BrooklinRefusal with the given messages; the status does not change.
    `cause`: replaces the text of the error."""
    try:
        yield
    except HeadraceError as error:
        kind = next((kind for kind in words if isinstance(error, kind)), None)
        if kind is None:
            raise
        raise BrooklinRefusal(words[kind], restli_status_of(error), cause or str(error)) from error


def restli_status_of(error: HeadraceError) -> HTTPStatus:
    """Return the HTTP status of an error on Brooklin's paths."""
    if isinstance(error, RoutingRefusal | BrooklinRefusal):
        return error.status
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), status_of(error))


def restli_problem(error: HeadraceError, instance: str) -> dict[str, Any]:
    """Return the error in Rest.li's envelope, without a stack trace. The `id` in the message is also
    logged."""
    status, correlation = restli_status_of(error), secrets.token_hex(3)
    _log.info("request refused", status=status.value, reason=str(error), id=correlation)
    return {
        "status": status.value,
        "exceptionClass": _EXCEPTION,
        "message": _words(error, instance, correlation),
    }


def _words(error: HeadraceError, instance: str, correlation: str) -> str:
    if isinstance(error, RoutingRefusal):
        return error.message
    cause = error.cause if isinstance(error, BrooklinRefusal) else "None"
    return f"msg={error}; cause={cause}; instance={instance}; id={correlation};"
