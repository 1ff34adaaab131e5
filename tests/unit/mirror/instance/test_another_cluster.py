"""Test that the leader creates nothing if another cluster responds at a destination's address."""

from __future__ import annotations

import pytest

from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.errors import UnexpectedCluster
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.model.topics import TopicDescription
from tests.builders import a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import topic_discovery_of
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

DATASTREAM = a_datastream("orders", "t")


class Clusters:
    """A source with one topic, and a destination."""

    def __init__(self) -> None:
        self.session = FakeZooKeeper().session()
        self.source, self.destination = FakeTopicAdmin(t=2), FakeTopicAdmin()

    def accept(self, identity: str) -> None:
        """Accept a cluster id at the address of the destination."""
        changes = BoundClusters(self.session).acceptance({DATASTREAM.destination: identity})
        self.session.change_together(changes)

    def discovery(self) -> TopicDiscovery:
        """Return the discovery of a new leader that has judged the topics of the source."""
        clusters = {DATASTREAM.source: self.source, DATASTREAM.destination: self.destination}
        found = topic_discovery_of(self.session, clusters, ManualClock())
        found.leave_out({}, found.topics([DATASTREAM.source]))
        return found


def test_no_destination_topic_is_created_at_another_cluster() -> None:
    clusters = Clusters()
    clusters.discovery().prepare_destination(DATASTREAM, tuple)
    expected = clusters.destination.identity
    clusters.destination = FakeTopicAdmin()
    with pytest.raises(UnexpectedCluster) as refused:
        clusters.discovery().prepare_destination(DATASTREAM, tuple)
    assert expected in str(refused.value)
    assert clusters.destination.identity in str(refused.value)
    assert clusters.destination.topics == {}
    clusters.accept(clusters.destination.identity)
    clusters.discovery().prepare_destination(DATASTREAM, tuple)
    assert list(clusters.destination.topics) == ["t"]


def test_no_own_topic_is_created_at_another_cluster() -> None:
    clusters = Clusters()
    clusters.accept("former")
    discovery = clusters.discovery()
    discovery.own_topics.need(DATASTREAM.destination, TopicDescription("events", 1))
    discovery.own_topics.ensure()
    assert clusters.destination.topics == {}
    clusters.destination.identity = "former"
    discovery.own_topics.ensure()
    assert list(clusters.destination.topics) == ["events"]
