"""Compacted topics of a cluster that shows the settings of some topics only."""

from __future__ import annotations

from mirror.model.identifiers import ClusterRef
from mirror.settings import KafkaCluster
from pmp.adapters.compacted_topics import CompactedTopics
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.faults import Code
from tests.fakes.clock import ManualClock

DESCRIBE_CONFIGS, NOT_AUTHORIZED = 32, 29
CLUSTER = ClusterRef("source")


def test_a_topic_whose_settings_are_unreadable_remains_what_it_was() -> None:
    cluster, clock = FakeCluster(), ManualClock()
    for name in ("a", "b", "c"):
        cluster.create_topic(name, 1, 1, cleanup_policy="delete" if name == "c" else "compact")
    with running(cluster):
        compacted = CompactedTopics(lambda _: KafkaCluster(bootstrap_servers=cluster.address), clock)
        cluster.faults.plant(DESCRIBE_CONFIGS, Code(NOT_AUTHORIZED, "a"), times=None)
        assert compacted(CLUSTER) == {"b"}
        cluster.faults.clear()
        clock.advance(60.0)
        assert compacted(CLUSTER) == {"a", "b"}, "a failure is followed by another request soon"
        cluster.faults.plant(DESCRIBE_CONFIGS, Code(NOT_AUTHORIZED, "a"), times=None)
        clock.advance(3600.0)
        assert compacted(CLUSTER) == {"a", "b"}
