"""A probe on fake brokers. The mirror between them is a function of the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.settings import KafkaCluster
from monitor.adapters.canary_probe import CanaryEnd, CanaryProbe
from tests.fakes.broker.batches import Content
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code
from tests.patience import wait_until

PRODUCE = 0
TOPIC = "headrace-canary.orders"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with ExitStack() as stack:
        yield stack.enter_context(running(FakeCluster("a", 1)))


@contextmanager
def probe_of(cluster: FakeCluster, copy: str = TOPIC) -> Iterator[CanaryProbe]:
    settings = KafkaCluster(bootstrap_servers=cluster.address)
    probe = CanaryProbe(CanaryEnd(settings, TOPIC), CanaryEnd(settings, copy), LoopThread("canary"))
    probe.start()
    try:
        yield probe
    finally:
        probe.stop()


def test_it_makes_its_topic_and_finds_its_records(cluster: FakeCluster) -> None:
    with probe_of(cluster) as probe:
        wait_until(lambda: probe.figures().consumed >= 2)
        found = probe.figures()
        assert (found.lost, found.duplicated, found.failed, probe.problem) == (0, 0, 0, "")
        assert found.delay_ms_avg is not None
    with cluster.lock:
        records = committed(cluster.log(TOPIC))
    indices = [json.loads(one.value or b"")["index"] for one in records]
    assert indices == [*range(len(indices))]


def test_records_that_arrive_twice_or_belong_to_others_are_told_apart(cluster: FakeCluster) -> None:
    with cluster.lock:
        cluster.create_topic("copy", 1)
    with probe_of(cluster, "copy") as probe:
        wait_until(lambda: probe.figures().produced >= 1)
        with cluster.lock:
            first = committed(cluster.log(TOPIC))[0]
            again: Content = (first.timestamp, first.key, first.value, [])
            foreign: Content = (first.timestamp, b"another", first.value, [])
            damaged: Content = (first.timestamp, first.key, b'{"index": "x"}', [])
            cluster.write("copy", [again, foreign, damaged, again])
        wait_until(lambda: probe.figures().duplicated == 1)
        assert probe.figures().consumed == 1


def test_refused_writes_are_unavailability(cluster: FakeCluster) -> None:
    with probe_of(cluster) as probe:
        wait_until(lambda: probe.figures().consumed >= 1)
        with cluster.lock:
            cluster.faults.plant(PRODUCE, Code(29), times=None)
        wait_until(lambda: probe.figures().failed >= 1 and "source" in probe._problems)
        assert probe.figures().lost == 0


def test_a_destination_without_the_topic_has_a_problem_and_recovers(cluster: FakeCluster) -> None:
    with probe_of(cluster, "copy") as probe:
        wait_until(lambda: probe.problem)
        with cluster.lock:
            cluster.create_topic("copy", 1)
        wait_until(lambda: not probe.problem)
