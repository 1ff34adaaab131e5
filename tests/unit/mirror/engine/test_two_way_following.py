"""Test that consumer groups follow in both directions between fake clusters; in virtual time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from mirror.jobs.groups.both_ways import TwoWayFollower
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from tests.fakes.broker.faults import Code, Delay, Drop, Run
from tests.unit.mirror.engine.test_group_following import (
    NO_RIGHTS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Following,
    R,
    following,
)

__all__ = ["following"]
DESCRIBE_SHARE, ALTER_SHARE = 90, 91


class BothWays:
    """A group that has read to offset 12 of the source, and follows in both directions. Offsets of the
    destination are higher by five."""

    def __init__(self, following: Following, kind: str = "Classic") -> None:
        self.inner = following
        self.fakes = following.fakes
        self.kind = kind
        self.inner.at_source(12)
        self.set_members()
        self.follow_both_ways()
        assert self.look() == (R.NEW, 12, 17)

    def follow_both_ways(self) -> None:
        self.inner.follower = TwoWayFollower(self.inner.context, self.inner.job, self.inner.log)

    def restart(self) -> None:
        """Begin again with no memory but the stored records."""
        self.inner.restart()
        self.follow_both_ways()

    def set_members(self, *, source: bool = False, target: bool = False) -> None:
        for cluster, has_members in ((self.fakes.source, source), (self.fakes.target, target)):
            if "billing" in cluster.groups:
                cluster.group_states["billing"] = (self.kind, "Stable" if has_members else "Empty")

    def at_source(self, offset: int) -> None:
        self.fakes.source.groups["billing"]["t", 0] = offset

    def at_target(self, offset: int) -> None:
        self.fakes.target.groups["billing"]["t", 0] = offset

    def look(self) -> tuple[R | None, int, int | None]:
        """Run a round; return the reason, and the positions at both clusters."""
        reason, target = self.inner.look()
        return reason, self.fakes.source.groups["billing"]["t", 0], target


@pytest.fixture
def both(following: Following) -> BothWays:
    return BothWays(following)


@pytest.mark.parametrize("kind", ["Classic", "Consumer", "Streams", "Share"])
def test_a_group_of_any_type_is_followed_there_and_back(following: Following, kind: str) -> None:
    both = BothWays(following, kind)
    both.set_members(target=True)
    both.at_target(20)
    assert both.look() == (R.RETURNED, 15, 20)
    assert both.look() == (R.CURRENT, 15, 20)
    both.restart()
    assert both.look() == (R.CURRENT, 15, 20)
    both.set_members(source=True)
    both.at_source(16)
    assert both.look() == (R.FORWARD, 16, 21)
    both.set_members()
    both.at_target(8)
    assert both.look() == (R.RESET_THERE, 3, 8)
    both.at_source(2)
    assert both.look() == (R.RESET, 2, 7)


def test_a_group_that_followed_forward_only_is_followed_back(following: Following) -> None:
    following.at_source(12)
    following.round()
    following.follower = TwoWayFollower(following.context, following.job, following.log)
    following.fakes.target.groups["billing"]["t", 0] = 20
    assert following.look() == (R.RETURNED, 20)
    assert following.fakes.source.groups["billing"]["t", 0] == 15


def test_members_at_the_source_are_not_overruled(both: BothWays) -> None:
    both.set_members(source=True, target=True)
    both.at_target(20)
    assert both.look() == (R.MEMBERS_HERE, 12, 20)
    both.set_members(target=True)
    join = Run(partial(both.set_members, source=True, target=True))
    both.fakes.source.faults.plant(OFFSET_COMMIT, join)
    assert both.look() == (R.MEMBERS_HERE, 12, 20)
    both.set_members(target=True)
    assert both.look() == (R.RETURNED, 15, 20)


def test_members_at_the_destination_are_not_overruled(both: BothWays) -> None:
    both.set_members(source=True, target=True)
    both.at_source(14)
    assert both.look() == (R.MEMBERS, 14, 17)
    both.set_members(source=True)
    assert both.look() == (R.FORWARD, 14, 19)


def test_a_group_that_has_moved_at_both_clusters_is_reported(both: BothWays) -> None:
    both.at_source(13)
    both.at_target(20)
    assert both.look() == (R.BOTH_CHANGED, 13, 20)
    both.restart()
    assert both.look() == (R.BOTH_CHANGED, 13, 20)
    both.at_target(21)
    assert both.look() == (R.RETURNED, 16, 21)


def test_a_reset_is_not_overruled_by_reads_at_the_other_cluster(both: BothWays) -> None:
    both.at_source(3)
    both.at_target(20)
    assert both.look() == (R.BOTH_CHANGED, 3, 20)
    both.at_target(22)
    assert both.look() == (R.BOTH_CHANGED, 3, 22)
    both.at_source(17)
    assert both.look() == (R.CURRENT, 17, 22)


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_lost_response_of_a_commit_does_no_harm(both: BothWays, is_applied: bool) -> None:
    both.at_target(20)
    both.fakes.source.faults.plant(OFFSET_COMMIT, Drop(applied=is_applied))
    assert both.look() == (R.FAILED, 15 if is_applied else 12, 20)
    both.restart()
    both.at_target(21)
    assert both.look() == (R.RETURNED, 16, 21)
    both.at_source(17)
    assert both.look() == (R.FORWARD, 17, 22)


def test_a_move_after_the_look_is_not_overwritten(both: BothWays) -> None:
    both.fakes.target.faults.plant(OFFSET_FETCH, Run(lambda: both.at_source(14)))
    both.at_target(20)
    assert both.look() == (R.BOTH_CHANGED, 14, 20)
    both.at_target(21)
    assert both.look() == (R.BOTH_CHANGED, 14, 21)
    both.at_target(22)
    assert both.look() == (R.RETURNED, 17, 22)


def test_a_process_that_was_frozen_before_the_commit_does_not_commit(both: BothWays) -> None:
    source = both.fakes.source.faults
    both.fakes.target.faults.plant(
        OFFSET_FETCH, Run(lambda: source.plant(OFFSET_FETCH, Delay(6.0, applied=True)))
    )
    both.at_target(20)
    assert both.look() == (R.FAILED, 12, 20)
    assert both.look() == (R.RETURNED, 15, 20)


def test_missing_rights_at_the_source_are_a_reason(both: BothWays) -> None:
    both.fakes.source.faults.plant(OFFSET_COMMIT, Code(NO_RIGHTS))
    both.at_target(20)
    assert both.look() == (R.NO_RIGHTS, 12, 20)
    assert both.look() == (R.RETURNED, 15, 20)


def test_a_position_beyond_the_checkpoint_is_followed_up_to_the_checkpoint(both: BothWays) -> None:
    fakes = both.fakes
    fakes.write("t", 20, 80)
    both.at_target(40)
    assert both.look() == (R.RETURNED, 20, 40)
    assert not both.inner.group().positions[TopicPartition("t", 0)].is_exact
    fakes.restart("t", group="orders")
    fakes.run_to("t", 100)
    fakes.stop()
    assert both.look() == (R.RETURNED, 35, 40)
    assert both.inner.group().positions[TopicPartition("t", 0)].is_exact


def test_records_of_other_producers_do_not_matter_at_the_source(both: BothWays) -> None:
    fakes = both.fakes
    fakes.target.write("t", fakes.records(1000, 5))
    fakes.write("t", 20, 5)
    fakes.restart("t", group="orders")
    fakes.run_to("t", 25)
    fakes.stop()
    both.at_target(27)
    assert both.look() == (R.RETURNED, 20, 27)
    assert both.look() == (R.CURRENT, 20, 27)
    both.at_target(31)
    assert both.look() == (R.RETURNED, 21, 31)


def test_a_position_before_the_copies_stays_at_the_source(both: BothWays) -> None:
    both.at_target(2)
    assert both.look() == (R.BEFORE_COPIES, 12, 2)
    both.at_target(6)
    assert both.look() == (R.RESET_THERE, 1, 6)


def test_no_group_follows_in_a_topic_that_is_written_at_both_clusters(both: BothWays) -> None:
    opposite = ((TopicSelection("t"), TopicNaming("*")),)
    both.inner.job = replace(both.inner.job, opposite=opposite)
    both.follow_both_ways()
    both.at_target(20)
    assert both.look() == (R.TWO_WAY, 12, 20)


def test_a_group_of_another_type_is_left_alone(both: BothWays) -> None:
    both.fakes.target.group_states["billing"] = ("Share", "Empty")
    both.at_target(20)
    assert both.look() == (R.OTHER_TYPE, 12, 20)


def test_a_group_that_the_source_has_deleted_returns_when_it_moves(both: BothWays) -> None:
    """The source deletes the positions of a group that has had no members for a week."""
    source = both.fakes.source
    del source.groups["billing"]
    source.group_states.pop("billing")
    assert both.inner.look() == (R.GONE, 17)
    both.restart()
    both.at_target(20)
    assert both.look() == (R.RETURNED, 15, 20)
    assert both.look() == (R.CURRENT, 15, 20)
    del source.groups["billing"]["t", 0]
    source.groups["billing"]["u", 0] = 1
    assert both.inner.look() == (R.GONE, 20)
    both.at_target(21)
    assert both.look() == (R.RETURNED, 16, 21)


def test_a_group_that_only_the_destination_has_is_left_alone(both: BothWays) -> None:
    both.fakes.target.groups["audit"] = {("t", 0): 20}
    both.inner.round()
    assert "audit" not in both.fakes.source.groups


def test_an_idle_group_costs_two_requests_in_a_round(both: BothWays) -> None:
    requests: list[str] = []
    both.look()
    for cluster in (both.fakes.source, both.fakes.target):
        note = Run(partial(requests.append, cluster.name))
        cluster.faults.plant(OFFSET_FETCH, note, times=None)
    both.look()
    assert requests == ["a", "b"]


def test_the_positions_of_many_groups_are_read_in_one_request_to_each_coordinator(both: BothWays) -> None:
    both.inner.job = replace(both.inner.job, groups=replace(both.inner.job.groups, include=".*"))
    both.follow_both_ways()
    names = [f"g{number}" for number in range(20)]
    for number, name in enumerate(names):
        both.inner.at_source(number, name)
    both.inner.round()
    requests: list[str] = []
    clusters = (both.fakes.source, both.fakes.target)
    for cluster in clusters:
        note = Run(partial(requests.append, cluster.name))
        cluster.faults.plant(OFFSET_FETCH, note, times=None)
    both.inner.round()
    assert requests == [cluster.name for cluster in clusters for _ in cluster.brokers]
    for name in names:
        both.fakes.target.groups[name]["t", 0] = 25
    both.inner.round()
    assert {both.fakes.source.groups[name]["t", 0] for name in names} == {20}


def test_a_group_follows_in_both_directions_at_a_fraction_of_a_second(following: Following) -> None:
    groups = replace(following.job.groups, interval_seconds=0.1)
    following.job = replace(following.job, groups=groups)
    both = BothWays(following)
    for step in range(3):
        both.at_target(18 + step)
        assert both.look() == (R.RETURNED, 13 + step, 18 + step)
    assert both.look() == (R.CURRENT, 15, 20)
    both.at_source(16)
    assert both.look() == (R.FORWARD, 16, 21)


def test_a_group_that_the_source_has_deleted_returns_at_a_fraction_of_a_second(following: Following) -> None:
    """Rounds use a list of groups from before the commit for up to a second."""
    groups = replace(following.job.groups, interval_seconds=0.1)
    following.job = replace(following.job, groups=groups)
    both = BothWays(following)
    del both.fakes.source.groups["billing"]
    both.fakes.source.group_states.pop("billing")
    both.restart()
    assert both.inner.look() == (R.GONE, 17)
    both.at_target(20)
    assert both.look() == (R.RETURNED, 15, 20)
    both.at_target(21)
    both.inner.round()
    both.fakes.clock.advance(1.0)
    for _ in range(3):  # the first one begins to list, and the next ones use the list
        both.inner.round()
    assert both.look() == (R.CURRENT, 16, 21)
