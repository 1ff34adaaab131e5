"""How instances of one service know each other: by a secret that only they can read, and never send.

A question is signed with the name of the instance that is meant, so that no other one takes it for its own;
an answer is signed with the question, so that whatever else listens at an address is not believed.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from typing import Final

from api.access.table import SCHEME
from mirror.errors import NotAuthorized
from mirror.model.identifiers import InstanceName
from mirror.ports import Clock

_READ_AGAIN_SECONDS: Final = 10.0
"""A signature that is wrong may be of a secret that somebody has replaced."""


class Credentials:
    """For any thread. `read`: the secret as it is kept; raises Unreachable, DamagedState."""

    def __init__(self, read: Callable[[], str], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._secret: bytes | None = None
        self._read_at = 0.0

    def authorization(self, target: InstanceName, asked: str, nonce: str) -> str:
        """The header of a question. `asked`: its path and query as they are sent."""
        return f"{SCHEME} {nonce}.{self._signature('question', target, asked, nonce)}"

    def check_question(self, authorization: str, me: InstanceName, asked: str) -> str:
        """Returns the nonce of a question that an instance of this service has asked of us. Raises
        NotAuthorized."""
        nonce, _, signature = authorization.removeprefix(f"{SCHEME} ").partition(".")
        if not self._is_right(signature, "question", me, asked, nonce):
            raise NotAuthorized(
                f"only instances of this service may ask {me} this",
                advice="/v1/lanes and /v1/instances answer everybody",
            )
        return nonce

    def answer_signature(self, me: InstanceName, nonce: str, body: bytes) -> str:
        """The header of an answer."""
        return self._signature("answer", me, nonce, body)

    def is_answer(self, signature: str, target: InstanceName, nonce: str, body: bytes) -> bool:
        """Whether the instance that was meant has said this, to this question."""
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
