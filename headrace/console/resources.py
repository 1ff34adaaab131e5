"""Where REST has what commands ask for, and what they wait for there."""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from urllib.parse import quote

from mirror.errors import InvalidRequest

DATASTREAMS: Final = "/v1/datastreams"
GROUPS: Final = "/v1/groups"
OPERATIONS: Final = "/v1/operations"
PLANS: Final = "/v1/plans"
_ELSEWHERE: Final = frozenset({"", ".", ".."})


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
    if name in _ELSEWHERE:
        raise InvalidRequest(f"no datastream is named {name!r}", advice="headrace datastream list shows them")
    return _below(DATASTREAMS, name)


def path_of_group(prefix: str) -> str:
    """Where REST has all datastreams that share tasks. Raises InvalidRequest for what would lead
    elsewhere."""
    if prefix in _ELSEWHERE:
        raise InvalidRequest(f"{prefix!r} is no task prefix", advice="headrace datastream get shows them")
    return _below(GROUPS, prefix)


def path_of_plan(identity: str) -> str:
    """Where REST has a plan that was computed. Raises InvalidRequest for what would lead elsewhere."""
    if identity in _ELSEWHERE:
        raise InvalidRequest(f"{identity!r} is no plan", advice="headrace datastream plan computes one")
    return _below(PLANS, identity)


def _below(folder: str, name: str) -> str:
    return f"{folder}/{quote(name, safe='', errors='surrogatepass')}"
