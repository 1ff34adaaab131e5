"""Authenticates each request before its body is read, authorizes it, and limits rates.

Rates are limited per caller, by a token bucket that holds at most `burst` calls and refills at `per_second`.
Therefore at most `burst + per_second * t` calls pass in any `t` seconds; rejected calls do not count.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog
from fastapi import Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.origins import check_body_type, check_origin
from api.access.rights import Action, Principal, PrincipalRights, Role, reason_against
from api.access.table import FLEET_PATH, NEEDS, PAGES_PATH, SCHEME
from api.access.tokens import PREFIX, TokenFile
from mirror.control.caller import Caller, RequestedChange
from mirror.errors import Forbidden, HeadraceError, NotAuthenticated, TooOften

SUBJECT: Final = "headrace.certificate_subject"
"""Key in the state of an ASGI scope: subject of the client certificate that the listener verified."""
LISTENER: Final = "headrace.listener"
"""Key in the state of an ASGI scope: listener that accepted the connection; missing for the main listener."""
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="headrace"'}
_BEARER: Final = "bearer "
_EVERYBODY: Final = Principal("everybody", Role.ADMIN)
_OPEN_PATHS: Final = {
    "/v1/health": Action.HEALTH,
    "/v1/ready": Action.HEALTH,
    "/health": Action.HEALTH,
    "/metrics": Action.METRICS,
}
_AS_CALLER: Final = "caller"
_AS_PRINCIPAL: Final = "principal"


class TokenIssuer(Protocol):
    """Interface for verifying tokens that another service has issued."""

    def principal_of(self, token: str) -> Principal:
        """Return the principal that a token identifies.

        Raises NotAuthenticated, and Unreachable if the keys are unavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate limit of a caller. `per_second` > 0: sustained rate. `burst` >= 1: number of calls at once."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """State of the token bucket of one caller at a point in time (monotonic seconds): the calls that it may
    still make."""

    left: float
    at: float


def take(rate: Rate, bucket: Bucket | None, now: float) -> tuple[Bucket, float]:
    """Take one call from a token bucket; return the new bucket, and the seconds to wait if the call must
    wait.

    The seconds are 0 if the call passes. If the call is rejected, the bucket is returned without deduction.
    `bucket`: None for the first call.
    """
    if bucket is None:
        bucket = Bucket(rate.burst, now)
    passed = max(0.0, now - bucket.at)
    level = min(rate.burst, bucket.left + passed * rate.per_second)
    after = Bucket(level, max(now, bucket.at))
    if level >= 1.0:
        return Bucket(level - 1.0, after.at), 0.0
    return after, (1.0 - level) / rate.per_second


_MOST_CALLERS: Final = 10_000
"""Maximum number of callers whose buckets are kept.

