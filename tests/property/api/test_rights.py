"""Properties of rights for every principal and every set of owners."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from api.access.rights import Action, Principal, Role, reason_against

OWNERS = st.frozensets(st.sampled_from(["", "a", "b", "c", "a "]), max_size=4)
NAMED = st.frozensets(st.sampled_from(["", "a", "b", "c", "a "]), max_size=4)
PRINCIPALS = st.builds(Principal, st.just("p"), st.sampled_from(Role), NAMED)
RANKS = list(Role)


@given(PRINCIPALS, st.sampled_from(Action), OWNERS)
def test_more_datastreams_never_give_a_right(who: Principal, action: Action, owners: frozenset[str]) -> None:
    for fewer in (owners - {one} for one in owners):
        if fewer and reason_against(who, action, fewer):
            assert reason_against(who, action, owners)


@given(PRINCIPALS, st.sampled_from(Action), OWNERS)
def test_where_the_role_is_too_little_no_owner_helps(
    who: Principal, action: Action, owners: frozenset[str]
) -> None:
    if reason_against(who, action):
        assert reason_against(who, action, owners)


@given(PRINCIPALS, st.sampled_from([Action.READ, Action.CHANGE, Action.COMMIT_AS]), OWNERS)
def test_a_higher_role_may_do_what_a_lower_one_may(
    who: Principal, action: Action, owners: frozenset[str]
) -> None:
    if not reason_against(who, action, owners):
        for role in RANKS[RANKS.index(who.role) :]:
            assert not reason_against(replace(who, role=role), action, owners)


@given(PRINCIPALS, OWNERS.filter(bool))
def test_an_owner_changes_what_its_owners_have_and_nothing_else(
    who: Principal, owners: frozenset[str]
) -> None:
    owner = replace(who, role=Role.OWNER)
    may = not reason_against(owner, Action.CHANGE, owners)
    assert may == ("" not in owners and owners <= owner.owners)


@given(PRINCIPALS, st.sampled_from(Action), OWNERS)
def test_nobody_below_an_owner_changes_anything(
    who: Principal, action: Action, owners: frozenset[str]
) -> None:
    viewer = replace(who, role=Role.VIEWER)
    is_reading = action in (Action.READ, Action.HEALTH, Action.METRICS, Action.PAGES)
    assert bool(reason_against(viewer, action, owners)) == (not is_reading)
