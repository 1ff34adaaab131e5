"""Certificates of copies between two fake clusters."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.errors import CorruptData, UnexpectedCluster
from mirror.jobs.certify_job import Period, certify, changed_since, is_clean
from mirror.jobs.verify_job import VerifyJob
from mirror.model.topics import TopicPartition, TopicSelection
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.mirrored import MirroredFakes

JOB = VerifyJob(SOURCE, DESTINATION, TopicSelection("t"), state="g-t", allows_expired=True)
EVER = Period(0, 2**62)
PLACE = TopicPartition("t", 0)


@pytest.fixture
def fakes(fakes: MirroredFakes) -> MirroredFakes:
    """Return fakes that have copied 20 records of topic t, written over 4 hours."""
    fakes.make_topic("t")
    for first in range(0, 20, 5):
        fakes.write("t", first, 5)
        fakes.clock.advance(3_600)
    fakes.start("t")
    fakes.run_to("t", 20)
    fakes.stop()
    fakes.new_engine()
    return fakes


def certified(fakes: MirroredFakes, period: Period = EVER) -> dict[str, Any]:
    return fakes.context.run(certify(fakes.context, JOB, "stream", period))


def test_a_whole_copy_is_certified_with_equal_sums(fakes: MirroredFakes) -> None:
    document = certified(fakes)
    (part,) = document["partitions"]
    assert (document["verdict"], part["exclusions"], part["equal"]) == ("complete", {}, 20)
    here, there = part["source"], part["destination"]
    assert (here["start"], here["end"], here["records"]) == (0, 20, 20)
    assert {name: here[name] for name in ("records", "payload_bytes", "hash")} == {
        name: there[name] for name in ("records", "payload_bytes", "hash")
    }
    assert int(here["hash"], 16)
    assert document["source"]["cluster_id"]
    assert document["source"]["cluster_id"] != document["destination"]["cluster_id"]
    assert is_clean(document, may_repeat=False)
    assert fakes.context.run(changed_since(fakes.context, document)) == []


def test_a_period_selects_its_offsets(fakes: MirroredFakes) -> None:
    begun = fakes.source.log("t").batches[0].max_timestamp
    document = certified(fakes, Period(begun + 3_600_000, begun + 3 * 3_600_000))
    (part,) = document["partitions"]
    assert [part[side]["start"] for side in ("source", "destination")] == [5, 5]
    assert [part[side]["records"] for side in ("source", "destination")] == [10, 10]
    assert document["verdict"] == "complete"
    fakes.write("t", 20, 5)
    assert fakes.context.run(changed_since(fakes.context, document)) == []


def test_records_that_are_not_copied_yet_are_late(fakes: MirroredFakes) -> None:
    fakes.write("t", 20, 5)
    document = certified(fakes)
    (part,) = document["partitions"]
    assert (document["verdict"], part["exclusions"]) == ("late", {"not copied yet": 5})
    assert not is_clean(document, may_repeat=True)


def test_a_loss_after_the_certificate_is_found(fakes: MirroredFakes) -> None:
    document = certified(fakes)
    fakes.target.log("t").truncate(15)
    lost = 20 - len(fakes.copied("t"))
    assert fakes.context.run(changed_since(fakes.context, document)) == [PLACE]
    after = certified(fakes)
    assert (after["verdict"], after["partitions"][0]["missing"]) == ("missing", lost)
    assert not is_clean(after, may_repeat=True)


def test_a_deleted_destination_topic_is_missing_whole(fakes: MirroredFakes) -> None:
    document = certified(fakes)
    fakes.target.delete_topic("t")
    assert fakes.context.run(changed_since(fakes.context, document)) == [PLACE]
    assert certified(fakes)["partitions"][0]["missing"] == 20


def test_a_certificate_of_another_cluster_is_refused(fakes: MirroredFakes) -> None:
    document = certified(fakes)
    document["source"]["cluster_id"] = "another"
    with pytest.raises(UnexpectedCluster):
        fakes.context.run(changed_since(fakes.context, document))


@pytest.mark.parametrize("name", ["partitions", "source", "isolation", "state"])
def test_a_document_without_a_field_is_refused(fakes: MirroredFakes, name: str) -> None:
    document = certified(fakes)
    del document[name]
    with pytest.raises(CorruptData):
        fakes.context.run(changed_since(fakes.context, document))
