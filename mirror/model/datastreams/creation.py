"""Identifies the call that created a datastream, to recognize retries of the call. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from mirror.errors import KeyReused
from mirror.model import bounds


@dataclass(frozen=True, slots=True)
class Creation:
    """Idempotency record of a creation. `key`: digest of the caller and its idempotency key; `wish`: digest
    of the request. The digests are stored with the definition, so every instance can recognize a retry while
    the datastream exists."""

    key: str
    wish: str

    def __post_init__(self) -> None:
        bounds.line("the idempotency key", self.key)
        bounds.line("the digest of a creation", self.wish)

    def has_key_of(self, other: Creation | None) -> bool:
        """Return whether both datastreams were created by calls with the same key."""
        return other is not None and other.key == self.key


def creation_of(kind: str, key: str, document: object, principal: str) -> Creation:
    """Build the idempotency record of a creation. Keys of different kinds or principals never collide, so no
    caller can block the key of another.

    `kind`: kind of the client that issues the key. `document`: the request as a JSON-ready value, which must
    be equal for equal requests. `principal`: the caller; empty without authentication.
    """
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    owner = [principal] if principal else []
    return Creation(_digest(json.dumps([kind, key, *owner])), _digest(text))


def reused(name: str) -> KeyReused:
    """Return the error for a key that was already used to create this datastream with a different request."""
    return KeyReused(
        f"this key was already used to create datastream {name} with a different request",
        advice="use a new key for each creation; reuse a key only to retry the same request",
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
