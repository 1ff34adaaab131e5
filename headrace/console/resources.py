"""Where REST has what commands ask for, what they wait for there, and how an instance is by its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from mirror.errors import InvalidRequest
from mirror.wording import duration_text

DATASTREAMS: Final = "/v1/datastreams"
LOST_DATASTREAMS: Final = "/v1/lost-datastreams"
GROUPS: Final = "/v1/groups"
OPERATIONS: Final = "/v1/operations"
PLANS: Final = "/v1/plans"
UNKNOWN: Final = "?"
"""An unknown value in a cell of a table."""
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


def path_of_lost(name: str) -> str:
    """Where REST has a datastream that ZooKeeper has lost. Raises InvalidRequest for names that would lead
    elsewhere."""
    if name in _ELSEWHERE:
        raise InvalidRequest(f"no datastream is named {name!r}", advice="headrace datastream lost lists them")
    return _below(LOST_DATASTREAMS, name)


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


def instance_state(instance: Mapping[str, Any]) -> str:
    """One word for a person: well, not well, leaving, unreachable, timed out."""
    if instance["health"] is None:
        return str(instance["state"])
    if instance["is_leaving"]:
        return "leaving"
    return "well" if instance["health"]["is_well"] else "not well"


def instance_troubles(instance: Mapping[str, Any]) -> Iterator[str]:
    """What is not well of it, a sentence for each part; why it has not answered, where it has not."""
    if instance["health"] is None:
        yield instance["reason"] or instance["state"]
        return
    for part, condition in instance["health"]["parts"].items():
        if not condition["is_well"]:
            yield f"{part}: {condition['sentence']}"


def _below(folder: str, name: str) -> str:
    return f"{folder}/{quote(name, safe='', errors='surrogatepass')}"


def age_text(milliseconds: float | None) -> str:
    """The age of a record, for a table."""
    return UNKNOWN if milliseconds is None else duration_text(milliseconds / 1_000)
