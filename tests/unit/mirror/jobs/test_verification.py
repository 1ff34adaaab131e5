"""Test the verification of a copy between two fake clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.errors import InvalidRequest
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.jobs.verify_job import VerifyJob, verify_copy
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from tests.fakes.broker.mirrored import MirroredFakes

JOB = VerifyJob(ClusterRef("source"), ClusterRef("destination"), TopicSelection("t"), state="g-t")


@pytest.fixture
def fakes(fakes: MirroredFakes) -> MirroredFakes:
    """Return fakes that have copied 20 records of topic t."""
    fakes.make_topic("t")
    for first in range(0, 20, 5):
        fakes.write("t", first, 5)
    fakes.start("t")
    fakes.run_to("t", 20)
    fakes.stop()
    fakes.new_engine()
    return fakes


def verdict(fakes: MirroredFakes, job: VerifyJob = JOB) -> PartitionVerdict:
    (found,) = fakes.context.run(verify_copy(fakes.context, job))
    return found


def test_a_whole_copy_is_equal(fakes: MirroredFakes) -> None:
    found = verdict(fakes)
    assert (found.is_equal, found.comparison.found.counts.equal) == (True, 20)


@pytest.mark.parametrize("deleted", [5, 20])
def test_mirrored_records_that_the_destination_has_deleted_are_missing(
    fakes: MirroredFakes, deleted: int
) -> None:
    fakes.target.log("t").delete_before(deleted)
    found = verdict(fakes)
    assert not found.is_equal
    assert str(deleted) in found.problem


@pytest.mark.parametrize(("deleted", "compared"), [(5, 15), (20, 0)])
def test_what_a_destination_keeps_for_less_time_on_purpose_is_not_missing(
    fakes: MirroredFakes, deleted: int, compared: int
) -> None:
    fakes.target.log("t").delete_before(deleted)
    found = verdict(fakes, replace(JOB, allows_expired=True))
    assert (found.is_equal, found.expired, found.source_range) == (True, deleted, (deleted, 20))
    assert found.comparison.found.counts.equal == compared


def test_what_has_expired_is_known_with_a_state_only() -> None:
    with pytest.raises(InvalidRequest):
        replace(JOB, allows_expired=True, state="")


def test_records_that_both_sides_have_deleted_are_not_missing(fakes: MirroredFakes) -> None:
    fakes.target.log("t").delete_before(10)
    fakes.source.log("t").delete_before(10)
    found = verdict(fakes)
    assert (found.is_equal, found.comparison.found.counts.equal) == (True, 10)
