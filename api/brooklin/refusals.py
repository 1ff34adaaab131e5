"""Refusals in Rest.li's envelope and in Brooklin's words: clients look at the status, some at the words."""

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
"""Where Brooklin's server answers another status than /v1 does."""


class RoutingRefusal(HeadraceError):
    """Rest.li itself refuses the call, before Brooklin sees it. The message is Rest.li's."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


class BrooklinRefusal(HeadraceError):
    """Brooklin refuses what is asked, in its words. `cause`: why, as far as the words leave that open."""

    def __init__(self, message: str, status: HTTPStatus, cause: str = "None") -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause


@contextmanager
def in_brooklins_words(words: Mapping[type[HeadraceError], str], *, cause: str = "") -> Iterator[None]:
    """Errors of these kinds are refused in these words with the status that they have anyway. `cause`: said
    instead of what is known here."""
    try:
        yield
    except HeadraceError as error:
        kind = next((kind for kind in words if isinstance(error, kind)), None)
        if kind is None:
            raise
        raise BrooklinRefusal(words[kind], restli_status_of(error), cause or str(error)) from error


def restli_status_of(error: HeadraceError) -> HTTPStatus:
    """The HTTP status of an error on Brooklin's paths."""
    if isinstance(error, RoutingRefusal | BrooklinRefusal):
        return error.status
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), status_of(error))


def restli_problem(error: HeadraceError, instance: str) -> dict[str, Any]:
    """Rest.li's envelope, without a stack trace. The `id` in the message is in the log, too."""
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
