"""Which call has created a datastream, so that the same call, sent again, is one creation. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from mirror.errors import KeyReused
from mirror.model import bounds


@dataclass(frozen=True, slots=True)
class Creation:
    """`key`: digest of the caller and of what it calls the creation; `wish`: digest of what it has asked for.
    They are stored with the definition, so that every instance knows them as long as the datastream is
    there."""

    key: str
    wish: str

    def __post_init__(self) -> None:
        bounds.line("the key of a creation", self.key)
        bounds.line("what a creation has asked for", self.wish)

    def has_key_of(self, other: Creation | None) -> bool:
        """Whether both were created by calls of one key."""
        return other is not None and other.key == self.key


def creation_of(kind: str, key: str, wish: object, principal: str) -> Creation:
    """Keys of two kinds, or of two principals, are never the same: no caller can use up the key of another.
    `kind`: who gives keys of this sort. `wish`: JSON-ready, and equal where the same is asked for.
    `principal`: who calls; empty without authentication."""
    text = json.dumps(wish, separators=(",", ":"), sort_keys=True)
    whose = [principal] if principal else []
    return Creation(_digest(json.dumps([kind, key, *whose])), _digest(text))


def reused(name: str) -> KeyReused:
    """For a creation with a key that another creation has had, which made this datastream."""
    return KeyReused(
        f"this key was given to the creation of datastream {name}, which asked for something else",
        advice="give each creation a key of its own; only the same creation, sent again, has the same key",
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
