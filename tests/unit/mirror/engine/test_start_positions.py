"""Lanes whose source does not say at once where they begin."""

from __future__ import annotations

import pytest

from mirror.model.datastreams.datastream import StartPosition
from tests.fakes.broker.faults import Code
from tests.fakes.broker.mirrored import MirroredFakes

LIST_OFFSETS, OFFSET_FETCH = 2, 9
NOT_LEADER, LOADING, NOT_COORDINATOR, NO_RIGHTS = 6, 14, 16, 30


def start(fakes: MirroredFakes) -> None:
    """Of 20 records the group has read 12."""
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.source.groups["g"] = {("t", 0): 12}
    fakes.start("t", start=StartPosition.COMMITTED, consumer_group="g")


@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING])
def test_a_coordinator_that_has_moved_or_loads_is_asked_again(fakes: MirroredFakes, code: int) -> None:
    fakes.source.faults.plant(OFFSET_FETCH, Code(code), times=2)
    start(fakes)
    fakes.run_to("t", 20)
    assert fakes.numbers("t") == list(range(12, 20))


def test_a_group_that_may_not_be_read_pauses_its_lanes(fakes: MirroredFakes) -> None:
    fakes.source.faults.plant(OFFSET_FETCH, Code(NO_RIGHTS), times=None)
    start(fakes)
    assert "GROUP_AUTHORIZATION_FAILED" in fakes.run_until_paused("t")
    assert fakes.numbers("t") == []
    fakes.source.faults.clear()
    fakes.run_to("t", 20)
    assert fakes.numbers("t") == list(range(12, 20))


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
    fakes.run_until(lambda: fakes.lane("t").is_announced, "it begins")
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    assert fakes.numbers("t") == list(range(20, 25))
