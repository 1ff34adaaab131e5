"""CPU cost of idle fake brokers."""

from __future__ import annotations

from tests.fakes.broker.cluster import FakeCluster


def test_a_cluster_with_nothing_to_do_waits_also_after_a_change() -> None:
    cluster = FakeCluster()
    try:
        cluster.create_topic("orders")
        assert cluster.server.patience(5.0) == 5.0
        cluster.write("orders", [(1, None, b"x", [])])
        cluster.poll()
        assert cluster.server.patience(5.0) == 5.0
    finally:
        cluster.close()
