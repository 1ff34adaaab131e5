"""Test the pool of Kafka admin clients: reuse, expiry when idle, and the limit on their number."""

from __future__ import annotations

from mirror.adapters.kafka_admin import AdminPool, KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.model.identifiers import ClusterRef
from tests.fakes.clock import ManualClock


def a_pool(clock: ManualClock) -> AdminPool:
    return AdminPool(lambda cluster: KafkaAdmin(KafkaCluster(bootstrap_servers=cluster)), clock)


def test_a_cluster_has_one_administrator_as_long_as_somebody_asks_about_it() -> None:
    clock = ManualClock()
    pool, here = a_pool(clock), ClusterRef("127.0.0.1:1")
    first = pool(here)
    for _ in range(5):
        clock.advance(50)
        assert pool(here) is first
    clock.advance(61)
    pool(ClusterRef("127.0.0.1:2"))
    assert pool(here) is not first


def test_clusters_that_nobody_asks_about_any_more_are_forgotten() -> None:
    clock = ManualClock()
    pool = a_pool(clock)
    for port in range(1, 31):
        pool(ClusterRef(f"127.0.0.1:{port}"))
    assert len(pool) == 30
    clock.advance(61)
    pool(ClusterRef("127.0.0.1:31"))
    assert len(pool) == 1


def test_addresses_that_callers_choose_leave_a_bounded_number() -> None:
    pool = a_pool(ManualClock())
    mine = pool(ClusterRef("mine:9092"))
    for number in range(2_000):
        pool(ClusterRef(f"h{number}:9092"))
        assert pool(ClusterRef("mine:9092")) is mine
    assert len(pool) == 500
