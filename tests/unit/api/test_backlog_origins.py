"""Test the origin of a lane's backlog, and the time at which it arose."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mirror.instance.workers.lane_table import LaneLoss, LanePhase, LaneStatus
from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.identifiers import InstanceName
from mirror.worker.protocol import LaneRate
from monitor.causes.evidence import BacklogOrigin
from monitor.lane_verdicts import backlog_of
from tests.builders import SOURCE, a_key, a_spec
from tests.fakes.partition_lives import PartitionLife

NOW_MS: Final = 1_700_000_000_000


def a_lane(
    began_before: float, age_ms: int | None, lost_before: float | None = None
) -> tuple[LaneStatus, float]:
    """Return a lane in time that has copied for `began_before` seconds, and the present time."""
    life = PartitionLife().run(60, 100, 99)
    waiting = int(life.end) - life.checkpoint
    rate = LaneRate(a_key("t-0"), SOURCE, 5_000.0, 50.0, waiting, age_ms)
    lane = LaneStatus(a_spec("t-0"), 0, LanePhase.COPYING, since=life.now - began_before)
    lane = replace(lane, track=LaneTrack(life.history, rate))
    return replace(lane, loss=None if lost_before is None else LaneLoss(life.now - lost_before)), life.now


@pytest.mark.parametrize(
    ("began_before", "age_ms", "lost_before", "origin"),
    [
        (5, 7_000, 6.0, BacklogOrigin.WORKER),
        (5, 7_000, None, BacklogOrigin.RESTART),
        (5, 2_000, 6.0, BacklogOrigin.WORKER),
        (5, None, 6.0, BacklogOrigin.WORKER),
        (60, 2_000, 61.0, BacklogOrigin.WORKER),
        (190, 2_000, 181.0, None),
        (190, None, 181.0, None),
        (700, 701_000, 701.0, BacklogOrigin.RESTART),
    ],
)
def test_what_waits_since_before_a_lane_began_is_what_its_beginning_left(
    began_before: float, age_ms: int | None, lost_before: float | None, origin: BacklogOrigin | None
) -> None:
    lane, now = a_lane(began_before, age_ms, lost_before)
    assert backlog_of(lane, now, NOW_MS).origin is origin
    since = lost_before if origin is BacklogOrigin.WORKER else began_before
    expected = None if origin is None or since is None else NOW_MS - int(since * 1_000)
    assert backlog_of(lane, now, NOW_MS).since_ms == expected


def test_the_loss_of_an_instance_is_named_with_its_time() -> None:
    lane, now = a_lane(5, 7_000, 6.0)
    lost = replace(lane, loss=LaneLoss(now - 6.0, InstanceName("two")))
    assert backlog_of(lost, now, NOW_MS) == (BacklogOrigin.INSTANCE, NOW_MS - 6_000, "two")
    assert backlog_of(lane, now, NOW_MS).lost_instance is None


def test_a_lane_that_recovered_by_itself_had_an_outage() -> None:
    lane, now = a_lane(5, 7_000)
    assert backlog_of(replace(lane, recovered=True), now, NOW_MS).origin is BacklogOrigin.OUTAGE


def test_a_backlog_that_was_just_copied_has_the_loss_of_a_process_as_its_origin() -> None:
    """The records that were late since the loss are in the windows of objectives for a while."""
    lane, now = a_lane(5, None, 6.0)
    rate = LaneRate(a_key("t-0"), SOURCE, 5_000.0, 50.0, 0, 0)
    copied = replace(lane, track=LaneTrack(PartitionLife().run(60, 100, 100).history, rate))
    assert copied.lag[0] == 0
    assert backlog_of(copied, now, NOW_MS).origin is BacklogOrigin.WORKER
    assert backlog_of(copied, now, NOW_MS).since_ms == NOW_MS - 6_000
    assert backlog_of(copied, now + 180, NOW_MS).origin is None
    assert backlog_of(replace(copied, loss=None), now, NOW_MS).origin is None
