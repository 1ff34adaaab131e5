"""Test the records read by an audit, with fake clusters on both sides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror.lane.ledger import Ledger, LeftOut, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.settings import KafkaCluster
from monitor.adapters.topic_contents import TopicContents
from monitor.audit import AuditResult, audit_topic
from tests.builders import enter
from tests.fakes.broker import batches
from tests.fakes.broker.cluster import FakeCluster, running


@pytest.fixture
def source() -> Iterator[FakeCluster]:
    with running(FakeCluster("source")) as cluster:
        cluster.create_topic("t")
        yield cluster


@pytest.fixture
def target() -> Iterator[FakeCluster]:
    with running(FakeCluster("target")) as cluster:
        cluster.create_topic("t")
        yield cluster


def audited(source: FakeCluster, target: FakeCluster, left_out: LeftOut | None = None) -> AuditResult:
    """Return the result of a full audit."""
    here, there = [
        TopicContents(
            KafkaCluster(bootstrap_servers=one.address),
            "t",
            {0: (one.log("t").start, one.log("t").end)},
            left_out={0: left_out} if one is source else {},
        )
        for one in (source, target)
    ]
    return audit_topic("t", here, there)


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_old_formats_equal_their_copies(
    source: FakeCluster, target: FakeCluster, magic: int
) -> None:
    for number in range(50):
        source.append("t", batches.old_message(b"key", b"%d" % number, magic))
        target.write("t", [(1_000 if magic else -1, b"key", b"%d" % number, [])])
    result = audited(source, target)
    assert (result.missing, result.foreign, result.source_records) == (0, 0, 50)


def test_a_timestamp_of_zero_is_not_the_same_as_none(source: FakeCluster, target: FakeCluster) -> None:
    source.append("t", batches.old_message(b"key", b"1"))
    target.write("t", [(0, b"key", b"1", [])])
    result = audited(source, target)
    assert (result.missing, result.foreign) == (1, 1)


@pytest.mark.parametrize("offset_class", [OffsetClass.COMPACTED, OffsetClass.ABORTED, OffsetClass.LOST])
def test_a_record_that_the_source_serves_is_missing_whatever_class_the_ledger_has_for_it(
    source: FakeCluster, target: FakeCluster, offset_class: OffsetClass
) -> None:
    """This applies even if as many records were skipped on purpose and have expired since."""
    for number in range(0, 40, 4):
        source.write("t", [(1_000, b"key", b"%d" % n, []) for n in range(number, number + 4)])
    target.write("t", [(1_000, b"key", b"%d" % n, []) for n in range(36, 40)])
    ledger, offset_map = Ledger(0), OffsetMap()
    for one, count in ((OffsetClass.FILTERED, 20), (offset_class, 12), (OffsetClass.FILTERED, 4)):
        enter(ledger, one, count)
    offset_map.add(36, 0, 4)
    enter(ledger, OffsetClass.MIRRORED, 4)
    source.log("t").delete_before(20)
    result = audited(source, target, LeftOut(ledger, offset_map))
    assert (result.missing, result.left_out, result.foreign) == (12, 4, 0)
    assert not result.is_complete
