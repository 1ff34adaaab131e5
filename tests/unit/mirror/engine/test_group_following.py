"""Test that consumer groups follow from one fake cluster to another; in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

import pytest

from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import NotFound, TimedOut, Unreachable
from mirror.jobs.groups.decision import FollowReason
from mirror.jobs.groups.failover import plan_without_source
from mirror.jobs.groups.follower import FollowJob, GroupFollower, RoundReport
from mirror.jobs.groups.log import GroupLog
from mirror.jobs.groups.record import FollowedGroup, GroupKeys, StoredGroups, read_groups
from mirror.jobs.progress_logs import progress_log
from mirror.jobs.translate_job import TranslateJob, apply_translation
from mirror.lane.progress import main_key
from mirror.model.datastreams.consumer_groups import FollowingGroups
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from mirror.replication.progress_topic import PARTITIONS
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code, Delay, Drop, HandledRequest, Run
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.topics import NOBODY
from tests.fakes.broker.virtual import VirtualSelector

OFFSET_COMMIT, OFFSET_FETCH, LIST_GROUPS = 8, 9, 16
NO_RIGHTS, NOT_COORDINATOR = 30, 16
STATE = GroupName("orders")
KEYS = GroupKeys(STATE, DatastreamName("orders"))
R = FollowReason


class Following:
    """Clusters between which records were copied, and a follower of their groups."""

    def __init__(self, fakes: MirroredFakes, **groups: Any) -> None:
        self.fakes = fakes
        self.context = self.new_context()
        choices = FollowingGroups(**{"include": "billing|audit", **groups})
        self.job = FollowJob(KEYS, SOURCE, DESTINATION, TopicSelection("t"), TopicNaming("*"), choices)
        self.log = progress_log(GroupLog, self.context, DESTINATION)
        self.follower = GroupFollower(self.context, self.job, self.log)

    def new_context(self) -> EngineContext:
        fakes = self.fakes
        access = {
            SOURCE: ClusterAccess(endpoints(fakes.source.address)),
            DESTINATION: ClusterAccess(endpoints(fakes.target.address)),
        }
        context = EngineContext(
            access.__getitem__,
            CopyingOptions(request_timeout_seconds=10.0),
            EngineIdentity("test"),
            fakes.clock,
            VirtualSelector(fakes.clock, [fakes.source, fakes.target]),
        )
        context.loop.new_socket = fakes.network.socket
        return context

    def restart(self) -> None:
        """Begin again with no memory but the stored records."""
        self.context.close()
        self.context = self.new_context()
        self.log = progress_log(GroupLog, self.context, DESTINATION)
        self.follower = GroupFollower(self.context, self.job, self.log)

    def round(self, *hidden: str) -> RoundReport:
        return self.context.run(self.follower.round(hidden.__contains__))

    def stored(self) -> StoredGroups:
        self.context.run(self.log.catch_up())
        return read_groups(KEYS, self.log.records_under(STATE))

    def group(self, name: str = "billing") -> FollowedGroup:
        return self.stored().groups[name]

    def at_source(self, offset: int, group: str = "billing") -> None:
        self.fakes.source.groups.setdefault(group, {})["t", 0] = offset

    def at_target(self, group: str = "billing") -> int | None:
        return self.fakes.target.groups.get(group, {}).get(("t", 0))

    def look(self, group: str = "billing") -> tuple[FollowReason | None, int | None]:
        """Run a round; return the reason, and the position at the destination."""
        self.round()
        found = self.group(group)
        place = found.positions.get(TopicPartition("t", 0))
        reason = found.reason or (place.reason if place is not None else None)
        return reason, self.at_target(group)


@pytest.fixture
def following(fakes: MirroredFakes) -> Iterator[Following]:
    fakes.make_topic("t")
    fakes.target.write("t", fakes.records(0, 5))  # offsets differ by five
    fakes.write("t", 0, 20)
    fakes.start("t", group="orders")
    fakes.run_to("t", 20)
    fakes.stop()
    made = Following(fakes)
    yield made
    with closing(made.context):
        pass


def test_a_group_follows_forward_and_back_with_its_source(following: Following) -> None:
    following.at_source(12)
    assert following.look() == (R.NEW, 17)
    following.at_source(14)
    assert following.look() == (R.FORWARD, 19)
    following.at_source(3)
    assert following.look() == (R.RESET, 8)
    following.fakes.clock.advance(60.0)
    assert following.look() == (R.CURRENT, 8)


def test_a_reset_is_known_after_a_restart(following: Following) -> None:
    following.at_source(12)
    following.round()
    following.restart()
    following.at_source(4)
    assert following.look() == (R.RESET, 9)


def test_a_position_is_never_ahead_of_the_mirrored_records(following: Following) -> None:
    following.at_source(99)
    assert following.look() == (R.NEW, 25)
    assert not following.group().positions[TopicPartition("t", 0)].is_exact
    following.fakes.write("t", 20, 80)
    following.fakes.restart("t", group="orders")
    following.fakes.run_to("t", 100)
    following.fakes.stop()
    assert following.look() == (R.FORWARD, 104)
    assert following.group().positions[TopicPartition("t", 0)].is_exact


@pytest.mark.parametrize("kind", ["Classic", "Consumer", "Streams"])
def test_groups_of_each_type_follow(following: Following, kind: str) -> None:
    following.fakes.source.group_states["billing"] = (kind, "Stable")
    following.at_source(12)
    assert following.look() == (R.NEW, 17)
    following.fakes.target.group_states["billing"] = (kind, "Stable")
    following.at_source(14)
    assert following.look() == (R.MEMBERS, 17)


def test_a_group_with_members_there_is_left_alone(following: Following) -> None:
    following.at_source(12)
    following.fakes.target.group_states["billing"] = ("Consumer", "Stable")
    assert following.look() == (R.MEMBERS, None)
    following.fakes.target.group_states["billing"] = ("Consumer", "Empty")
    assert following.look() == (R.NEW, 17)


def test_a_group_that_gains_members_before_the_commit_is_not_overwritten(following: Following) -> None:
    target = following.fakes.target

    def join() -> None:
        target.group_states["billing"] = ("Classic", "Stable")

    following.at_source(12)
    target.faults.plant(OFFSET_COMMIT, Run(join))
    assert following.look() == (R.MEMBERS, None)


def test_a_group_that_was_restarted_there_is_not_set_back(following: Following) -> None:
    """MirrorMaker 2 sees members at its refresh and none at its sync, and writes older positions over newer
    ones (MirrorCheckpointTask.syncGroupOffset)."""
    following.at_source(12)
    following.round()
    target = following.fakes.target
    target.group_states["billing"] = ("Classic", "Stable")
    following.round()
    target.groups["billing"]["t", 0] = 23
    target.group_states["billing"] = ("Classic", "Empty")
    assert following.look() == (R.WOULD_MOVE_BACK, 23)
    following.restart()
    assert following.look() == (R.WOULD_MOVE_BACK, 23)
    following.at_source(3)
    assert following.look() == (R.WOULD_MOVE_BACK, 23)


def test_a_reset_at_the_destination_holds_until_the_group_reads_on(following: Following) -> None:
    following.at_source(12)
    following.round()
    following.fakes.target.groups["billing"]["t", 0] = 6
    following.fakes.clock.advance(60.0)
    assert following.look() == (R.TAKEN_OVER, 6)
    following.at_source(13)
    assert following.look() == (R.FORWARD, 18)


def test_a_share_group_that_appears_before_the_commit_is_reported(following: Following) -> None:
    target = following.fakes.target

    def appear() -> None:
        target.group_states["billing"] = ("Share", "Empty")

    following.at_source(12)
    target.faults.plant(OFFSET_COMMIT, Run(appear))
    assert following.look() == (R.OTHER_TYPE, None)


def test_only_selected_groups_with_positions_in_the_topics_follow(following: Following) -> None:
    for name in ("billing", "audit", "other"):
        following.at_source(12, name)
    following.fakes.source.groups["audit"] = {("elsewhere", 0): 3}
    report = following.round()
    assert (report.groups, dict(report.hindered)) == (1, {})
    assert following.fakes.target.groups.keys() == {"billing"}
    following.at_source(12, "audit")
    following.at_source(13)
    assert following.round("billing").groups == 1
    assert (following.at_target(), following.at_target("audit")) == (17, 17)


def test_rights_are_a_reason_and_other_groups_follow(following: Following) -> None:
    following.at_source(12)
    following.at_source(12, "audit")
    faults = following.fakes.target.faults
    faults.plant(OFFSET_COMMIT, Code(NO_RIGHTS), fits=lambda asked: asked.message.group_id == "billing")
    report = following.round()
    assert dict(report.hindered) == {"billing": R.NO_RIGHTS}
    assert (following.at_target(), following.at_target("audit")) == (None, 17)
    faults.plant(OFFSET_FETCH, Code(NO_RIGHTS, "billing"), times=None)
    assert following.look() == (R.NO_RIGHTS, None)
    faults.clear()
    assert following.look() == (R.NEW, 17)


def test_a_lost_answer_of_a_commit_does_no_harm(following: Following) -> None:
    following.at_source(12)
    following.fakes.target.faults.plant(OFFSET_COMMIT, Drop(applied=True))
    assert following.look() == (R.FAILED, 17)
    assert following.look() == (R.CURRENT, 17)
    following.at_source(2)
    assert following.look() == (R.RESET, 7)


def test_a_process_that_was_frozen_before_the_commit_does_not_commit(following: Following) -> None:
    """Another instance may lead, and have followed further, meanwhile."""
    following.at_source(12)
    following.round()
    following.at_source(13)
    following.fakes.target.faults.plant(OFFSET_FETCH, Delay(6.0, applied=True))
    assert following.look() == (R.FAILED, 17)
    assert following.look() == (R.FORWARD, 18)


def test_the_state_stays_when_the_source_is_gone(following: Following) -> None:
    following.at_source(12)
    following.round()
    before = following.stored()
    for node in following.fakes.source.brokers:
        following.fakes.source.take_down(node)
    with pytest.raises((Unreachable, TimedOut)):
        following.round()
    assert following.stored() == before
    assert before.round_ms is not None


def test_a_group_that_was_deleted_at_the_source_keeps_its_position(following: Following) -> None:
    following.at_source(12)
    following.round()
    del following.fakes.source.groups["billing"]
    assert following.look() == (R.GONE, 17)
    following.at_source(13)
    assert following.look() == (R.FORWARD, 18)


def test_a_broker_that_is_down_makes_no_group_disappear(following: Following) -> None:
    following.at_source(12)
    following.round()
    source = following.fakes.source
    round_ms = following.stored().round_ms
    source.faults.plant(
        LIST_GROUPS, Code(14), fits=lambda asked: asked.broker == source.coordinator_of("billing")
    )
    following.fakes.clock.advance(1.0)
    following.round()
    assert following.group().reason is None
    assert following.stored().round_ms == round_ms


def test_names_of_any_characters_follow(following: Following) -> None:
    names = ["ü/b~x y", "a" * 500, "\U0001f980"]
    following.follower = GroupFollower(
        following.context,
        FollowJob(KEYS, SOURCE, DESTINATION, TopicSelection("t"), TopicNaming("*"), FollowingGroups(".*")),
        following.log,
    )
    for name in names:
        following.at_source(12, name)
    following.round()
    assert {name: following.at_target(name) for name in names} == dict.fromkeys(names, 17)
    assert following.stored().groups.keys() == set(names)


def test_many_groups_take_one_round(following: Following) -> None:
    following.follower = GroupFollower(
        following.context,
        FollowJob(KEYS, SOURCE, DESTINATION, TopicSelection("t"), TopicNaming("*"), FollowingGroups(".*")),
        following.log,
    )
    for number in range(100):
        following.at_source(number % 20, f"g{number}")
    assert following.round().groups == 100
    assert [following.at_target(f"g{number}") for number in range(100)] == [5 + n % 20 for n in range(100)]


def test_a_failover_without_the_source_translates_the_last_positions(following: Following) -> None:
    following.at_source(12)
    following.fakes.target.group_states["billing"] = ("Classic", "Stable")
    following.round()
    following.fakes.clock.advance(60.0)
    following.round()
    round_ms = following.stored().round_ms
    for node in following.fakes.source.brokers:
        following.fakes.source.take_down(node)
    job = TranslateJob("orders", SOURCE, DESTINATION, "billing", as_group="billing-2")
    moves, as_of_ms, _ = following.context.run(plan_without_source(following.context, job))
    assert [(move.becomes, move.precision, move.skipped) for move in moves] == [(17, "exact", "")]
    assert as_of_ms == round_ms
    assert following.context.run(apply_translation(following.context, job, moves)) == 1
    assert following.at_target("billing-2") == 17
    unknown = TranslateJob("orders", SOURCE, DESTINATION, "audit")
    with pytest.raises(NotFound):
        following.context.run(plan_without_source(following.context, unknown))


def everyone(following: Following, interval_seconds: float = 5) -> None:
    """Synchronise all groups from now on."""
    following.job = replace(following.job, groups=FollowingGroups(".*", None, interval_seconds))
    following.follower = GroupFollower(following.context, following.job, following.log)


def test_the_positions_of_all_groups_are_read_in_one_request_to_each_coordinator(
    following: Following,
) -> None:
    everyone(following)
    requests: list[HandledRequest] = []

    def note(asked: HandledRequest) -> bool:
        requests.append(asked)
        return False

    following.fakes.source.faults.plant(OFFSET_FETCH, Run(lambda: None), times=None, fits=note)
    for number in range(20):
        following.at_source(number, f"g{number}")
    following.round()
    assert len({one.broker for one in requests}) == len(requests) == len(following.fakes.source.brokers)
    assert [following.at_target(f"g{number}") for number in range(20)] == [5 + n for n in range(20)]


def test_an_error_of_one_group_in_a_common_request_is_its_own(following: Following) -> None:
    everyone(following)
    for name in ("billing", "audit"):
        following.at_source(12, name)
    following.fakes.source.faults.plant(OFFSET_FETCH, Code(NO_RIGHTS, "billing"), times=None)
    assert dict(following.round().hindered) == {"billing": R.NO_RIGHTS}
    assert (following.at_target(), following.at_target("audit")) == (None, 17)


def test_a_coordinator_that_has_moved_is_found_in_the_same_round(following: Following) -> None:
    everyone(following)
    for name in ("billing", "audit"):
        following.at_source(12, name)
    following.round()
    following.at_source(13)
    following.fakes.source.faults.plant(OFFSET_FETCH, Code(NOT_COORDINATOR, "billing"))
    assert following.look() == (R.FORWARD, 18)


def test_groups_are_listed_once_a_second_if_rounds_are_more_frequent(following: Following) -> None:
    everyone(following, 0.1)
    lists: list[str] = []
    for cluster in (following.fakes.source, following.fakes.target):
        cluster.faults.plant(LIST_GROUPS, Run(partial(lists.append, cluster.name)), times=None)
    following.at_source(12)
    following.round()
    first = len(lists)
    round_ms = following.stored().round_ms
    following.at_source(13)
    following.round()
    assert (len(lists), following.at_target(), following.stored().round_ms) == (first, 18, round_ms)
    following.fakes.target.group_states["billing"] = ("Classic", "Stable")
    following.at_source(14)
    assert following.look() == (R.MEMBERS, 18)
    following.fakes.clock.advance(1.0)
    following.at_source(12, "late")
    for _ in range(3):  # the first one begins to list, and the next ones use the list
        following.round()
    assert (len(lists), following.at_target("late")) == (2 * first, 17)


def test_frequent_rounds_skip_a_group_that_is_ahead_and_report_it(following: Following) -> None:
    everyone(following, 0.1)
    requests: list[str] = []
    following.fakes.target.faults.plant(OFFSET_FETCH, Run(partial(requests.append, "target")), times=None)
    following.at_source(12)
    following.round()
    following.fakes.target.groups["billing"]["t", 0] = 20
    following.at_source(13)
    hindered = {"billing": R.WOULD_MOVE_BACK}
    assert dict(following.round().hindered) == hindered
    before = len(requests)
    assert dict(following.round().hindered) == hindered
    assert len(requests) == before
    following.fakes.clock.advance(1.0)
    following.round()
    assert len(requests) == before + 1
    following.at_source(18)
    assert following.look() == (R.FORWARD, 23)


def test_the_state_keeps_its_age_if_the_source_is_lost_between_two_lists(following: Following) -> None:
    everyone(following, 0.1)
    following.at_source(12)
    following.round()
    before = following.stored()
    for node in following.fakes.source.brokers:
        following.fakes.source.take_down(node)
    with pytest.raises((Unreachable, TimedOut)):
        following.round()
    assert following.stored() == before


def test_an_idle_group_costs_one_request_in_a_round(following: Following) -> None:
    requests: list[str] = []
    for cluster in (following.fakes.source, following.fakes.target):
        note = Run(partial(requests.append, cluster.name))
        cluster.faults.plant(OFFSET_FETCH, note, times=None)
    following.at_source(12)
    following.round()
    assert requests == ["a", "b"]
    following.round()
    assert requests == ["a", "b", "a"]
    following.at_source(13)
    assert following.round().groups == 1
    assert (requests[3:], following.at_target()) == (["a", "b"], 18)


@pytest.mark.parametrize(
    "more",
    [
        {"has_other_writers": True},
        {"opposite": ((TopicSelection("t"), TopicNaming("*")),)},
    ],
    ids=["shared", "both ways"],
)
def test_no_group_follows_in_a_topic_that_is_written_at_both_clusters(
    following: Following, more: dict[str, Any]
) -> None:
    """The copies in the log of the destination are between records that the source has elsewhere."""
    following.follower = GroupFollower(following.context, replace(following.job, **more), following.log)
    following.at_source(12)
    assert following.look() == (R.TWO_WAY, None)


def test_a_position_before_the_copies_is_not_moved_past_earlier_records(fakes: MirroredFakes) -> None:
    """After a switch-over, the destination has earlier records under other offsets, and a group may not have
    read them."""
    fakes.make_topic("t")
    fakes.target.write("t", fakes.records(0, 5))
    fakes.write("t", 0, 20)
    fakes.source.groups["g"] = {("t", 0): 12}
    fakes.start("t", group="orders", start=StartPosition.COMMITTED, consumer_group="g")
    fakes.run(1.0)
    fakes.stop()
    following = Following(fakes)
    with closing(following.context):
        following.at_source(3)
        fakes.target.groups["billing"] = {("t", 0): 2}
        assert following.look() == (R.BEFORE_COPIES, 2)
        following.at_source(15)
        assert following.look() == (R.FORWARD, 8)


def test_an_opposite_datastream_of_other_topics_does_not_matter(following: Following) -> None:
    opposite = ((TopicSelection("u"), TopicNaming("*")), (TopicSelection("t"), TopicNaming("back.*")))
    job = replace(following.job, opposite=opposite)
    following.follower = GroupFollower(following.context, job, following.log)
    following.at_source(12)
    assert following.look() == (R.NEW, 17)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 10))])
def test_a_failover_at_any_moment_skips_nothing(new_fakes: Callable[..., MirroredFakes], seed: int) -> None:
    """Every record at or after the group's position at the source is at or after its position at the
    destination, if it has been mirrored; none before it is, if the position is exact."""
    chance = Random(seed)
    guarantee = chance.choice([Guarantee.EXACTLY_ONCE, Guarantee.EFFECTIVELY_ONCE])
    fakes = new_fakes()
    fakes.make_topic("t")
    fakes.start("t", group="orders", policy=CopyPolicy(guarantee=guarantee))
    following = Following(fakes)
    for _ in range(10):
        records = fakes.records(len(fakes.source.log("t").batches) * 10, chance.randint(1, 5))
        fakes.source.write_in_transaction("t", records, commit=chance.random() < 0.7)
        fakes.run(chance.choice([0.0, 0.1, 0.5]))
        before = following.fakes.source.groups.get("billing", {}).get(("t", 0), 0)
        moved = max(0, before + chance.choice([0, 1, 3, 20, -5]))
        position = min(moved, fakes.source.log("t").end)
        following.at_source(position)
        following.round()
        there = following.at_target()
        if there is None:
            continue
        source = {one.value: one.offset for one in committed(fakes.source.log("t"))}
        read = [source[one.value] for one in committed(fakes.target.log("t")) if one.offset >= there]
        mirrored = [source[one.value] for one in committed(fakes.target.log("t"))]
        assert [offset for offset in mirrored if offset >= position and offset not in read] == []
        if following.group().positions[TopicPartition("t", 0)].is_exact:
            assert [offset for offset in read if offset < position] == []
    following.context.close()


def progress_partition(key: bytes) -> int:
    return crc32(key) % PARTITIONS


def take_offline(following: Following, number: int, leader: int = NOBODY) -> None:
    target = following.fakes.target
    target.move_leader(following.log.topic, number, leader)
    target.server.changed()


def test_groups_follow_beside_an_offline_partition_of_the_progress_topic(following: Following) -> None:
    taken = {progress_partition(main_key(LaneKey(STATE, TopicPartition("t", 0))))}
    taken |= {progress_partition(KEYS.of("billing"))}
    offline = next(number for number in range(PARTITIONS) if number not in taken)
    following.at_source(12)
    take_offline(following, offline)
    assert following.round().groups == 1
    assert following.at_target() == 17
    take_offline(following, offline, 1)
    assert following.stored().round_ms is None, "positions in the offline partition may be older"
    following.round()
    assert following.stored().round_ms is not None


@pytest.mark.parametrize("of_lane", [True, False])
def test_only_positions_that_are_unknown_wait_for_an_offline_partition(
    following: Following, of_lane: bool
) -> None:
    lane = main_key(LaneKey(STATE, TopicPartition("t", 0)))
    offline = progress_partition(lane if of_lane else KEYS.of("billing"))
    other = next(
        name
        for name in map(str, range(100))
        if progress_partition(KEYS.of(name)) not in (offline, progress_partition(lane))
    )
    following.job = replace(following.job, groups=FollowingGroups(include=f"billing|{other}"))
    following.follower = GroupFollower(following.context, following.job, following.log)
    for name in ("billing", other):
        following.at_source(12, name)
    take_offline(following, offline)
    report = following.round()
    assert report.hindered["billing"] is R.FAILED
    assert following.at_target() is None
    assert (other in report.hindered) is of_lane
    assert following.at_target(other) == (None if of_lane else 17)
    take_offline(following, offline, 1)
    following.round()
    assert following.at_target() == following.at_target(other) == 17
    assert following.group().positions[TopicPartition("t", 0)].reason is R.NEW


def test_a_translation_without_the_source_names_the_offline_partition(following: Following) -> None:
    following.at_source(12)
    following.round()
    take_offline(following, 3)
    job = TranslateJob(STATE, SOURCE, DESTINATION, "billing")
    with pytest.raises(Unreachable, match=r"-3 of destination: the partition has no leader: start a broker"):
        following.context.run(plan_without_source(following.context, job))
