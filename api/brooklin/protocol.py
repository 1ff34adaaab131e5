"""Rules for every Rest.li request: protocol versions, headers, names in paths, collections, and errors.

Errors are in Rest.li's format and have Brooklin's messages, because clients evaluate the status, and some
also the message.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.gate import LISTENER
from api.http.problems import status_of
from mirror.errors import HeadraceError, IllegalTransition, InvalidRequest, KeyReused, RefusedFields
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.bounds import shown

_log = get_logger(__name__)
_EXCEPTION: Final = "com.linkedin.restli.server.RestLiServiceException"
STATUS: Final[Mapping[type[HeadraceError], HTTPStatus]] = {
    RefusedFields: HTTPStatus.BAD_REQUEST,
    IllegalTransition: HTTPStatus.METHOD_NOT_ALLOWED,
    KeyReused: HTTPStatus.CONFLICT,
}
"""Errors for which Brooklin's server returns another status than /v1."""


class RoutingRefusal(HeadraceError):
    """A request that Rest.li rejects before Brooklin handles it. The error has Rest.li's message."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


class BrooklinRefusal(HeadraceError):
    """A request that Brooklin rejects. The error has Brooklin's message. `cause`: the reason, or empty if the
    message already contains it."""

    def __init__(self, message: str, status: HTTPStatus, cause: str = "None") -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause


@contextmanager
def in_brooklins_words(words: Mapping[type[HeadraceError], str], *, cause: str = "") -> Iterator[None]:
    """Replace each error whose type is in `words` by a BrooklinRefusal with the message for that type.

    The status does not change. `cause`: text that replaces the message of the original error.
    """
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
    """Return an error in Rest.li's format, without a stack trace. The `id` in the message is also logged."""
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


VERSION: Final = "X-RestLi-Protocol-Version"
METHOD: Final = "X-RestLi-Method"
OVERRIDE: Final = "X-HTTP-Method-Override"
_OLDEST: Final = (1, 0, 0)
_NEWEST: Final = (2, 0, 0)
_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")
_ROOTS: Final = frozenset({"datastream", "diag", "health"})
_JSON: Final = frozenset({"application/json", "application/*", "*/*"})
_KEPT_IN_PATHS: Final = "=&+$@!*~"
"""Characters that the Java client leaves unescaped in a path, besides letters, digits and `-._`."""


@dataclass(frozen=True, slots=True)
class RestliProtocol:
    """Rest.li protocol version of a request.

    A request without a version, such as one sent with curl, has version 1.0.0.
    """

    text: str

    @property
    def spoken(self) -> str:
        """Rest.li protocol version in which the service responds.

        The response has the version of the request if supported, otherwise the newest supported version.
        """
        return self.text if self.is_supported else "2.0.0"

    @property
    def id_header(self) -> str:
        """Name of the header that contains the key of a created entity."""
        return "X-RestLi-Id" if self._is_second else "X-LinkedIn-Id"

    @property
    def error_header(self) -> str:
        """Name of the header that marks a response as an error."""
        return "X-RestLi-Error-Response" if self._is_second else "X-LinkedIn-Error-Response"

    @property
    def is_supported(self) -> bool:
        """True if the Rest.li protocol version is between 1.0.0 and 2.0.0."""
        return _OLDEST <= self._numbers <= _NEWEST

    @property
    def _is_second(self) -> bool:
        return self._numbers >= _NEWEST or not self.is_supported

    @property
    def _numbers(self) -> tuple[int, ...]:
        found = _VERSION.fullmatch(self.text)
        return tuple(map(int, found.groups())) if found else (0,)


def protocol_of(headers: Mapping[str, str]) -> RestliProtocol:
    """Return the Rest.li protocol version that the headers of a request name."""
    return RestliProtocol(headers.get(VERSION, "1.0.0"))


def is_brooklins(path: str) -> bool:
    """Return whether a URL path belongs to Brooklin's interface."""
    return path.removeprefix("/").partition("/")[0] in _ROOTS


def check_call(headers: Mapping[str, str]) -> None:
    """Raise RoutingRefusal for an unsupported version, Accept header or method override."""
    protocol = protocol_of(headers)
    if not protocol.is_supported:
        raise RoutingRefusal(
            f"Rest.li protocol version {shown(protocol.text)} used by the client is not supported!"
        )
    ranges = [media.partition(";")[0].strip().lower() for media in headers.get("Accept", "*/*").split(",")]
    if not _JSON.intersection(ranges):
        raise RoutingRefusal(
            "None of the types in the request's 'Accept' header are supported."
            " Supported MIME types are: [application/json]",
            HTTPStatus.NOT_ACCEPTABLE,
        )
    if OVERRIDE in headers:
        raise RoutingRefusal(f"query tunnelling ({OVERRIDE}) is not supported: send the query in the URL")


def path_of(name: str) -> str:
    """Return the URL path of a datastream, percent-encoded as by Brooklin's Java client."""
    return f"/datastream/{quote(name, safe=_KEPT_IN_PATHS)}"


def unsupported(method: str, target: str, headers: Mapping[str, str]) -> RoutingRefusal:
    """Return the error for an HTTP method that the resource does not have. `target`: path and query."""
    method_override = headers.get(METHOD, "")
    return RoutingRefusal(
        f"{method} operation not supported for URI: '{target}' with X-RestLi-Method: '{method_override}'"
    )


