"""Queries other instances for state that only they have: concurrently, with a deadline and a limit on
parallel queries.

A queried instance responds only for itself, so queries never loop. Instances that are dead, frozen, slow or
incompatible are reported as such.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import anyio
import httpx
from anyio import CapacityLimiter, to_thread

from api.fleet.credentials import FleetCredentials
from mirror.coordination.stores.membership import LiveInstance
from mirror.errors import HeadraceError, legible
from mirror.model.documents import parsed
from mirror.model.identifiers import InstanceName

_T = TypeVar("_T")
PATH: Final = "/v1/fleet"
SIGNATURE: Final = "X-Headrace-Signature"
_AT_ONCE: Final = 32
DIGEST: Final = "digest"
"""Parameter with the SHA-256 of the body of a query."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a body."""
_REASON_SHOWN: Final = 300
_PLAIN: Final = {"Accept-Encoding": "identity"}
"""Without compression, a size limit can be enforced while the response arrives."""
_LONGEST_SECONDS: Final = 60.0
"""Timeout of one step; every query has an overall deadline."""


class AnswerState(StrEnum):
    """Outcome of the query to one instance."""

    ANSWERED = "answered"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class FleetQuery:
    """Query to other instances. `document`: sent as JSON in the body of a POST. `deadline_seconds`: time to
    wait for each instance; 0: the default."""

    subject: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    document: Any = None
    deadline_seconds: float = 0.0

    @cached_property
    def body(self) -> bytes | None:
        """The document as sent, if any."""
        return None if self.document is None else json.dumps(self.document).encode()

    def url(self, address: str) -> httpx.URL:
        """Return the URL at an instance. It contains the digest of the body, so that its signature covers the
        body and can be verified first."""
        place = address if "://" in address else f"http://{address}"
        digest = {} if self.body is None else {DIGEST: sha256(self.body).hexdigest()}
        return httpx.URL(f"{place}{PATH}/{self.subject}", params={**self.parameters, **digest})


@dataclass(frozen=True, slots=True)
class InstanceResponse(Generic[_T]):
    """Response of one instance. `value` is None if it did not respond; `reason` is the cause."""

    instance: InstanceName
    state: AnswerState
    value: _T | None = None
    reason: str = ""


class _NoAnswer(Exception):
    """The query failed; the message is the reason."""


class Fleet:
    """Client for queries to other instances, used by the event loop's thread. `transport` creates the HTTP
    transport, once."""

    def __init__(
        self,
        credentials: FleetCredentials,
        transport: Callable[[], httpx.AsyncBaseTransport],
        deadline_seconds: float,
    ) -> None:
        self._credentials = credentials
        self._transport = transport
        self._deadline = deadline_seconds
        self._made: httpx.AsyncClient | None = None
        self._slots: CapacityLimiter | None = None
        self._silent: set[InstanceName] = set()

    async def ask(
        self,
        others: Sequence[LiveInstance],
        query: FleetQuery,
        read: Callable[[Any], _T],
    ) -> list[InstanceResponse[_T]]:
        """Return the replies of these instances in their order. `read` parses the JSON of a response and
        raises ValueError or HeadraceError. Instances that did not respond last time are queried last, so that
        they do not delay other queries."""
        found: dict[int, InstanceResponse[_T]] = {}

        async def note(position: int) -> None:
            found[position] = await self._reply(others[position], query, read)

        async with anyio.create_task_group() as asking:
            for position in sorted(range(len(others)), key=lambda one: others[one].name in self._silent):
                asking.start_soon(note, position)
        return [found[position] for position in range(len(others))]

    async def close(self) -> None:
        """Release the connections."""
        if self._made is not None:
            await self._made.aclose()
            self._made = None

    async def _reply(
        self,
        instance: LiveInstance,
        query: FleetQuery,
        read: Callable[[Any], _T],
    ) -> InstanceResponse[_T]:
        deadline = query.deadline_seconds or self._deadline
        try:
            with anyio.fail_after(deadline):
                async with self._limiter():
                    body = await self._answer(instance, query)
            value = await to_thread.run_sync(lambda: read(parsed(body)))
        except (TimeoutError, httpx.TimeoutException):
            return self._unheard(instance, AnswerState.TIMED_OUT, f"no response within {deadline:g} s")
        except (_NoAnswer, HeadraceError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
            reason = f"{instance.rest_address or 'no address'}: {error or type(error).__name__}"
            return self._unheard(instance, AnswerState.UNREACHABLE, legible(reason)[:_REASON_SHOWN])
        self._silent.discard(instance.name)
        return InstanceResponse(instance.name, AnswerState.ANSWERED, value)

    def _unheard(self, instance: LiveInstance, state: AnswerState, reason: str) -> InstanceResponse[_T]:
        self._silent.add(instance.name)
        return InstanceResponse(instance.name, state, None, reason)

    async def _answer(self, instance: LiveInstance, query: FleetQuery) -> bytes:
        """Send a query and return the verified body. Raises _NoAnswer, HeadraceError, httpx.HTTPError."""
        nonce = secrets.token_hex(16)
        url, method = query.url(instance.rest_address), "GET" if query.body is None else "POST"
        target_path = url.raw_path.decode()
        authorize = partial(self._credentials.authorization, instance.name, target_path, nonce)
        header = await to_thread.run_sync(authorize)  # may read the secret first
        headers = {"Authorization": header, **_PLAIN}
        async with self._client().stream(method, url, content=query.body, headers=headers) as response:
            body = b""
            if "Content-Encoding" in response.headers:
                raise _NoAnswer("the instance returned a compressed response, which was not requested")
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise _NoAnswer(f"the response of the instance exceeds {MOST_BYTES} bytes")
        if response.status_code != HTTPStatus.OK:
            raise _NoAnswer(f"HTTP {response.status_code}{_detail(body)}")
        signature = response.headers.get(SIGNATURE, "")
        if not await to_thread.run_sync(self._credentials.is_answer, signature, instance.name, nonce, body):
            raise _NoAnswer(f"another server responds at the address of {instance.name}")
        return body

    def _client(self) -> httpx.AsyncClient:
        if self._made is None:
            self._made = httpx.AsyncClient(
                transport=self._transport(), timeout=_LONGEST_SECONDS, trust_env=False
            )
        return self._made

    def _limiter(self) -> CapacityLimiter:
        if self._slots is None:
            self._slots = CapacityLimiter(_AT_ONCE)
        return self._slots


def _detail(body: bytes) -> str:
    """Return the detail of a problem document."""
    try:
        document = parsed(body)
    except HeadraceError:
        return ""
    return f": {document['detail']}" if isinstance(document, dict) and "detail" in document else ""
