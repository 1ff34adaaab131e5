"""Test that a schedule depends on its seed only, and follows the rules."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.service.schedule import (
    MOST_AT_ONCE,
    OPERATOR,
    RULES,
    Fault,
    Kind,
    Resource,
    SiteShape,
    is_legal,
    make_schedule,
)

SHAPES = st.builds(
    SiteShape,
    instances=st.integers(1, 4),
    has_pinot=st.booleans(),
    has_log=st.booleans(),
    mean_pause=st.floats(1.0, 20.0),
)
SEEDS = st.integers(0, 2**63)
LENGTHS = st.floats(5.0, 120.0)
A_SITE = SiteShape(3)


@given(SEEDS, LENGTHS, SHAPES)
def test_the_same_seed_gives_the_same_schedule(seed: int, length: float, shape: SiteShape) -> None:
    assert make_schedule(seed, length, shape) == make_schedule(seed, length, shape)


def test_another_seed_gives_another_schedule() -> None:
    assert len({make_schedule(seed, 60.0, A_SITE) for seed in range(50)}) == 50


@given(SEEDS, LENGTHS, SHAPES)
def test_every_fault_keeps_the_rules(seed: int, length: float, shape: SiteShape) -> None:
    faults = make_schedule(seed, length, shape)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    for fault in faults:
        rule = RULES[fault.kind]
        assert 0 <= fault.at <= fault.ends <= length
        assert rule.shortest - 1e-6 <= fault.seconds <= rule.longest + 1e-6
        assert 0 <= fault.choice < 1
        assert shape.capacity(fault.resource), "this site does not have the resource"
        assert not fault.at_leader or fault.resource is Resource.INSTANCE
        # The limits apply to all faults that are active when this one starts.
        meeting = [other for other in faults if other.at <= fault.at < other.ends]
        assert sum(one.resource not in OPERATOR for one in meeting) <= MOST_AT_ONCE
        same = [one for one in meeting if one.resource is fault.resource]
        assert len(same) <= shape.capacity(fault.resource)


def test_a_long_schedule_has_every_kind() -> None:
    found = {fault.kind for fault in make_schedule(1, 1_200.0, SiteShape(3, has_pinot=True, has_log=True))}
    assert found == set(Kind)


def test_five_short_ones_have_most_kinds_together() -> None:
    shape = SiteShape(2, mean_pause=1.5)
    found = {fault.kind for seed in range(1, 6) for fault in make_schedule(seed, 18.0, shape)}
    missing = {kind for kind in Kind if shape.capacity(RULES[kind].resource)} - found
    assert len(missing) <= 4, missing


@pytest.mark.parametrize(("first", "second"), list(itertools.product([Kind.SOURCE_KILLED], repeat=2)))
def test_a_server_is_left_alone_for_a_while_between_two_faults(first: Kind, second: Kind) -> None:
    one = Fault(1.0, 2.0, first, 0.0, False)
    assert not is_legal([one, Fault(2.0, 1.0, second, 0.0, False)], A_SITE)
    assert not is_legal([one, Fault(4.0, 1.0, second, 0.0, False)], A_SITE)
    assert is_legal([one, Fault(5.5, 1.0, second, 0.0, False)], A_SITE)


def test_both_clusters_may_be_away_together_and_so_may_all_instances() -> None:
    apart = [Kind.SOURCE_FROZEN, Kind.DESTINATION_FROZEN, Kind.STORE_FROZEN]
    faults = [Fault(float(at), 9.0, kind, 0.0, False) for at, kind in enumerate(apart)]
    assert all(is_legal(faults[: end + 1], A_SITE) for end in range(3))
    killed = [Fault(float(at), 9.0, Kind.INSTANCE_KILLED, 0.0, False) for at in range(4)]
    assert all(is_legal(killed[: end + 1], A_SITE) for end in range(3))
    assert not is_legal(killed, A_SITE)
