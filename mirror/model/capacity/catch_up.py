"""Catch-up time of a datastream: its backlog counts as load, divided by this time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mirror.model import bounds
from mirror.model.identifiers import GroupName

CATCH_UP: Final = "headrace-catch-up-seconds"
"""Metadata key of the catch-up time in whole seconds (default `mirror.leader.catch_up_seconds`).

The metadata key lacks the prefix `headrace.`, so that older versions keep it.
"""
SHORTEST_SECONDS: Final = 60
LONGEST_SECONDS: Final = 30 * 86_400


def read_catch_up(label: str, value: object) -> int:
    """Parse a catch-up time in seconds. Raises InvalidRequest."""
    return bounds.digits(label, value, SHORTEST_SECONDS, LONGEST_SECONDS)


def catch_up_by_group(members: Iterable[tuple[GroupName, Mapping[str, str]]]) -> dict[GroupName, int]:
    """Return the shortest catch-up time of each group. Groups without one are omitted.

    `members`: group and metadata of each datastream. Invalid values are ignored.
    """
    found: dict[GroupName, int] = {}
    for group, metadata in members:
        value = metadata.get(CATCH_UP, "")
        if value.isascii() and value.isdecimal() and len(value) <= len(str(LONGEST_SECONDS)):
            seconds = min(max(int(value), SHORTEST_SECONDS), LONGEST_SECONDS)
            found[group] = min(found.get(group, seconds), seconds)
    return found
