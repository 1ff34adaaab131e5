"""In which time a datastream is to be in time again: what is late counts as load, spread over it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mirror.model import bounds
from mirror.model.identifiers import GroupName

CATCH_UP: Final = "headrace-catch-up-seconds"
"""Key of the metadata that has it, as a whole number; without it `mirror.leader.catch_up_seconds` counts. It
does not begin with `headrace.`: former versions keep it."""
SHORTEST_SECONDS: Final = 60
LONGEST_SECONDS: Final = 30 * 86_400


def read_catch_up(what: str, value: object) -> int:
    """Raises InvalidRequest."""
    return bounds.digits(what, value, SHORTEST_SECONDS, LONGEST_SECONDS)


def catch_up_by_group(members: Iterable[tuple[GroupName, Mapping[str, str]]]) -> dict[GroupName, int]:
    """Of the groups of datastreams that choose one, the shortest choice. `members`: group and metadata of
    each datastream. What cannot be read is no choice."""
    found: dict[GroupName, int] = {}
    for group, metadata in members:
        value = metadata.get(CATCH_UP, "")
        if value.isascii() and value.isdecimal() and len(value) <= len(str(LONGEST_SECONDS)):
            seconds = min(max(int(value), SHORTEST_SECONDS), LONGEST_SECONDS)
            found[group] = min(found.get(group, seconds), seconds)
    return found
