"""Followers of the event log get every event once or a gap, despite reconnects and dropped events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.control.event_positions import EventPosition, end_of, following, position_of
from mirror.coordination.stores.events import command_event
from mirror.errors import InvalidRequest
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import PlacementEvent


def publication(number: int, size: int) -> tuple[PlacementEvent, ...]:
    return tuple(command_event(DatastreamName("orders"), f"{number}/{index}", 1) for index in range(size))


@given(st.integers(min_value=0), st.lists(st.integers(1, 4), max_size=30), st.integers(1, 8))
def test_every_event_is_heard_once_or_there_is_a_gap(seed: int, sizes: list[int], kept_most: int) -> None:
    random = Random(seed)
    log: dict[int, tuple[PlacementEvent, ...]] = {}
    position, heard, gaps = EventPosition(0, 0), [], 0
    for number, size in enumerate(sizes):
        log[number] = publication(number, size)
        for dropped in sorted(log)[:-kept_most]:
            del log[dropped]
        while random.random() < 0.6 and (found := following(log, position)) is not None:
            gaps += found.missed
            some = found.events[: random.randint(1, len(found.events))]  # the connection breaks after these
            heard += [event.sentence for _, event in some]
            position = position_of(str(some[-1][0]))
    while (found := following(log, position)) is not None:
        gaps += found.missed
        heard += [event.sentence for _, event in found.events]
        position = found.position
    every = [f"{number}/{index}" for number, size in enumerate(sizes) for index in range(size)]
    assert heard == [one for one in every if one in set(heard)]
    assert (heard == every) == (gaps == 0)
    assert position == (EventPosition(len(sizes), 0) if sizes else EventPosition(0, 0))


def test_a_log_that_began_again_is_a_gap() -> None:
    log = {0: publication(0, 1)}
    for position in (EventPosition(7, 0), EventPosition(1, 1)):
        found = following(log, position)
        assert found is not None
        assert found.missed
        assert [event.sentence for _, event in found.events] == ["0/0"]


def test_behind_everything_nothing_follows() -> None:
    assert following({}, EventPosition(7, 0)) is None
    assert end_of({}) == EventPosition(0, 0)
    log = {3: publication(3, 2)}
    assert end_of(log) == EventPosition(4, 0)
    assert following(log, end_of(log)) is None


@pytest.mark.parametrize("text", ["", "5", "-1-0", "1-2-3", "١-0", "1-0\n", "99999999999-0"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="event"):
        position_of(text)