A caller whose bucket was dropped starts with a full bucket.
"""


class Throttle:
    """Limits the rate of each caller with a token bucket. Thread-safe."""

    def __init__(self, rate: Rate, monotonic: Callable[[], float], most: int = _MOST_CALLERS) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._most = most
        self._lock = threading.Lock()
        self._buckets = OrderedDict[str, Bucket]()

    def admit(self, caller: str) -> None:
        """Count a call against the rate limit of its caller. Raises TooOften."""
        with self._lock:
            now = self._monotonic()
            self._buckets[caller], seconds = take(self._rate, self._buckets.get(caller), now)
            self._buckets.move_to_end(caller)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        if seconds:
            raise TooOften(
                f"{caller} exceeds the rate limit of {self._rate.per_second:g}/s",
                after_seconds=max(1, math.ceil(seconds)),
                advice="retry after the delay in Retry-After; an operator can change [api.limits]",
            )


@dataclass(frozen=True)
class AccessMethods:
    """The configured methods of authentication.

    Without tokens, issuer and certificates, authentication is off. `certificates`: principals by certificate
    subject. `listeners`: principals by listener, for listeners whose clients send no credentials.
    `open_to_all`: actions that need no credentials.
    """

    tokens: TokenFile | None = None
    issuer: TokenIssuer | None = None
    certificates: Mapping[str, Principal] = field(default_factory=dict)
    listeners: Mapping[str, Principal] = field(default_factory=dict)
    open_to_all: frozenset[Action] = frozenset()
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    throttle: Throttle | None = None

    @property
    def is_asked(self) -> bool:
        """Return whether requests to this service must be authenticated."""
        return self.tokens is not None or self.issuer is not None or bool(self.certificates)

    @property
    def has_readable_tokens(self) -> bool:
        """Return whether the token file can be read; True without a token file."""
        return self.tokens is None or self.tokens.is_readable

    def principal_of(self, headers: Headers, state: Mapping[str, Any]) -> Principal | None:
        """Return the principal of a request; None if the request has no credentials.

        Raises NotAuthenticated, Unreachable.
        """
        if state.get(LISTENER) in self.listeners:
            return self.listeners[state[LISTENER]]
        if not self.is_asked:
            return _EVERYBODY
        given = headers.getlist("authorization")
        if len(given) > 1:
            raise NotAuthenticated("the request has several Authorization headers")
        if given and given[0].lower().startswith(_BEARER):
            token = given[0][len(_BEARER) :].strip()
            if self.issuer is not None and not (self.tokens is not None and token.startswith(PREFIX)):
                return self.issuer.principal_of(token)
            if self.tokens is not None:
                return self.tokens.principal_of(token)
        if given:
            raise NotAuthenticated("unsupported credentials: send Authorization: Bearer or a certificate")
        return self.certificates.get(state.get(SUBJECT, ""))


class Gate:
    """ASGI middleware that authenticates each request before its body is read.

    `refuse` creates the response to a rejected request.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: AccessMethods,
        refuse: Callable[[Request, HeadraceError], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._access = access
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate and authorize one request, and pass it on or reject it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            request = Request(scope)
            try:
                self._admit(request, scope)
            except HeadraceError as error:
                response = await self._refuse(request, error)
                if isinstance(error, NotAuthenticated):
                    response.headers.update(CHALLENGE)
                await response(scope, receive, send)
            else:
                await self._app(scope, receive, send)

    def _admit(self, request: Request, scope: Scope) -> None:
        """Authenticate a request. Raises NotAuthenticated, Forbidden, TooOften, Unreachable."""
        access, state, path = self._access, scope["state"], scope["path"]
        remote = request.client.host if request.client else ""
        structlog.contextvars.bind_contextvars(remote=remote)
        check_origin(request.method, request.headers, access.hosts, access.origins)
        is_signed = path.startswith(FLEET_PATH) and _is_of_an_instance(request.headers)
        principal = None if is_signed else access.principal_of(request.headers, state)
        is_open = _OPEN_PATHS.get(path) in access.open_to_all or _is_of_the_pages(path, request.headers)
        if principal is None and not is_signed and not is_open:
            raise NotAuthenticated(
                "authentication required",
                advice="send Authorization: Bearer with a token (headrace token add)",
            )
        state[_AS_PRINCIPAL] = principal
        state[_AS_CALLER] = _caller(principal, remote, state.get("request_id", ""))
        if principal is not None and principal is not _EVERYBODY:
            structlog.contextvars.bind_contextvars(principal=principal.name)
            if access.throttle is not None and path not in _OPEN_PATHS:
                access.throttle.admit(principal.name)


def _is_of_an_instance(headers: Headers) -> bool:
    return headers.get("authorization", "").startswith(f"{SCHEME} ")


def _is_of_the_pages(path: str, headers: Headers) -> bool:
    """Return whether a request is for a public file of the web pages.

    The files are public, because browsers send no credentials when they open a page. The opened pages call
    /v1 with the rights of the user.
    """
    is_door = path == "/" and "text/html" in headers.get("accept", "")
    return is_door or path == PAGES_PATH.rstrip("/") or path.startswith(PAGES_PATH)


def _caller(principal: Principal | None, remote: str, request_id: str) -> Caller:
    if principal is None:
        return Caller("nobody", "", remote, request_id, NoRights())
    if principal is _EVERYBODY:
        return Caller(remote=remote, request_id=request_id)
    return Caller(principal.name, principal.role, remote, request_id, PrincipalRights(principal))


class NoRights:
    """Rights that permit nothing, for requests that did not pass `Gate`. Satisfies
    `mirror.control.caller.Rights`."""

    def check(self, change: RequestedChange) -> None:
        """Raise Forbidden, because the caller has no rights."""
        raise Forbidden(f"changing {change.name} is not permitted")


CLOSED: Final = Caller("nobody", rights=NoRights())


async def endpoint_is_for_caller(request: Request) -> None:
    """Check whether the caller may use the requested endpoint.

    Every endpoint has this dependency. Raises Forbidden (also for endpoints that are not in the table),
    NotAuthenticated, BodyNotJson.
    """
    key = request.method, request.scope["route"].path
    if key not in NEEDS:
        raise Forbidden(f"{' '.join(key)} is not permitted")
    action, principal = NEEDS[key], request.scope["state"].get(_AS_PRINCIPAL)
    if action is None or action is Action.PAGES:
        return
    if principal is None:
        access: AccessMethods = request.app.state.services.access
        if action not in access.open_to_all:
            raise NotAuthenticated("authentication required")
    elif reason := reason_against(principal, action):
        raise Forbidden(reason)
    check_body_type(*key, request.headers)


def principal_of(request: Request) -> Principal:
    """Return the principal of a request. Raises NotAuthenticated."""
    found: Principal | None = request.scope["state"].get(_AS_PRINCIPAL)
    if found is None:
        raise NotAuthenticated("authentication required")
    return found


def quota_holders_of(request: Request) -> frozenset[str]:
    """Return the names against whose limits a request counts: its principal, and the owners for which the
    principal may act. Empty without authentication, and for requests of other instances."""
    found: Principal | None = request.scope["state"].get(_AS_PRINCIPAL)
    if found is None or found is _EVERYBODY:
        return frozenset()
    return frozenset({f"principal {found.name}"} | {f"owner {owner}" for owner in found.owners})


def admission_of(request: Request, action: Action) -> Callable[[], bool]:
    """Return a function that checks whether the credentials of a request still permit an action.

    Long-lived responses repeat the check. If the check fails, or the credentials cannot be verified now, the
    client reconnects and receives the reason.
    """
    access: AccessMethods = request.app.state.services.access
    headers, state = request.headers, request.scope["state"]

    def is_admitted() -> bool:
        try:
            principal = access.principal_of(headers, state)
        except HeadraceError:
            return False
        return principal is not None and not reason_against(principal, action)

    return is_admitted


def caller_of(request: Request) -> Caller:
    """Return the caller of a request. Control functions check its rights before each write."""
    found: Caller = request.scope["state"].get(_AS_CALLER, CLOSED)
    return found
