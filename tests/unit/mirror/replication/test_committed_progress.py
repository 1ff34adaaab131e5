"""Test when an exactly-once lane that acquires its id returns to its committed progress."""

from __future__ import annotations

from mirror.lane.lane import Lane
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.replication.lanes.delivery import UnsavedProgress
from mirror.replication.ownership.producer_ids import _differs
from tests.builders import a_spec


def _stored(mirrored: int, life: int = 0) -> LaneProgress:
    ledger = Ledger(0)
    ledger.enter(OffsetClass.MIRRORED, mirrored)
    return LaneProgress(ledger, OffsetMap(), life=life)


def _lane(mirrored: int) -> Lane:
    lane = Lane(a_spec("t-0"))
    UnsavedProgress("test").load(lane, _stored(mirrored))
    return lane


def test_a_lane_that_has_passed_over_aborted_records_and_markers_goes_on() -> None:
    lane = _lane(51)
    lane.progress.ledger.enter(OffsetClass.CONTROL, 2)
    assert not _differs(_stored(51), lane)


def test_a_lane_that_knows_records_of_a_transaction_that_was_not_committed_goes_back() -> None:
    assert _differs(_stored(51), _lane(60))


def test_a_lane_that_does_not_know_what_its_former_owner_committed_catches_up() -> None:
    assert _differs(_stored(60), _lane(51))


def test_the_lane_of_a_new_topic_does_not_return_to_the_old_one() -> None:
    lane = _lane(51)
    lane.progress.begin_life(0, "created again", same_log=False, leader_epoch=-1)
    assert not _differs(_stored(51), lane)
    assert _differs(_stored(5, life=2), lane)
