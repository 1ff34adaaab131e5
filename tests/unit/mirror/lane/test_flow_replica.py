"""Test the choice of the replica to read from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.lane.flow import Replica, avoided, named

BROKERS = st.integers(-1, 5)
NOW = 1_000.0
PRESENT = st.none() | st.builds(Replica, st.none() | BROKERS, st.floats(0, 2 * NOW))


def test_a_named_replica_is_read_for_five_minutes() -> None:
    replica = named(2, None, 1, {1, 2}, NOW)
    assert replica.broker == 2
    assert replica.is_usable(1, {1, 2}, NOW + 299)
    assert not replica.is_usable(1, {1, 2}, NOW + 301)


def test_it_is_given_up_when_it_leads_or_is_gone() -> None:
    replica = named(2, None, 1, {1, 2}, NOW)
    assert not replica.is_usable(2, {1, 2}, NOW)
    assert not replica.is_usable(1, {1}, NOW)


@given(BROKERS, PRESENT, BROKERS, st.frozensets(BROKERS))
def test_nobody_is_sent_in_circles_or_to_a_stranger(
    broker: int, present: Replica | None, leader: int, brokers: frozenset[int]
) -> None:
    chosen = named(broker, present, leader, brokers, NOW)
    if chosen.broker is not None:
        assert present is None
        assert chosen.broker in brokers - {leader}
    assert chosen.until > NOW


def test_the_leader_is_read_only_for_a_while() -> None:
    replica = avoided(NOW)
    assert replica.is_usable(1, set(), NOW + 29)
    assert not replica.is_usable(1, set(), NOW + 31)
