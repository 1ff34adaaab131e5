"""Queries other instances for state that is only in their memory.

Queries run concurrently, with a deadline and a limit on parallel queries. A queried instance responds only
for itself, so queries never loop. Instances that are dead, frozen, slow or incompatible are reported as such.
Instances of one service authenticate with a shared secret, which is never sent. The signature of a query
covers the target's name, so no other instance accepts the query. The signature of a response covers the
query, so a different server at the same address is not trusted.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
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
from pydantic import BaseModel

from api.access.table import SCHEME
from mirror.coordination.stores.membership import LiveInstance
from mirror.errors import HeadraceError, NotAuthorized
from mirror.model import bounds
from mirror.model.documents import parsed
from mirror.model.identifiers import InstanceName
from mirror.model.reasons import legible
from mirror.ports import Clock

_READ_AGAIN_SECONDS: Final = 10.0
"""Minimum seconds between two reads of the shared secret. The secret is read again after a mismatch, because
it may have been replaced."""


class FleetCredentials:
    """Signs and verifies queries between instances and their responses. Thread-safe.

    `read`: returns the stored secret; raises Unreachable, DamagedState.
    """

    def __init__(self, read: Callable[[], str], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._secret: bytes | None = None
        self._read_at = 0.0

    def authorization(self, target: InstanceName, target_path: str, nonce: str) -> str:
        """Return the Authorization header of a query to an instance. `target_path`: path and query string of
        the request, as sent."""
        return f"{SCHEME} {nonce}.{self._signature('question', target, target_path, nonce)}"

    def check_question(self, authorization: str, me: InstanceName, target_path: str) -> str:
        """Verify that a query comes from an instance of this service, and return its nonce.

        Raises NotAuthorized.
        """
        nonce, _, signature = authorization.removeprefix(f"{SCHEME} ").partition(".")
        if not self._is_right(signature, "question", me, target_path, nonce):
            raise NotAuthorized(
                f"only instances of this service may send this query to {me}",
                advice="use /v1/lanes or /v1/instances",
            )
        return nonce

    def answer_signature(self, me: InstanceName, nonce: str, body: bytes) -> str:
        """Return the signature header of a response to a query."""
        return self._signature("answer", me, nonce, body)

    def is_answer(self, signature: str, target: InstanceName, nonce: str, body: bytes) -> bool:
        """Return whether the instance that was queried has signed the response."""
        return self._is_right(signature, "answer", target, nonce, body)

    def _is_right(self, signature: str, *parts: str | bytes) -> bool:
        given = signature.encode(errors="replace")
        if hmac.compare_digest(given, self._signature(*parts).encode()):
            return True
        return self._has_forgotten() and hmac.compare_digest(given, self._signature(*parts).encode())

    def _has_forgotten(self) -> bool:
        with self._lock:
            if self._clock.monotonic() - self._read_at < _READ_AGAIN_SECONDS:
                return False
            self._secret = None
            return True

    def _signature(self, *parts: str | bytes) -> str:
        digest = hmac.new(self._known(), digestmod="sha256")
        for part in parts:
            data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(data))
            digest.update(data)
        return digest.hexdigest()

    def _known(self) -> bytes:
        with self._lock:
            if self._secret is None:
                self._secret, self._read_at = self._read().encode(), self._clock.monotonic()
            return self._secret


_T = TypeVar("_T")
PATH: Final = "/v1/fleet"
SIGNATURE: Final = "X-Headrace-Signature"
_AT_ONCE: Final = 32
DIGEST: Final = "digest"
"""Parameter with the SHA-256 of the body of a query."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a query or a response in bytes."""
_REASON_SHOWN: Final = 300
_PLAIN: Final = {"Accept-Encoding": "identity"}
"""Header of requests for responses without compression.

The size of such responses can be limited while they arrive.
"""
_LONGEST_SECONDS: Final = 60.0
"""Timeout of one step of a request, in addition to the deadline of each query (seconds)."""


