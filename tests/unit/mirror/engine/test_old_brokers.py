"""Test brokers that are older than the ones at the other side; in virtual time."""

from __future__ import annotations

import pytest

from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Guarantee
from tests.fakes.broker import batches
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, METADATA, LZ4, ZSTD = 0, 3, 3, 4
BEFORE_ZSTD, BEFORE_TOPIC_IDS = 6, 9


def codecs_at(fakes: MirroredFakes) -> set[int]:
    return {batches.view(batch.data).compression_type for batch in fakes.target.log("t").batches}


@pytest.mark.parametrize("path", [CopyPath.AUTO, CopyPath.RECORD])
@pytest.mark.parametrize(("version", "codec"), [(BEFORE_ZSTD, LZ4), (BEFORE_ZSTD + 1, ZSTD)])
def test_zstandard_is_written_as_lz4_where_the_destination_cannot_read_it(
    fakes: MirroredFakes, path: CopyPath, version: int, codec: int
) -> None:
    fakes.target.newest_versions[PRODUCE] = version
    fakes.make_topic("t")
    fakes.write("t", 0, 200, codec=ZSTD)
    fakes.write("t", 200, 5, codec=ZSTD)
    fakes.start("t", policy=CopyPolicy(path=path))
    fakes.run_to("t", 205)
    fakes.check("t")
    assert codecs_at(fakes) == {codec}


@pytest.mark.parametrize("on_source", [True, False])
def test_known_ids_of_topics_are_kept_while_an_older_broker_reports_none(
    fakes: MirroredFakes, on_source: bool
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.start("t")
    fakes.run_to("t", 5)
    progress = fakes.lane("t").progress
    known = progress.source.topic_id, progress.target_id
    (fakes.source if on_source else fakes.target).newest_versions[METADATA] = BEFORE_TOPIC_IDS
    fakes.restart("t")
    fakes.write("t", 5, 5)
    fakes.run_to("t", 10)
    progress = fakes.lane("t").progress
    assert (progress.source.topic_id, progress.target_id) == known
    assert all(known)


@pytest.mark.parametrize("is_far", [False, True])
def test_topics_without_ids_are_read_by_name(fakes: MirroredFakes, is_far: bool) -> None:
    """An upgraded broker reads by topic id before the topics of the cluster have ids."""
    fakes.network.round_trip = 0.05 if is_far else 0.0
    fakes.source.newest_versions[METADATA] = BEFORE_TOPIC_IDS
    fakes.make_topic("t")
    fakes.make_topic("u")
    fakes.write("t", 0, 5)
    fakes.start("t")
    fakes.run_to("t", 5)
    del fakes.source.newest_versions[METADATA]
    fakes.start("u")
    for topic in ("t", "u"):
        fakes.write(topic, 5, 5)
    fakes.run_to("t", 10)
    fakes.run_to("u", 5)
    fakes.check_contents("t")
    fakes.check_contents("u")
    assert not fakes.source.server.refused


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_topics_without_ids_are_written_by_name(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    """An upgraded broker takes topic ids in Produce requests before the topics of the cluster have ids."""
    policy = CopyPolicy(guarantee=guarantee)
    fakes.target.newest_versions[METADATA] = BEFORE_TOPIC_IDS
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.start("t", policy=policy)
    fakes.run_to("t", 5)
    del fakes.target.newest_versions[METADATA]
    for node in (1, 2):
        fakes.target.server.drop_connections(node)
    fakes.make_topic("u")
    fakes.start("u", policy=policy)
    for topic in ("t", "u"):
        fakes.write(topic, 5, 5)
    fakes.run_to("t", 10)
    fakes.run_to("u", 5)
    assert [bool(fakes.lane(topic).progress.target_id) for topic in ("t", "u")] == [False, True]
    for topic in ("t", "u"):
        fakes.check_contents(topic)
    assert not fakes.target.server.refused