def unknown(method: str, kind: str, target: str) -> RoutingRefusal:
    """Return the error for an unknown finder or action."""
    resource = "com.linkedin.datastream.server.dms.DatastreamResources"
    return RoutingRefusal(
        f"{method} operation named {kind} not supported on resource '{resource}' URI: '{target}'"
    )


class SpokenVersions:
    """ASGI middleware that rejects unsupported Rest.li versions and adds the version to responses.

    Requests to other paths are passed on unchanged.
    """

    def __init__(self, app: ASGIApp, refuse: Callable[[Request, HeadraceError], Awaitable[Response]]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the Rest.li version of a request to Brooklin's paths, and pass the request on."""
        if scope["type"] != "http" or not is_brooklins(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[VERSION] = protocol_of(request.headers).spoken
            await send(message)

        try:
            check_call(request.headers)
        except RoutingRefusal as error:
            answer = await self._refuse(request, error)
            await answer(scope, receive, with_version)
        else:
            await self._app(scope, receive, with_version)


class BrooklinSurface:
    """ASGI application of the listener for Brooklin clients.

    The application passes on requests to Brooklin's paths, marked with this listener, and returns 404 for
    other paths.
    """

    def __init__(self, app: ASGIApp, listener: str) -> None:
        self._app = app
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request to one of Brooklin's paths; respond with 404 to any other request."""
        if scope["type"] != "http":
            return
        if is_brooklins(scope["path"]):
            state = {**scope.get("state", {}), LISTENER: self._listener}
            await self._app({**scope, "state": state}, receive, send)
            return
        answer = PlainTextResponse("this listener serves only Brooklin's interface", HTTPStatus.NOT_FOUND)
        await answer(scope, receive, send)


_USUAL_COUNT: Final = 10
"""Count that Rest.li reports for a request without a count. Brooklin returns all elements in this case."""
_DEEPEST: Final = 20
Mask = dict[str, "Mask | None"]
"""Requested fields, each with the requested fields inside it; None means all fields."""


@dataclass(frozen=True, slots=True)
class CollectionPage:
    """Page of a collection that a client requests. `count` None means all elements from `start` on."""

    start: int = 0
    count: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> CollectionPage:
        """Parse the page that a query requests. Raises RoutingRefusal for invalid numbers."""
        start, count = _number(query, "start"), _number(query, "count")
        return cls(start or 0, count)

    def of_all(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Return the elements on this page of a collection."""
        end = None if self.count is None else self.start + self.count
        return elements[self.start : end]


def collection(
    elements: Sequence[Any], page: CollectionPage, path: str, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return one page of a collection as a Rest.li response.

    If the page is full, the response links to the next page.
    """
    count = _USUAL_COUNT if page.count is None else page.count
    paging: dict[str, Any] = {"start": page.start, "count": count}
    if count:
        links = []
        if page.start:
            links.append(_link("prev", max(0, page.start - count), count, path, query))
        if len(elements) == count:
            links.append(_link("next", page.start + count, count, path, query))
        paging["links"] = links
    return {"elements": list(elements), "paging": paging}


def chosen_fields(query: Mapping[str, str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the projection that `fields=name,source:(connectionString)` requests. Raises RoutingRefusal."""
    text = query.get("fields", "")
    if not text:
        return lambda document: document
    mask, rest = _mask(text, 0)
    if rest:
        raise _unreadable(text)
    return lambda document: _masked(document, mask)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if text.startswith("-"):
        raise RoutingRefusal("start/count parameters must be non-negative")
    try:
        return bounds.digits(name, text, 0, bounds.LARGEST_PARTITION)
    except InvalidRequest as error:
        raise RoutingRefusal(f"Invalid value for parameter '{name}': {error.message}") from error


def _link(rel: str, start: int, count: int, path: str, query: Mapping[str, str]) -> dict[str, str]:
    others = {key: value for key, value in query.items() if key not in {"start", "count"}}
    parameters = urlencode({"start": start, "count": count, **others}, quote_via=quote)
    return {"rel": rel, "type": "application/json", "href": f"{path}?{parameters}"}


def _mask(text: str, depth: int) -> tuple[Mask, str]:
    """Parse a projection up to its end or a closing bracket, and return the field names and the unparsed
    text."""
    found: Mask = {}
    while depth <= _DEEPEST:
        end = next((at for at, character in enumerate(text) if character in ",:()"), len(text))
        name, rest = text[:end], text[end:]
        if not name:
            break
        found[name] = None
        if rest.startswith(":("):
            found[name], rest = _mask(rest[2:], depth + 1)
            if not rest.startswith(")"):
                break
            rest = rest[1:]
        if not rest.startswith(","):
            return found, rest
        text = rest[1:]
    raise _unreadable(text)


def _masked(document: dict[str, Any], mask: Mask) -> dict[str, Any]:
    left = {}
    for name, value in document.items():
        if name in mask:
            inner = mask[name]
            left[name] = _masked(value, inner) if inner is not None and isinstance(value, dict) else value
    return left


def _unreadable(text: str) -> RoutingRefusal:
    return RoutingRefusal(f"Invalid value for parameter 'fields': {bounds.shown(text)}")
