"""The topic of incidents on a fake broker: fences, lost responses, rejected rows and missing rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mirror.adapters.settings import KafkaCluster
from mirror.errors import Fenced, NotAuthorized, Refused
from monitor.adapters.incident_topic import IncidentTopic
from monitor.records.record import IncidentRecord, Phase
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code, Drop

PRODUCE, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 19, 22
UNKNOWN_TOPIC, TOO_LARGE, NO_RIGHTS, OUT_OF_ORDER = 3, 10, 29, 45
OPENED = IncidentRecord("orders-1", "orders", "east", 1).noted(1, Phase.DETECTED, "late")
CLOSED = OPENED.noted(2, Phase.CLOSED, "well")


@pytest.fixture
def level() -> int:
    """Transaction protocol of the cluster."""
    return 2


@pytest.fixture
def cluster(level: int) -> Iterator[FakeCluster]:
    with ExitStack() as stack:
        yield stack.enter_context(running(FakeCluster("metrics", 2, transaction_level=level)))


def topic_of(cluster: FakeCluster, rows: str = "") -> IncidentTopic:
    return IncidentTopic(KafkaCluster(bootstrap_servers=cluster.address), "incidents", 90, rows)


def plant(cluster: FakeCluster, api: int, fault: Code | Drop, times: int | None = 1) -> None:
    with cluster.lock:
        cluster.faults.plant(api, fault, times=times)


@pytest.mark.parametrize("level", [0, 2])
def test_a_predecessor_is_fenced_before_its_successor_writes(cluster: FakeCluster) -> None:
    frozen, following = topic_of(cluster), topic_of(cluster)
    assert frozen.load() == ([], {})
    frozen.write([OPENED], {"alerts/a": b"1"})
    assert following.load() == ([OPENED], {"alerts/a": b"1"})
    for _ in range(2):
        with pytest.raises(Fenced):
            frozen.write([CLOSED], {})
    following.write([CLOSED], {"alerts/a": None})
    assert frozen.read() == following.read() == ([CLOSED], {})
    frozen.reclaim()
    frozen.write([OPENED], {})
    with pytest.raises(Fenced):
        following.write([CLOSED], {})


def test_a_write_without_response_is_repeated(cluster: FakeCluster) -> None:
    topic = topic_of(cluster)
    topic.load()
    faults: list[Code | Drop] = [Code(UNKNOWN_TOPIC), Drop(applied=True), Drop()]
    for record, fault in zip((OPENED, OPENED, CLOSED), faults, strict=True):
        plant(cluster, PRODUCE, fault)
        topic.write([record], {"alerts/a": b"1"})
    assert topic.read() == ([CLOSED], {"alerts/a": b"1"})


def test_after_a_failed_write_the_next_one_has_another_epoch(cluster: FakeCluster) -> None:
    topic = topic_of(cluster)
    topic.load()
    topic.write([OPENED], {})
    plant(cluster, PRODUCE, Code(OUT_OF_ORDER))
    with pytest.raises(Refused):
        topic.write([CLOSED], {})
    plant(cluster, INIT_PRODUCER_ID, Drop(applied=True))
    topic.write([CLOSED], {})
    with cluster.lock:
        epochs = [batch.producer_epoch for batch in cluster.log("incidents", 0).batches]
    assert len(set(epochs)) == len(epochs) == 3, "of the fence and of two writes"
    assert topic.read() == ([CLOSED], {})


def test_a_missing_right_is_named_with_the_topic(cluster: FakeCluster) -> None:
    topic = topic_of(cluster)
    topic.load()
    plant(cluster, PRODUCE, Code(NO_RIGHTS))
    with pytest.raises(NotAuthorized, match="grant Write on topic incidents to User:ANONYMOUS"):
        topic.write([OPENED], {})
    topic.write([OPENED], {})
    assert topic.read() == ([OPENED], {})


def test_a_row_that_is_rejected_waits_and_delays_no_other(cluster: FakeCluster) -> None:
    topic = topic_of(cluster, "rows")
    topic.load()
    plant(cluster, CREATE_TOPICS, Code(NO_RIGHTS))
    topic.write([OPENED], {})
    plant(cluster, PRODUCE, Code(TOO_LARGE, "rows"))
    for number in range(2, 4):
        topic.write([IncidentRecord(f"orders-{number}", "orders", "east", number)], {})
    with cluster.lock:
        keys = [record.key for record in committed(cluster.log("rows", 0))]
    assert sorted(filter(None, keys)) == [b"orders-1", b"orders-2", b"orders-3"]
    assert len(topic.read().records) == 3
