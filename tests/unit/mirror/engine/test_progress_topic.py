"""Test lanes whose progress topic was changed: cleanup policy, partitions, contents."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.errors import UnsafeProgressTopic
from mirror.jobs.copy_job import CopyJob, plan_copy
from mirror.lane.progress import main_key
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import LaneStopped
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from tests.fakes.broker.contents import committed
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.topics import NOBODY

PROGRESS = "headrace-progress"
GUARANTEES = pytest.mark.parametrize("guarantee", list(Guarantee))


def lose_progress(fakes: MirroredFakes) -> None:
    """Delete every checkpoint, as expired retention does."""
    fakes.target.recreate_topic(PROGRESS)


def set_policy(fakes: MirroredFakes, policy: str) -> None:
    fakes.target.topics[PROGRESS].own["cleanup.policy"] = policy


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_progress_topic_that_deletes_is_refused(fakes: MirroredFakes, policy: str) -> None:
    fakes.target.create_topic(PROGRESS, 8, 2, cleanup_policy=policy)
    fakes.make_topic("t")
    fakes.write("t", 0, 10)
    fakes.start("t")
    assert "cleanup.policy" in fakes.run_until_paused("t")
    assert fakes.numbers("t") == []
    set_policy(fakes, "compact")
    fakes.run_to("t", 10)
    fakes.check("t")


def test_a_copy_is_not_planned_beside_a_progress_topic_that_deletes(fakes: MirroredFakes) -> None:
    fakes.target.create_topic(PROGRESS, 8, 2, cleanup_policy="delete")
    fakes.make_topic("t")
    job = CopyJob("state", ClusterRef("source"), ClusterRef("destination"), TopicSelection("t"))
    with pytest.raises(UnsafeProgressTopic):
        fakes.context.run(plan_copy(fakes.context, job))


def test_a_policy_that_changes_while_lanes_run_is_reported_until_it_is_mended(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 10)
    fakes.start("t")
    fakes.run_to("t", 10)
    log, lane = fakes.context.progress(ClusterRef("destination")), fakes.lane("t")

    def keep_copying(seconds: float) -> None:
        for _ in range(int(seconds)):
            fakes.write("t", lane.read.position, 1)
            fakes.run(1.0)

    set_policy(fakes, "delete")
    keep_copying(65)
    assert log.problem is not None
    assert "cleanup.policy" in fakes.engine.lanes.failures.by_lane[lane].sentence
    set_policy(fakes, "compact")
    keep_copying(65)
    assert log.problem is None
    fakes.run_to("t", 140)
    fakes.check("t")


@GUARANTEES
@pytest.mark.parametrize("more", [9, 16, 24])
def test_progress_is_found_again_after_partitions_were_added(
    fakes: MirroredFakes, guarantee: Guarantee, more: int
) -> None:
    policy = CopyPolicy(guarantee=guarantee)
    fakes.make_topic("t", 6)
    for number in range(6):
        fakes.write("t", 0, 100, number)
    fakes.start("t", 6, policy=policy)
    for number in range(6):
        fakes.run_to("t", 100, number)
    fakes.stop()
    fakes.target.grow_topic(PROGRESS, more)
    fakes.restart("t", 6, policy=policy)
    for number in range(6):
        fakes.write("t", 100, 5, number)
    for number in range(6):
        fakes.run_to("t", 105, number)
    fakes.check("t", 6)
    fakes.stop()
    fakes.restart("t", 6, policy=policy)
    for number in range(6):
        fakes.run_to("t", 105, number)
    fakes.check("t", 6)


def test_partitions_that_are_added_meanwhile_part_no_records_of_a_lane(fakes: MirroredFakes) -> None:
    fakes.make_topic("t", 6)
    fakes.start("t", 6)
    fakes.run(2.0)
    fakes.target.grow_topic(PROGRESS, 16)
    fakes.context.run(fakes.context.cluster(ClusterRef("destination")).refresh([PROGRESS]))
    for number in range(6):
        fakes.write("t", 0, 10, number)
    for number in range(6):
        fakes.run_to("t", 10, number)
    keys = [
        {record.key for record in committed(partition.log) if record.key}
        for partition in fakes.target.topics[PROGRESS].partitions
    ]
    assert sum(map(len, keys)) == len(set[bytes]().union(*keys)), "no key is in two partitions"


@GUARANTEES
def test_latest_counts_for_the_first_start_only(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    fields: dict[str, Any] = {"start": StartPosition.LATEST, "policy": CopyPolicy(guarantee=guarantee)}
    fakes.make_topic("t")
    fakes.start("t", **fields)
    fakes.run_until(lambda: fakes.lane("t").observed.is_announced, "the lane starts")
    fakes.write("t", 0, 10)
    fakes.run_to("t", 10)
    fakes.stop()
    lose_progress(fakes)
    fakes.write("t", 10, 30)
    fakes.restart("t", **fields)
    assert "progress is lost" in fakes.run_until_paused("t")


def test_a_lost_position_is_taken_from_the_lanes_own_group(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 40)
    fakes.source.groups["g-t"] = {("t", 0): 10}
    fakes.start("t", start=StartPosition.LATEST, consumer_group="g-t")
    fakes.run_to("t", 40)
    assert fakes.numbers("t") == list(range(10, 40))


def test_who_accepts_losses_continues_at_the_end_with_a_gap(fakes: MirroredFakes) -> None:
    fields: dict[str, Any] = {"start": StartPosition.LATEST, "policy": CopyPolicy(on_loss=OnLoss.CONTINUE)}
    fakes.make_topic("t")
    fakes.start("t", **fields)
    fakes.run_until(lambda: fakes.lane("t").observed.is_announced, "the lane starts")
    fakes.write("t", 0, 10)
    fakes.run_to("t", 10)
    fakes.stop()
    lose_progress(fakes)
    fakes.write("t", 10, 30)
    fakes.restart("t", **fields)
    fakes.run_until(lambda: fakes.lane("t").observed.is_announced, "the lane starts")
    fakes.write("t", 40, 5)
    fakes.run_to("t", 45)
    assert fakes.numbers("t") == [*range(10), *range(40, 45)]
    assert fakes.lane("t").progress.gaps


def partition_of(fakes: MirroredFakes, topic: str, number: int = 0) -> int:
    """Return the partition of the progress topic that has, or will have, the progress of a lane."""
    log = fakes.context.progress(ClusterRef("destination"))
    return log.partition_of(main_key(fakes.lane(topic, number).key))


def take_offline(fakes: MirroredFakes, number: int, leader: int = NOBODY) -> None:
    fakes.target.move_leader(PROGRESS, number, leader)
    fakes.target.server.changed()


@GUARANTEES
def test_lanes_start_beside_an_offline_partition_of_the_progress_topic(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    policy = CopyPolicy(guarantee=guarantee)
    fakes.make_topic("t", 6)
    for number in range(6):
        fakes.write("t", 0, 10, number)
    fakes.start("t", 6, policy=policy)
    for number in range(6):
        fakes.run_to("t", 10, number)
    places = {number: partition_of(fakes, "t", number) for number in range(6)}
    fakes.stop()
    offline = places[0]
    there = [number for number, place in places.items() if place == offline]
    elsewhere = [number for number, place in places.items() if place != offline]
    assert elsewhere, "the test needs lanes with their progress in other partitions"
    take_offline(fakes, offline)
    for number in range(6):
        fakes.write("t", 10, 10, number)
    fakes.restart("t", 6, policy=policy)
    started_at = fakes.clock.monotonic()
    for number in elsewhere:
        fakes.run_to("t", 20, number)
    assert fakes.clock.monotonic() - started_at < 10
    for number in there:
        assert f"{PROGRESS}-{offline} of " in fakes.run_until_paused("t", number)
        assert len(fakes.copied("t", number)) == 10
    take_offline(fakes, offline, 1)
    for number in there:
        fakes.run_to("t", 20, number)
    fakes.check("t", 6)


@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.EFFECTIVELY_ONCE])
def test_an_offline_partition_of_the_progress_topic_delays_no_other_checkpoint(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    fakes.make_topic("t", 6)
    for number in range(6):
        fakes.write("t", 0, 10, number)
    fakes.start("t", 6, policy=CopyPolicy(guarantee=guarantee))
    for number in range(6):
        fakes.run_to("t", 10, number)
    offline = partition_of(fakes, "t", 0)
    elsewhere = [number for number in range(6) if partition_of(fakes, "t", number) != offline]
    take_offline(fakes, offline)
    for number in range(6):
        fakes.write("t", 10, 10, number)
    started_at = fakes.clock.monotonic()
    for number in elsewhere:
        fakes.run_to("t", 20, number)
    assert fakes.clock.monotonic() - started_at < 5
    fakes.run(10)
    lane = fakes.lane("t")
    assert lane.checkpoint == 20
    assert fakes.is_unsaved(lane)
    assert f"{PROGRESS}-{offline} of " in fakes.engine.lanes.failures.by_lane[lane].sentence
    fakes.engine.stop_lanes([fakes.lane("t", number).key for number in range(6)])
    fakes.run(1)
    stopped = {one.key.partition.partition for one in fakes.events if isinstance(one, LaneStopped)}
    assert stopped == set(elsewhere)
    take_offline(fakes, offline, 1)
    fakes.run(5)
    stopped = {one.key.partition.partition for one in fakes.events if isinstance(one, LaneStopped)}
    assert stopped == set(range(6))


def test_an_offline_partition_of_the_progress_topic_stops_no_other_transaction(fakes: MirroredFakes) -> None:
    policy = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE)
    fakes.make_topic("t", 6)
    for number in range(6):
        fakes.write("t", 0, 10, number)
    fakes.start("t", 6, policy=policy)
    for number in range(6):
        fakes.run_to("t", 10, number)
    offline = partition_of(fakes, "t", 0)
    take_offline(fakes, offline)
    for first in (10, 20, 30):
        for number in range(6):
            fakes.write("t", first, 10, number)
        for number in range(6):
            if partition_of(fakes, "t", number) != offline:
                fakes.run_to("t", first + 10, number)
        fakes.run(30)
    assert f"{PROGRESS}-{offline} of " in fakes.run_until_paused("t")
    assert fakes.numbers("t") == list(range(10))
    take_offline(fakes, offline, 1)
    for number in range(6):
        fakes.run_to("t", 40, number)
    fakes.check_contents("t", 6)


def test_a_new_lane_waits_if_its_progress_may_be_in_an_offline_partition(fakes: MirroredFakes) -> None:
    fakes.target.create_topic(PROGRESS, 5, 2, cleanup_policy="compact")
    take_offline(fakes, 4)
    fakes.make_topic("t", 6)
    fakes.start("t", 6)
    for number in range(6):
        assert f"{PROGRESS}-4 of " in fakes.run_until_paused("t", number)
    take_offline(fakes, 4, 1)
    for number in range(6):
        fakes.write("t", 0, 10, number)
        fakes.run_to("t", 10, number)
    fakes.check("t", 6)