class AnswerState(StrEnum):
    """Result of the query to one instance."""

    ANSWERED = "answered"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class FleetQuery:
    """Query to other instances of the service.

    `document`: sent as JSON in the body of a POST. `deadline_seconds`: time to wait for each instance; 0: the
    default.
    """

    subject: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    document: Any = None
    deadline_seconds: float = 0.0

    @cached_property
    def body(self) -> bytes | None:
        """Request body of the query: its document as JSON, empty without a document."""
        return None if self.document is None else json.dumps(self.document).encode()

    def url(self, address: str) -> httpx.URL:
        """Return the URL at which an instance receives the query.

        The URL contains the digest of the body, so that the signature of the URL also covers the body, and
        can be verified before the body is read.
        """
        place = address if "://" in address else f"http://{address}"
        digest = {} if self.body is None else {DIGEST: sha256(self.body).hexdigest()}
        return httpx.URL(f"{place}{PATH}/{self.subject}", params={**self.parameters, **digest})


@dataclass(frozen=True, slots=True)
class InstanceResponse(Generic[_T]):
    """Response of one instance to a query. `value` is None without a response; `reason` is the cause."""

    instance: InstanceName
    state: AnswerState
    value: _T | None = None
    reason: str = ""


class _NoAnswer(Exception):
    """Raised if a query to an instance failed; the message is the reason."""


def known_fields(model: type[BaseModel], value: Any) -> dict[str, Any]:
    """Return the fields of an instance's response that the model defines. Raises InvalidRequest.

    Other fields, which an instance of a newer version may send, are dropped.
    """
    found = bounds.mapping("the response", value)
    return {name: value for name, value in found.items() if name in model.model_fields}


class Fleet:
    """Client that sends queries to other instances, on the event loop's thread.

    `transport` is called once, to create the HTTP transport.
    """

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
        self, others: Sequence[LiveInstance], query: FleetQuery, read: Callable[[Any], _T]
    ) -> list[InstanceResponse[_T]]:
        """Send a query to instances, and return their responses in the same order.

        `read` parses the JSON of a response and raises ValueError or HeadraceError. Instances that did not
        respond to the last query are queried last.
        """
        found: dict[int, InstanceResponse[_T]] = {}

        async def note(position: int) -> None:
            found[position] = await self._reply(others[position], query, read)

        async with anyio.create_task_group() as asking:
            for position in sorted(range(len(others)), key=lambda index: others[index].name in self._silent):
                asking.start_soon(note, position)
        return [found[position] for position in range(len(others))]

    async def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.aclose()
            self._made = None

    async def _reply(
        self, instance: LiveInstance, query: FleetQuery, read: Callable[[Any], _T]
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
        """Send a query and return the verified response. Raises _NoAnswer, HeadraceError, httpx.HTTPError."""
        nonce = secrets.token_hex(16)
        url, method = query.url(instance.rest_address), "GET" if query.body is None else "POST"
        target_path = url.raw_path.decode()
        authorize = partial(self._credentials.authorization, instance.name, target_path, nonce)
        header = await to_thread.run_sync(authorize)  # may read the secret first
        headers = {"Authorization": header, **_PLAIN}
        async with self._client().stream(method, url, content=query.body, headers=headers) as response:
            arrived = bytearray()
            if "Content-Encoding" in response.headers:
                raise _NoAnswer("the instance returned a compressed response, which was not requested")
            async for chunk in response.aiter_bytes():
                arrived += chunk
                if len(arrived) > MOST_BYTES:
                    raise _NoAnswer(f"the response of the instance exceeds {MOST_BYTES} bytes")
        body = bytes(arrived)
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
    """Return the error message (`detail`) from a problem document that an instance has returned."""
    try:
        document = parsed(body)
    except HeadraceError:
        return ""
    return f": {document['detail']}" if isinstance(document, dict) and "detail" in document else ""
