"""Followers of the event log get every event once or a gap, despite reconnects and dropped events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.control.event_positions import EventPosition, Gap, end_of, following, position_of
from mirror.coordination.stores.events import command_event
from mirror.errors import InvalidRequest
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import NO_EVENTS, EventHistory, PlacementEvent


def publication(number: int, size: int) -> tuple[PlacementEvent, ...]:
    return tuple(command_event(DatastreamName("orders"), f"{number}/{index}", 1) for index in range(size))


@given(
    st.integers(min_value=0),
    st.lists(st.integers(1, 4), max_size=30),
    st.integers(1, 8),
    st.sampled_from([0, 5 * 10**9]),
)
def test_every_event_is_heard_once_or_there_is_a_gap(
    seed: int, sizes: list[int], kept_most: int, first: int
) -> None:
    random = Random(seed)
    log: dict[int, tuple[PlacementEvent, ...]] = {}
    position, heard, gaps = EventPosition(0, 0), [], 0
    for number, size in enumerate(sizes):
        log[first + number] = publication(number, size)
        for dropped in sorted(log)[:-kept_most]:
            del log[dropped]
        while random.random() < 0.6 and (found := following(EventHistory(first, log), position)) is not None:
            gaps += found.gap is not None
            some = found.events[: random.randint(1, len(found.events))]  # the connection breaks after these
            heard += [event.sentence for _, event in some]
            position = position_of(str(some[-1][0]))
    while (found := following(EventHistory(first, log), position)) is not None:
        gaps += found.gap is not None
        heard += [event.sentence for _, event in found.events]
        position = found.position
    every = [f"{number}/{index}" for number, size in enumerate(sizes) for index in range(size)]
    assert heard == [one for one in every if one in set(heard)]
    assert (heard == every) == (gaps == 0)
    assert position == (EventPosition(first + len(sizes), 0) if sizes else EventPosition(0, 0))


def test_a_log_that_began_again_is_a_gap() -> None:
    log = EventHistory(0, {0: publication(0, 1)})
    for position in (EventPosition(7, 0), EventPosition(1, 1)):
        found = following(log, position)
        assert found is not None
        assert found.gap is Gap.RESET
        assert [event.sentence for _, event in found.events] == ["0/0"]


@given(
    st.tuples(st.integers(10, 50), st.integers(0, 9)),
    st.integers(1, 40),
    st.integers(1, 40),
    st.lists(st.integers(1, 3), max_size=40),
)
def test_a_position_in_a_lost_log_is_a_gap_before_all_events_of_the_new_one(
    place: tuple[int, int], dropped: int, size: int, sizes: list[int]
) -> None:
    """Whatever the length of both logs is, as long as their numbers do not overlap."""
    sizes = [size, *sizes]
    first = 1_000
    log = {first + number: publication(number, length) for number, length in enumerate(sizes)}
    for number in sorted(log)[: min(dropped, len(log) - 1)]:
        del log[number]
    position, gaps, heard = EventPosition(*place), list[Gap | None](), 0
    while (found := following(EventHistory(first, log), position)) is not None:
        gaps.append(found.gap)
        heard += len(found.events)
        position = found.position
    assert gaps == [Gap.RESET] + [None] * (len(log) - 1)
    assert heard == sum(map(len, log.values()))


def test_behind_everything_nothing_follows() -> None:
    assert following(NO_EVENTS, EventPosition(7, 0)) is None
    assert end_of(NO_EVENTS) == EventPosition(0, 0)
    log = EventHistory(0, {3: publication(3, 2)})
    assert end_of(log) == EventPosition(4, 0)
    assert following(log, end_of(log)) is None


@pytest.mark.parametrize("text", ["", "5", "-1-0", "1-2-3", "١-0", "1-0\n", "99999999999-0"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="event"):
        position_of(text)
