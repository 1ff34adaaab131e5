"""Authentication between instances of one service, by a shared secret that is never sent.

A query is signed together with the name of its target, so that no other instance accepts it; a response is
signed together with the query, so that another server at the address is not trusted.
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
"""A mismatch may mean that the secret was replaced; it is read again, at most this often."""


class FleetCredentials:
    """Signs and verifies queries and responses. Thread-safe. `read`: returns the stored secret; raises
    Unreachable, DamagedState."""

    def __init__(self, read: Callable[[], str], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._secret: bytes | None = None
        self._read_at = 0.0

    def authorization(self, target: InstanceName, target_path: str, nonce: str) -> str:
        """Return the Authorization header of a query. `target_path`: its path and query string as sent."""
        return f"{SCHEME} {nonce}.{self._signature('question', target, target_path, nonce)}"

    def check_question(self, authorization: str, me: InstanceName, target_path: str) -> str:
        """Verify that a query comes from an instance of this service, and return its nonce. Raises
        NotAuthorized."""
        nonce, _, signature = authorization.removeprefix(f"{SCHEME} ").partition(".")
        if not self._is_right(signature, "question", me, target_path, nonce):
            raise NotAuthorized(
                f"only instances of this service may send this query to {me}",
                advice="use /v1/lanes or /v1/instances",
            )
        return nonce

    def answer_signature(self, me: InstanceName, nonce: str, body: bytes) -> str:
        """Return the signature header of a response."""
        return self._signature("answer", me, nonce, body)

    def is_answer(self, signature: str, target: InstanceName, nonce: str, body: bytes) -> bool:
        """Return whether a response comes from the target of this query."""
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
