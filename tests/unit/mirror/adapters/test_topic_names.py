"""Names of topics that no broker of Kafka could have."""

from __future__ import annotations

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from tests.fakes.broker.cluster import FakeCluster, running


def test_a_topic_whose_name_kafka_does_not_allow_is_not_listed() -> None:
    cluster = FakeCluster()
    for name in ("t", "x" * 700_000, "a/b", "n" * 249):
        cluster.create_topic(name, 2, 1)
    admin = KafkaAdmin(KafkaCluster(bootstrap_servers=cluster.address))
    with running(cluster):
        assert admin.list_topics() == {"t": 2, "n" * 249: 2}
        admin.close()
