"""Test the positions that a copy commits to consumer groups at the source; in virtual time."""

from __future__ import annotations

from tests.fakes.broker.faults import Delay
from tests.fakes.broker.mirrored import MirroredFakes

OFFSET_COMMIT = 8
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
