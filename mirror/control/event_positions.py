"""Positions in the event log, and detection of dropped events. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.metrics import PlacementEvent

Publications = Mapping[int, tuple[PlacementEvent, ...]]
"""Maps the number of each publication in the event log to its events. Dropped publications are missing."""

POSITION: Final = r"[0-9]{1,10}-[0-9]{1,10}"


class EventPosition(NamedTuple):
    """Position in the event log.

    Identifies a publication and the number of its events that were read (`seen`). `0-0` precedes all events.
    """

    publication: int
    seen: int

    def __str__(self) -> str:
        return f"{self.publication}-{self.seen}"


@dataclass(frozen=True, slots=True)
class Following:
    """Events that a reader of the event log gets next: the remaining events of one publication.

    `missed`: True if publications before this one were dropped unread. `events`: each event with the position
    after it.
    """

    missed: bool
    events: tuple[tuple[EventPosition, PlacementEvent], ...]
    position: EventPosition


def position_of(text: str) -> EventPosition:
    """Parse a position in the event log, such as `12-3`. Raises InvalidRequest."""
    if not re.fullmatch(POSITION, text):
        raise InvalidRequest(f"{shown(text)} is not an event id", advice="use 0-0 for all stored events")
    publication, _, index = text.partition("-")
    return EventPosition(int(publication), int(index))


def end_of(kept: Publications) -> EventPosition:
    """Return the position after all stored events."""
    return EventPosition(max(kept) + 1, 0) if kept else EventPosition(0, 0)


def following(kept: Publications, position: EventPosition) -> Following | None:
    """Return the next publication, or None if there is none.

    A position after the end of the log belongs to a log that was lost.
    """
    later = [number for number in kept if number >= position.publication]
    if not kept or (not later and position <= end_of(kept)):
        return None
    number = min(later or kept)
    missed = number != position.publication
    first = 0 if missed else position.seen
    events = kept[number]
    behind = EventPosition(number + 1, 0)
    last = len(events) - 1
    return Following(
        missed,
        tuple(
            (behind if index == last else EventPosition(number, index + 1), event)
            for index, event in enumerate(events)
            if index >= first
        ),
        behind,
    )
