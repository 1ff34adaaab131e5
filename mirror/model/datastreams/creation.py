"""Recognises retries of the call that created a datastream. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from mirror.errors import KeyReused
from mirror.model import bounds


@dataclass(frozen=True, slots=True)
class Creation:
    """Data with which every instance recognises a retry of a creation. `key`: digest of the caller and its
    idempotency key. `wish`: digest of the request. Stored with the definition."""

    key: str
    wish: str

    def __post_init__(self) -> None:
        bounds.line("the idempotency key", self.key)
        bounds.line("the digest of a creation", self.wish)

    def has_key_of(self, other: Creation | None) -> bool:
        """Return whether both datastreams were created with the same idempotency key."""
        return other is not None and other.key == self.key


def creation_of(kind: str, key: str, document: object, principal: str) -> Creation:
    """Return the idempotency record of a creation.

    `kind`: kind of client that issues the key. `document`: the request as a JSON value. `principal`: the
    caller, empty without authentication. Keys of different kinds or principals never collide.
    """
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    owner = [principal] if principal else []
    return Creation(_digest(json.dumps([kind, key, *owner])), _digest(text))


def reused(name: str) -> KeyReused:
    """Return the error for a key that was already used with a different request."""
    return KeyReused(
        f"this key was already used to create datastream {name} with a different request",
        advice="use a new key for each creation; reuse a key only to retry the same request",
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
