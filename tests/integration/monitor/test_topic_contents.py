"""Whole topics as multisets of digests, read from a real cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from mirror.errors import TopicMissing, Unreachable
from mirror.settings import KafkaCluster
from monitor.adapters.topic_contents import TopicContents
from monitor.audit import audit_topic
from stack.kafka import KafkaCluster as Servers
from tests.kafka_data import Record, make_topic, produce
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.deep]

WHOLE = (0, 2**62)
PLAIN = Record(0, b"key", b"value", (("h", b"1"),), 1_700_000_000_000)
SHAPES = [
    PLAIN,
    replace(PLAIN, key=None),
    replace(PLAIN, key=b""),
    replace(PLAIN, value=None),
    replace(PLAIN, value=b""),
    replace(PLAIN, headers=()),
    replace(PLAIN, headers=(("h", None),)),
    replace(PLAIN, headers=(("h", b""),)),
    replace(PLAIN, headers=(("h", b"1"), ("h", b"1"))),
    replace(PLAIN, timestamp_ms=1_700_000_000_001),
    replace(PLAIN, key=b"keyv", value=b"alue"),
    replace(PLAIN, partition=1),
]


@pytest.fixture
def topic(source_kafka: Servers) -> str:
    name = f"contents-{uuid4().hex[:8]}"
    make_topic(source_kafka.address, name, 2)
    return name


def reader(kafka: Servers, topic: str, **ranges: tuple[int, int]) -> TopicContents:
    """Return the contents of both partitions, or of the given ranges: `p0=(2, 5)`."""
    parts = {int(name.removeprefix("p")): one for name, one in ranges.items()} or {0: WHOLE, 1: WHOLE}
    return TopicContents(KafkaCluster(bootstrap_servers=kafka.address), topic, parts, PATIENCE_SECONDS)


def contents(kafka: Servers, topic: str, **ranges: tuple[int, int]) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    reader(kafka, topic, **ranges).each(lambda digest: found.update([digest]))
    return found


def test_records_that_differ_in_anything_have_different_digests(source_kafka: Servers, topic: str) -> None:
    produce(source_kafka.address, topic, [*SHAPES, PLAIN])
    found = contents(source_kafka, topic)
    assert len(found) == len(SHAPES)
    assert sum(found.values()) == len(SHAPES) + 1
    assert max(found.values()) == 2


def test_the_same_records_in_another_topic_in_another_order_are_the_same_contents(
    source_kafka: Servers, topic: str
) -> None:
    other = f"{topic}-copy"
    make_topic(source_kafka.address, other, 2)
    produce(source_kafka.address, topic, SHAPES)
    produce(source_kafka.address, other, reversed(SHAPES), **{"compression.type": "zstd"})
    result = audit_topic(topic, reader(source_kafka, topic), reader(source_kafka, other))
    assert result.is_complete
    assert result.duplicates == 0


def test_only_the_range_is_read_though_the_log_goes_on(source_kafka: Servers, topic: str) -> None:
    produce(source_kafka.address, topic, [replace(PLAIN, value=b"%d" % number) for number in range(50)])
    whole = contents(source_kafka, topic)
    parts = [
        contents(source_kafka, topic, p0=(0, 20)),
        contents(source_kafka, topic, p0=(20, 50), p1=(0, 0)),
        contents(source_kafka, topic, p0=(50, 50)),
    ]
    assert [found.total() for found in parts] == [20, 30, 0]
    assert parts[0] + parts[1] == whole


def test_an_empty_topic_has_no_contents(source_kafka: Servers, topic: str) -> None:
    assert not contents(source_kafka, topic)


def test_records_of_an_aborted_transaction_do_not_count(source_kafka: Servers, topic: str) -> None:
    producer = Producer({"bootstrap.servers": source_kafka.address, "transactional.id": topic})
    producer.init_transactions(PATIENCE_SECONDS)
    for value, is_committed in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(PATIENCE_SECONDS)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(PATIENCE_SECONDS)
    assert sum(contents(source_kafka, topic).values()) == 1


def test_a_topic_that_is_not_there_is_named(source_kafka: Servers) -> None:
    with pytest.raises(TopicMissing, match="never-made"):
        contents(source_kafka, "never-made")


def test_a_cluster_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        TopicContents(
            KafkaCluster(bootstrap_servers="127.0.0.1:1"), "t", {0: WHOLE}, patience_seconds=1.0
        ).each(lambda _: None)
