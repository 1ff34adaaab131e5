"""Asks other instances what only they know: side by side, each until a deadline, some at once.

An asked instance answers for itself alone, so that no question goes round. One that is dead, frozen, slow or
not understood is in the answer as such.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import anyio
import httpx
from anyio import CapacityLimiter, to_thread

from api.fleet.credentials import Credentials
from mirror.coordination.stores.membership import LiveInstance
from mirror.errors import HeadraceError, legible
from mirror.model.documents import parsed
from mirror.model.identifiers import InstanceName

_T = TypeVar("_T")
PATH: Final = "/v1/fleet"
SIGNATURE: Final = "X-Headrace-Signature"
_AT_ONCE: Final = 32
_MOST_BYTES: Final = 64 * 1024 * 1024
_REASON_SHOWN: Final = 300
_PLAIN: Final = {"Accept-Encoding": "identity"}
"""What is not compressed has the size that it has on the way."""
_LONGEST_SECONDS: Final = 60.0
"""Of one step; every question has a deadline for the whole."""


class AnswerState(StrEnum):
    """What became of the question to one instance."""

    ANSWERED = "answered"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Reply(Generic[_T]):
    """What one instance has said. `value` is None unless it has answered; `reason`: why not."""

    instance: InstanceName
    state: AnswerState
    value: _T | None = None
    reason: str = ""


class _NoAnswer(Exception):
    """With the reason."""


class Fleet:
    """Used by the event loop's thread. `transport` makes what HTTP goes through, once."""

    def __init__(
        self,
        credentials: Credentials,
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
        subject: str,
        read: Callable[[Any], _T],
        parameters: Mapping[str, str] | None = None,
        deadline_seconds: float = 0.0,
    ) -> list[Reply[_T]]:
        """What each of them says, in their order. `read`: the meaning of an answer's JSON; raises ValueError
        or HeadraceError.
        Those that were silent the last time are asked last: the others need not wait for them."""
        found: dict[int, Reply[_T]] = {}
        deadline = deadline_seconds or self._deadline

        async def note(position: int) -> None:
            found[position] = await self._reply(others[position], subject, read, parameters or {}, deadline)

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
        one: LiveInstance,
        subject: str,
        read: Callable[[Any], _T],
        parameters: Mapping[str, str],
        deadline: float,
    ) -> Reply[_T]:
        try:
            with anyio.fail_after(deadline):
                async with self._limiter():
                    body = await self._answer(one, subject, parameters)
            value = await to_thread.run_sync(lambda: read(parsed(body)))
        except (TimeoutError, httpx.TimeoutException):
            return self._unheard(one, AnswerState.TIMED_OUT, f"no answer within {deadline:g} s")
        except (_NoAnswer, HeadraceError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
            reason = f"{one.rest_address or 'no address'}: {error or type(error).__name__}"
            return self._unheard(one, AnswerState.UNREACHABLE, legible(reason)[:_REASON_SHOWN])
        self._silent.discard(one.name)
        return Reply(one.name, AnswerState.ANSWERED, value)

    def _unheard(self, one: LiveInstance, state: AnswerState, reason: str) -> Reply[_T]:
        self._silent.add(one.name)
        return Reply(one.name, state, None, reason)

    async def _answer(self, one: LiveInstance, subject: str, parameters: Mapping[str, str]) -> bytes:
        """Raises _NoAnswer, HeadraceError, httpx.HTTPError."""
        nonce = secrets.token_hex(16)
        place = one.rest_address if "://" in one.rest_address else f"http://{one.rest_address}"
        url = httpx.URL(f"{place}{PATH}/{subject}", params=parameters)
        asked = url.raw_path.decode()
        said = partial(self._credentials.authorization, one.name, asked, nonce)
        header = await to_thread.run_sync(said)  # it may have to read the secret first
        async with self._client().stream("GET", url, headers={"Authorization": header, **_PLAIN}) as response:
            body = b""
            if "Content-Encoding" in response.headers:
                raise _NoAnswer("it compresses what must not be compressed")
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise _NoAnswer(f"it answers with more than {_MOST_BYTES} bytes")
        if response.status_code != HTTPStatus.OK:
            raise _NoAnswer(f"HTTP {response.status_code}{_detail(body)}")
        signature = response.headers.get(SIGNATURE, "")
        if not await to_thread.run_sync(self._credentials.is_answer, signature, one.name, nonce, body):
            raise _NoAnswer(f"what answers there is not {one.name}")
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
    """What a problem document says."""
    try:
        document = parsed(body)
    except HeadraceError:
        return ""
    return f": {document['detail']}" if isinstance(document, dict) and "detail" in document else ""
