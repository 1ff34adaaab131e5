"""Where REST has what commands ask for, and what they wait for there."""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from urllib.parse import quote

from mirror.errors import InvalidRequest

DATASTREAMS: Final = "/v1/datastreams"
OPERATIONS: Final = "/v1/operations"


class Condition(StrEnum):
    """What a datastream is waited to be."""

    READY = "ready"
    RUNNING = "running"
    CAUGHT_UP = "caught-up"
    STOPPED = "stopped"
    DELETED = "deleted"


def path_of(name: str) -> str:
    """Where REST has a datastream of any name, also one that is damaged. Raises InvalidRequest for names
    that would lead elsewhere."""
    if name in ("", ".", ".."):
        raise InvalidRequest(f"no datastream is named {name!r}", advice="headrace datastream list shows them")
    return f"{DATASTREAMS}/{quote(name, safe='', errors='surrogatepass')}"
