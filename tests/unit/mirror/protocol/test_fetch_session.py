"""Test fetch sessions: which partitions a request names, and the presumed state of the broker."""

from __future__ import annotations

import pytest

from mirror.protocol.codes import Code
from mirror.protocol.fetch import FetchPosition
from mirror.protocol.fetch_session import FetchSession, Place

A: Place = (b"a", 0)
B: Place = (b"b", 3)


def at(offset: int) -> FetchPosition:
    return FetchPosition(-1, offset, -1, 1000)


def requested_offsets(session: FetchSession) -> dict[Place, int]:
    """Return the offsets in the next request."""
    part = session.build()
    return {(topic, number): one.offset for topic, some in part.topics.items() for number, one in some}


def established() -> FetchSession:
    session = FetchSession(incremental=True)
    session.put(A, at(5))
    session.put(B, at(7))
    assert requested_offsets(session) == {A: 5, B: 7}
    session.answered(0, 42)
    return session


def test_only_changes_are_named() -> None:
    session = established()
    session.put(A, at(6))
    session.put(B, at(7))
    assert requested_offsets(session) == {A: 6}
    assert requested_offsets(session) == {}


def test_what_was_removed_is_forgotten_by_the_broker_and_named_when_it_comes_back() -> None:
    session = established()
    session.remove(A)
    part = session.build()
    assert part.forgotten == {b"a": [0]}
    assert session.requested_position(A) is None
    session.put(A, at(5))
    assert requested_offsets(session) == {A: 5}


def test_one_that_is_removed_and_comes_back_before_the_next_request_stays() -> None:
    session = established()
    session.remove(A)
    session.put(A, at(9))
    part = session.build()
    assert (part.forgotten, session.requested_position(A)) == ({}, at(9))


def test_a_new_reader_is_named_after_the_broker_has_forgotten_the_one_before() -> None:
    session = established()
    session.forget(A)
    session.put(A, at(5))
    part = session.build()
    assert (part.topics, part.forgotten, session.is_behind) == ({}, {b"a": [0]}, True)
    assert session.requested_position(A) is None, "a response to the former reader is not for the new one"
    session.answered(0, 42)
    assert requested_offsets(session) == {A: 5}
    assert not session.is_behind
    assert session.requested_position(A) == at(5)


def test_a_new_reader_of_a_partition_that_is_forgotten_already_is_named_at_once() -> None:
    session = established()
    session.remove(A)
    assert session.build().forgotten == {b"a": [0]}
    session.forget(A)
    session.put(A, at(5))
    assert requested_offsets(session) == {A: 5}


def test_a_new_reader_that_goes_before_it_was_named_is_not() -> None:
    session = established()
    session.forget(A)
    session.put(A, at(5))
    session.forget(A)
    part = session.build()
    assert (part.topics, part.forgotten, session.is_behind) == ({}, {b"a": [0]}, False)


@pytest.mark.parametrize("error", [0, Code.FETCH_SESSION_ID_NOT_FOUND])
def test_a_new_reader_is_named_at_once_where_everything_is(error: int) -> None:
    session = established()
    session.forget(A)
    session.put(A, at(5))
    session.answered(error, 0)  # the broker keeps no session
    assert requested_offsets(session) == {A: 5, B: 7}


def test_after_a_lost_session_everything_is_named() -> None:
    session = established()
    session.answered(Code.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert requested_offsets(session) == {A: 5, B: 7}
