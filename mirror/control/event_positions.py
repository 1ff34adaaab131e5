"""Positions in the event log, and detection of dropped events. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.metrics import EventHistory, PlacementEvent

POSITION: Final = r"[0-9]{1,10}-[0-9]{1,10}"


class EventPosition(NamedTuple):
    """Position in the event log.

    Identifies a publication and the number of its events that were read (`seen`). `0-0` precedes all events.
    """

    publication: int
    seen: int

    def __str__(self) -> str:
        return f"{self.publication}-{self.seen}"


_START: Final = EventPosition(0, 0)


class Gap(StrEnum):
    """Reason why a reader of the event log did not get all events after its position."""

    DROPPED = "the events in between are no longer stored"
    RESET = (
        "the event log was replaced by a new one; its stored events follow, events of the old one may be lost"
    )


@dataclass(frozen=True, slots=True)
class Following:
    """Events that a reader of the event log gets next: the remaining events of one publication.

    `gap`: why events before this publication are missing, None if none are. `events`: each event with the
    position after it.
    """

    gap: Gap | None
    events: tuple[tuple[EventPosition, PlacementEvent], ...]
    position: EventPosition


def position_of(text: str) -> EventPosition:
    """Parse a position in the event log, such as `12-3`. Raises InvalidRequest."""
    if not re.fullmatch(POSITION, text):
        raise InvalidRequest(f"{shown(text)} is not an event id", advice="use 0-0 for all stored events")
    publication, _, index = text.partition("-")
    return EventPosition(int(publication), int(index))


def end_of(history: EventHistory) -> EventPosition:
    """Return the position after all stored events."""
    return EventPosition(max(history.publications) + 1, 0) if history.publications else _START


def following(history: EventHistory, position: EventPosition) -> Following | None:
    """Return the next publication, or None if there is none.

    A position outside of the numbers of the log belongs to another log, which was lost. All stored events
    then follow.
    """
    kept = history.publications
    is_other = position != _START and not (history.first, 0) <= position <= end_of(history)
    later = [number for number in kept if is_other or number >= position.publication]
    if not later:
        return None
    number = min(later)
    begin = position.seen if number == position.publication else 0
    events = kept[number]
    behind = EventPosition(number + 1, 0)
    last = len(events) - 1
    return Following(
        Gap.RESET if is_other else Gap.DROPPED if number > max(position.publication, history.first) else None,
        tuple(
            (behind if index == last else EventPosition(number, index + 1), event)
            for index, event in enumerate(events)
            if index >= begin
        ),
        behind,
    )
