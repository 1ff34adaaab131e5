"""Test the positions that a copy commits to consumer groups at the source; in virtual time."""

from __future__ import annotations

import pytest

from tests.fakes.broker.faults import Code, Delay
from tests.fakes.broker.mirrored import MirroredFakes

OFFSET_COMMIT, FIND_COORDINATOR = 8, 10
UNKNOWN_TOPIC, NOT_AUTHORIZED = 3, 30
LATE_SECONDS = 4.0


def test_an_end_shows_the_last_position_also_behind_a_commit_that_is_under_way(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 10)
    fakes.start("t", consumer_group="shown")
    fakes.run_to("t", 10)
    fakes.source.faults.plant(OFFSET_COMMIT, Delay(LATE_SECONDS), times=None)
    fakes.run_until(lambda: fakes.source.faults.taken, "a position is being committed")
    fakes.write("t", 10, 10)
    fakes.run_to("t", 20)
    fakes.stop()
    assert fakes.source.groups == {"shown": {("t", 0): 20}}


@pytest.mark.parametrize(
    ("api", "code"),
    [(OFFSET_COMMIT, Code(UNKNOWN_TOPIC, "t")), (FIND_COORDINATOR, Code(NOT_AUTHORIZED, "one"))],
)
def test_a_group_whose_positions_cannot_be_committed_delays_no_other_group(
    fakes: MirroredFakes, api: int, code: Code
) -> None:
    fakes.source.faults.plant(api, code, times=None)
    for topic, group in (("t", "one"), ("u", "two")):
        fakes.make_topic(topic)
        fakes.write(topic, 0, 10)
        fakes.start(topic, consumer_group=group)
    for topic in ("t", "u"):
        fakes.run_to(topic, 10)
    fakes.run_until(lambda: fakes.source.groups == {"two": {("u", 0): 10}}, "the other group is committed")
    fakes.source.faults.clear()
    fakes.run_until(lambda: fakes.source.groups.get("one") == {("t", 0): 10}, "the group is committed later")


def test_the_position_in_a_deleted_topic_is_dropped_with_its_lane(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 10)
    fakes.start("t", consumer_group="one")
    fakes.run_to("t", 10)
    fakes.source.delete_topic("t")
    fakes.engine.stop_lanes(tuple(fakes.engine.lanes.by_key))
    fakes.run(20)
    assert not fakes.engine.lanes.unsaved.moved
