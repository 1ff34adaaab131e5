"""Test the verdict on a fault."""

from __future__ import annotations

from tests.chaos.clusters.faults import Kind
from tests.chaos.clusters.run import Row
from tests.chaos.service.comparison import Findings


def test_lost_repeated_and_disordered_records_are_violations() -> None:
    row = Row(Kind.KILL, "source", findings=Findings(written=10, lost=1, doubled=2, out_of_order=3))
    assert row.violations == ["1 records lost", "3 records out of order", "2 records doubled"]


def test_a_loss_of_the_cluster_must_be_recorded_by_a_lane() -> None:
    row = Row(Kind.UNCLEAN, "source", findings=Findings(written=10, aborted=4), own_loss=4)
    assert row.violations == ["no lane recorded the loss of the cluster"]
    row.gaps.append("the source log diverges at offset 6")
    assert row.violations == []


def test_only_an_unclean_election_may_lose_records_of_the_cluster() -> None:
    row = Row(Kind.KILL, "destination", own_loss=1, gaps=["offset 5 is lost"])
    assert row.violations == ["the cluster has lost 1 records"]


def test_a_fault_that_was_not_carried_out_is_a_violation() -> None:
    assert Row(Kind.DISK_FULL, "source", failure="not root").violations == ["not root"]
