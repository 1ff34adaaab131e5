"""Test topic names that are illegal in Kafka."""

from __future__ import annotations

from structlog.typing import EventDict

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


def test_such_names_are_counted_and_logged_once_without_their_escape_codes(
    logged: list[EventDict],
) -> None:
    cluster = FakeCluster()
    for name in ("t", "../x/", "\x1b[2J", "x" * 700_000):
        cluster.create_topic(name, 1, 1)
    admin = KafkaAdmin(KafkaCluster(bootstrap_servers=cluster.address))
    with running(cluster):
        for _ in range(3):
            assert (set(admin.list_topics()), admin.illegal_topics) == ({"t"}, 3)
        admin.close()
    (line,) = [one for one in logged if one["event"] == "illegal topic names ignored"]
    assert line["topics"] == 3
    assert not any("\x1b" in name for name in line["first"])
    assert len(str(line)) < 2_000
