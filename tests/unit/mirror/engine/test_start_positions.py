"""Test start positions of lanes, in particular if the source does not return them at once."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import LanePaused, LaneStopped
from mirror.model.datastreams.policy import CopyPolicy, Isolation, OnLoss
from tests.fakes.broker.batches import Content
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code, Gate, HandledRequest, Hold, Run
from tests.fakes.broker.mirrored import MirroredFakes

LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR = 2, 9, 10
NOT_LEADER, LOADING, NO_COORDINATOR, NOT_COORDINATOR, NO_RIGHTS = 6, 14, 15, 16, 30


def start(fakes: MirroredFakes, policy: CopyPolicy | None = None) -> None:
    """Start a lane at the offset of a consumer group that has read 12 of 20 records."""
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.source.groups["g"] = {("t", 0): 12}
    fakes.start("t", start=StartPosition.COMMITTED, consumer_group="g", policy=policy or CopyPolicy())


@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING])
def test_a_coordinator_that_has_moved_or_loads_is_asked_again(fakes: MirroredFakes, code: int) -> None:
    fakes.source.faults.plant(OFFSET_FETCH, Code(code), times=2)
    start(fakes)
    fakes.run_to("t", 20)
    assert fakes.numbers("t") == list(range(12, 20))


@pytest.mark.parametrize(
    ("api", "code", "reason"),
    [
        (OFFSET_FETCH, NO_RIGHTS, "GROUP_AUTHORIZATION_FAILED"),
        (FIND_COORDINATOR, NO_COORDINATOR, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_group_that_cannot_be_read_pauses_its_lanes_and_no_others(
    fakes: MirroredFakes, api: int, code: int, reason: str
) -> None:
    fakes.source.faults.plant(api, Code(code), times=None)
    start(fakes)
    fakes.make_topic("other")
    fakes.write("other", 0, 20)
    fakes.start("other")
    assert reason in fakes.run_until_paused("t")
    fakes.run_to("other", 20)
    assert {one.key for one in fakes.events if isinstance(one, LanePaused)} == {fakes.lane("t").key}
    assert fakes.numbers("t") == []
    fakes.source.faults.clear()
    fakes.run_to("t", 20)
    assert fakes.numbers("t") == list(range(12, 20))


def test_a_topic_that_is_created_again_is_read_from_its_beginning(fakes: MirroredFakes) -> None:
    start(fakes, CopyPolicy(on_loss=OnLoss.CONTINUE))
    fakes.run_to("t", 20)
    fakes.source.recreate_topic("t")
    fakes.source.server.changed()
    fakes.source.groups["g"] = {("t", 0): 12}
    fakes.write("t", 100, 30)
    fakes.run_to("t", 30)
    assert fakes.numbers("t") == [*range(12, 20), *range(100, 130)]


def test_a_lane_that_pauses_before_it_has_begun_still_begins_where_it_is_to(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.source.faults.plant(LIST_OFFSETS, Code(NOT_LEADER), times=None)
    fakes.start("t", start=StartPosition.LATEST)
    fakes.run_until_paused("t")
    fakes.run(2)
    fakes.restart("t", start=StartPosition.LATEST)
    fakes.run(2)
    fakes.source.faults.clear()
    fakes.run_until(lambda: fakes.lane("t").observed.is_announced, "the lane starts")
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    assert fakes.numbers("t") == list(range(20, 25))


def since(moment: int) -> dict[str, Any]:
    return {"start": StartPosition.TIMESTAMP, "start_ms": moment}


def write_at(fakes: MirroredFakes, moment: int, *numbers: int) -> None:
    """Write a batch with one record per second, starting at this time."""
    contents: list[Content] = [
        (moment + place * 1_000, None, b"%d" % n, []) for place, n in enumerate(numbers)
    ]
    fakes.source.write("t", contents)


def test_it_begins_at_the_first_record_that_is_not_older_than_a_moment(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    write_at(fakes, 1_000_000, 0, 1, 2)
    write_at(fakes, 1_010_000, 3, 4)
    write_at(fakes, 1_001_500, 5)  # out of order
    fakes.start("t", **since(1_001_001))
    fakes.run_to("t", 6)
    assert fakes.numbers("t") == [2, 3, 4, 5]
    assert fakes.lane("t").progress.ledger.start == 2


def test_where_nothing_is_as_young_it_begins_at_the_end(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    write_at(fakes, 1_000_000, 0, 1, 2)
    fakes.start("t", **since(1_002_001))
    fakes.run_until(lambda: fakes.lane("t").observed.is_announced, "the lane starts")
    write_at(fakes, 1_000_000, 3)
    fakes.run_to("t", 4)
    assert fakes.numbers("t") == [3]


@pytest.mark.parametrize("isolation", Isolation)
def test_a_record_that_comes_while_it_looks_for_its_beginning_is_copied(
    fakes: MirroredFakes, isolation: Isolation
) -> None:
    """The lookup by time finds nothing, and a new enough record arrives before the lookup of the end."""
    fakes.make_topic("t")
    write_at(fakes, 1_000_000, 0, 1, 2)
    asked: list[HandledRequest] = []

    def is_second(one: HandledRequest) -> bool:
        asked.append(one)
        return len(asked) == 2

    fakes.source.faults.plant(LIST_OFFSETS, Run(lambda: write_at(fakes, 2_000_000, 3)), fits=is_second)
    fakes.start("t", policy=CopyPolicy(isolation=isolation), **since(1_500_000))
    fakes.run_until(lambda: fakes.lane("t").observed.is_announced, "the lane starts")
    assert fakes.source.faults.is_spent
    write_at(fakes, 2_001_000, 4)
    fakes.run_to("t", 5)
    assert fakes.numbers("t") == [3, 4]


@pytest.mark.parametrize(("newest", "numbers"), [(8, [5, 6, 7]), (7, list(range(8)))], ids=["tiers", "older"])
def test_it_begins_with_what_brokers_have_on_their_own_disks(
    fakes: MirroredFakes, newest: int, numbers: list[int]
) -> None:
    """A broker without this request has no remote tier, so it has everything on its disks."""
    fakes.source.newest_versions[LIST_OFFSETS] = newest
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.write("t", 5, 3)
    fakes.source.log("t").tiered_to = 5
    fakes.start("t", start=StartPosition.EARLIEST_LOCAL)
    fakes.run_to("t", 8)
    assert fakes.numbers("t") == numbers


@pytest.mark.parametrize("api", [LIST_OFFSETS, OFFSET_FETCH])
def test_a_lane_that_stops_before_its_beginning_is_known_stores_nothing(
    fakes: MirroredFakes, api: int
) -> None:
    """Another instance may own the lane by then."""
    gate = Gate()
    fakes.source.faults.plant(api, Hold(gate))
    if api == OFFSET_FETCH:
        start(fakes)
    else:
        fakes.make_topic("t")
        fakes.start("t")
    fakes.run_until(lambda: fakes.source.faults.is_spent, "the lane looks up its start position")
    key = fakes.lane("t").key
    fakes.engine.stop_lanes([key])
    fakes.run_until(lambda: LaneStopped(key, None) in fakes.events, "the lane stops")
    gate.open()
    fakes.run(2.0)
    logs = [one.log for one in fakes.target.topics["headrace-progress"].partitions]
    assert [record for log in logs for record in committed(log)] == []


def test_a_lane_begins_at_the_offset_that_its_datastream_names(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", start=StartPosition.LATEST, start_offset=7)
    fakes.run_to("t", 20)
    assert fakes.numbers("t") == list(range(7, 20))


def test_an_offset_counts_only_where_nothing_was_copied(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", start_offset=7)
    fakes.run_to("t", 20)
    fakes.engine.stop_lanes([fakes.lane("t").key])
    fakes.run_until(lambda: any(isinstance(one, LaneStopped) for one in fakes.events), "the lane has stopped")
    fakes.write("t", 20, 5)
    fakes.start("t", start_offset=7)
    fakes.run_to("t", 25)
    assert fakes.numbers("t") == list(range(7, 25))


@pytest.mark.parametrize(("offset", "reason"), [(3, "t-0"), (50, "t-0")])
def test_an_offset_that_the_source_lacks_is_a_loss(fakes: MirroredFakes, offset: int, reason: str) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.write("t", 5, 15)
    fakes.source.log("t", 0).delete_before(5)
    fakes.start("t", start_offset=offset)
    assert reason in fakes.run_until_paused("t")
    assert fakes.numbers("t") == []
