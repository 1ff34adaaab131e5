"""Admin clients that nobody uses any more are closed, with their threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mirror.adapters.admin_pool import AdminPool
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.errors import Unreachable
from mirror.model.identifiers import ClusterRef
from tests.fakes.clock import ManualClock
from tests.patience import wait_until


def threads() -> int:
    """Of this process, those of client libraries too."""
    return len(list(Path("/proc/self/task").iterdir()))


def a_pool(clock: ManualClock) -> AdminPool:
    return AdminPool(lambda cluster: KafkaAdmin(KafkaCluster(bootstrap_servers=cluster)), clock)


def test_a_cluster_has_one_client_as_long_as_somebody_asks_about_it() -> None:
    clock = ManualClock()
    pool, here = a_pool(clock), ClusterRef("127.0.0.1:1")
    first = pool(here)
    for _ in range(5):
        clock.advance(50)
        assert pool(here) is first
    clock.advance(61)
    pool(ClusterRef("127.0.0.1:2"))
    assert pool.close_idle()
    assert pool(here) is not first


def test_the_threads_of_dead_clusters_end_when_nobody_asks_about_them_any_more() -> None:
    clock, before = ManualClock(), threads()
    pool = a_pool(clock)
    for port in range(1, 31):
        pool(ClusterRef(f"127.0.0.1:{port}"))._connection.client()
    assert threads() >= before + 30
    clock.advance(61)
    assert not pool.close_idle()
    wait_until(lambda: threads() <= before + 5)


def test_an_error_that_somebody_keeps_keeps_no_client() -> None:
    admin, before = KafkaAdmin(KafkaCluster(bootstrap_servers="127.0.0.1:1")), threads()
    asked: list[int] = []

    def library(client: AdminClient) -> None:
        client.poll(0)
        asked.append(threads())
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def ask() -> None:
        with admin._asking("asking") as client:
            library(client())

    with pytest.raises(Unreachable) as kept:
        ask()
    assert asked[0] > before
    wait_until(lambda: threads() <= before)
    assert kept.value.__cause__ is not None
