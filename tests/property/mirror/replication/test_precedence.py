"""Precedence among lanes that catch up: none waits in vain or completely, and savable records are saved."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.replication.quotas.precedence import (
    LEAST_SHARE,
    REACH_SECONDS,
    CatchUp,
    Precedence,
    decide,
)
from tests.examples import examples

LOOK_SECONDS = 2.0
MIB = 2.0**20


def key(number: int) -> LaneKey:
    return LaneKey(GroupName("g"), TopicPartition("t", number))


@dataclass
class Flow:
    """Partition whose log grows by `need` bytes per second.

    `left`: seconds until the first waiting record is deleted. `kept`: that time if the lane is caught up, or
    None without retention.
    """

    need: float
    left: float
    kept: float | None
    growth: float = 0.0
    speed: float = 0.0

    @property
    def is_behind(self) -> bool:
        return self.kept is None or self.left < self.kept

    def run(self, speed: float, seconds: float) -> None:
        self.speed = speed
        self.growth = speed / self.need - 1
        self.left = max(self.left + self.growth * seconds, 0.0)


def lost(flows: list[Flow], capacity: float, seconds: float, *, deadline_first: bool) -> set[int]:
    """Return the partitions that lose records; in either mode caught-up lanes are served first."""
    before, found = Precedence(), set[int]()
    now = 0.0
    while now < seconds:
        behind = {number: one for number, one in enumerate(flows) if one.is_behind}
        rest = capacity - sum(one.need for one in flows if not one.is_behind)
        if deadline_first:
            lanes = [
                CatchUp(key(number), one.left if one.kept else None, one.growth, one.need, one.speed)
                for number, one in behind.items()
            ]
            before = decide(before, lanes, now)
        waiting = [one for number, one in behind.items() if key(number) in before.waiting]
        first = [one for number, one in behind.items() if key(number) not in before.waiting]
        fair = rest / max(len(behind), 1)
        slow = min(before.rate / len(waiting), fair) if waiting else 0.0
        for one in waiting:
            one.run(slow, LOOK_SECONDS)
        for one in first:
            one.run((rest - slow * len(waiting)) / len(first), LOOK_SECONDS)
        for one in flows:
            if not one.is_behind:
                one.run(one.need, LOOK_SECONDS)
        now += LOOK_SECONDS
        found |= {number for number, one in behind.items() if one.kept and one.left <= 0}
    return found


lanes_that_catch_up = st.lists(
    st.builds(
        CatchUp,
        st.integers(0, 30).map(key),
        st.none() | st.integers(0, 2_000),
        st.sampled_from([None, -1.0, -0.1, 0.0, 0.2, 0.3, 4.0]),
        st.integers(0, 10_000_000),
        st.integers(0, 10_000_000),
    ),
    unique_by=lambda one: one.key,
    max_size=8,
)


@given(st.lists(lanes_that_catch_up, max_size=6))
def test_nobody_gives_way_for_nothing_or_altogether(looks: list[list[CatchUp]]) -> None:
    before = Precedence()
    for number, lanes in enumerate(looks):
        after = decide(before, lanes, number * LOOK_SECONDS)
        assert after.waiting <= {one.key for one in lanes}
        if after.waiting:
            assert after.rate >= LEAST_SHARE * after.capacity
            assert after.rate > 0
        hopeful = [one for one in lanes if one.key not in after.given_up]
        in_reach = [one for one in hopeful if one.left is not None and one.left <= REACH_SECONDS]
        if not in_reach and not before.waiting:
            assert not after.waiting, "a lane waits although none can be saved by that"
        if after.waiting and not before.waiting:
            first = min(one.left or 0.0 for one in in_reach)
            for one in hopeful:
                if one.left == first:
                    assert one.key not in after.waiting, "the lane with the earliest deadline waits"
        before = after


@given(lanes_that_catch_up, st.randoms(use_true_random=False))
def test_it_does_not_depend_on_the_order_of_the_lanes(lanes: list[CatchUp], random: Random) -> None:
    mixed = random.sample(lanes, len(lanes))
    one, two = decide(Precedence(), lanes, 0.0), decide(Precedence(), mixed, 0.0)
    assert (one.waiting, one.given_up) == (two.waiting, two.given_up)


@given(lanes_that_catch_up)
def test_without_deadlines_in_reach_all_is_as_it_was(lanes: list[CatchUp]) -> None:
    far = [one._replace(left=None if one.left is None else one.left + REACH_SECONDS + 1) for one in lanes]
    assert not decide(Precedence(), far, 0.0).waiting


@settings(max_examples=examples(30))
@given(
    needs=st.lists(st.floats(0.1, 10), min_size=1, max_size=8),
    others=st.lists(st.floats(0.1, 10), max_size=4),
    left=st.lists(st.floats(60, 110), min_size=8, max_size=8),
)
def test_what_can_be_saved_is_saved(needs: list[float], others: list[float], left: list[float]) -> None:
    """The lanes with deadlines need less than three quarters of the capacity."""
    flows = [Flow(need * MIB, left[number], 120.0) for number, need in enumerate(needs)]
    flows += [Flow(need * MIB, 0.0, None) for need in others]
    assert lost(flows, sum(needs) * MIB / 0.75, 600, deadline_first=True) == set()


@settings(max_examples=examples(30))
@given(
    needs=st.lists(st.floats(0.5, 5), min_size=4, max_size=8),
    share=st.floats(0.3, 0.8),
    left=st.floats(60, 110),
)
def test_where_not_all_can_be_saved_some_are(needs: list[float], share: float, left: float) -> None:
    """At least as many of the smallest as fit are saved, minus one for errors of the estimates."""
    capacity = sum(needs) * share
    saved, room = 0, capacity * (1 - LEAST_SHARE) * 0.85
    for need in sorted(needs):
        room -= need
        saved += room >= 0
    flows = [Flow(need * MIB, left, 120.0) for need in needs]
    found = lost(flows, capacity * MIB, 600, deadline_first=True)
    assert len(needs) - len(found) >= saved - 1


def test_for_whom_giving_way_is_in_vain_is_given_up_for_a_while() -> None:
    """Its destination is slow, for example."""
    before, held, left = Precedence(), list[float](), 300.0
    for look in range(50):
        left -= 0.5 * LOOK_SECONDS
        lanes = [CatchUp(key(0), left, -0.5, MIB, MIB / 2), CatchUp(key(1), None, None, MIB, 5 * MIB)]
        before = decide(before, lanes, look * LOOK_SECONDS)
        if before.waiting:
            assert before.waiting == {key(1)} or key(0) in before.given_up
            held.append(look * LOOK_SECONDS)
    assert held[0] == 0
    assert held[-1] - held[0] + LOOK_SECONDS >= 20
    assert len(held) * LOOK_SECONDS < 70, "other lanes wait all the time"
