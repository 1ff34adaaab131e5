"""Test the reports about a lane."""

from __future__ import annotations

from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass
from mirror.replication.lanes.delivery import UnsavedProgress
from mirror.replication.reports.lane_reports import report_of
from tests.builders import a_spec


def test_a_lane_that_has_not_begun_has_taken_no_time() -> None:
    report = report_of(Lane(a_spec(), 1_000, ()), 50.0)
    assert (report.seconds, report.in_flight, report.lag, report.reason) == (0.0, 0, 0, "")


def test_what_was_read_and_is_not_certain_is_in_flight() -> None:
    lane = Lane(a_spec(), 1_000, ())
    UnsavedProgress("test").begin(lane, 5)
    lane.observed.started_at = 40.0
    lane.read.high_watermark = 30
    lane.progress.ledger.enter(OffsetClass.MIRRORED, 10)
    lane.read.position = 22
    lane.observed.held_by = "a transaction hangs"
    report = report_of(lane, 42.5)
    assert (report.start_offset, report.next_offset, report.in_flight, report.lag) == (5, 15, 7, 15)
    assert (report.seconds, report.reason) == (2.5, "a transaction hangs")
    assert report.to_json()["offsets"]["mirrored"] == 10
