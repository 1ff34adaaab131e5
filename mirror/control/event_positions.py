"""Positions in the log of events: what comes after one, and whether something was missed before it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.metrics import PlacementEvent

Publications = Mapping[int, tuple[PlacementEvent, ...]]
"""What the log holds, by number. A number that is missing is a publication that was dropped."""

POSITION: Final = r"[0-9]{1,10}-[0-9]{1,10}"


class EventPosition(NamedTuple):
    """Between two events: all publications before this one were seen, and `seen` events of it. `0-0` is in
    front of all events that there ever were."""

    publication: int
    seen: int

    def __str__(self) -> str:
        return f"{self.publication}-{self.seen}"


@dataclass(frozen=True, slots=True)
class Following:
    """The rest of one publication. `missed`: what was between the position and it is not kept any more.
    `events`: each with the position behind it."""

    missed: bool
    events: tuple[tuple[EventPosition, PlacementEvent], ...]
    position: EventPosition


def position_of(text: str) -> EventPosition:
    """Raises InvalidRequest for what is no position."""
    if not re.fullmatch(POSITION, text):
        raise InvalidRequest(
            f"{shown(text)} is no id of an event", advice="0-0 stands for all events that are kept"
        )
    publication, _, index = text.partition("-")
    return EventPosition(int(publication), int(index))


def end_of(kept: Publications) -> EventPosition:
    """Behind everything."""
    return EventPosition(max(kept) + 1, 0) if kept else EventPosition(0, 0)


def following(kept: Publications, position: EventPosition) -> Following | None:
    """What comes next; None: nothing yet. A position beyond the end is of a log that was lost."""
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
