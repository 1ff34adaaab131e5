"""Incidents in a real topic."""

from __future__ import annotations

from uuid import uuid4

import pytest

from headrace.oncall.incidents import incident_topic, kept_incidents
from headrace.settings import HeadraceSettings
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import Fenced, HeadraceError, TopicMissing, Unreachable
from mirror.settings import KafkaCluster
from monitor.adapters.incident_topic import IncidentTopic
from monitor.records.record import IncidentRecord, Phase, record_to_json
from stack.kafka import KafkaCluster as Servers
from tests.kafka_data import Record, admin_client, produce
from tests.patience import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.long]


def test_the_newest_state_of_each_incident_comes_back(destination_kafka: Servers) -> None:
    cluster, name = KafkaCluster(bootstrap_servers=destination_kafka.address), f"incidents-{uuid4().hex}"
    topic = IncidentTopic(cluster, name, 90)
    assert topic.load() == ([], {})
    one = IncidentRecord("orders-1", "orders", "east", 1).noted(1, Phase.DETECTED, "late")
    two = IncidentRecord("clicks-2", "clicks", "west", 2)
    topic.write([one, two], {"alerts/orders": b"[1]", "alerts/clicks": b"[2]"})
    newer = one.noted(5, Phase.RECOVERED, "well")
    topic.write([newer], {"alerts/orders": b"[3]", "alerts/clicks": None})
    damaged = {
        "x": b"no incident",
        "elsewhere": record_to_json(two),
        "half": record_to_json(_of_half_a_name()),
    }
    records = [Record(0, key.encode(), value, (), 0) for key, value in damaged.items()]
    produce(destination_kafka.address, name, records)
    found = IncidentTopic(cluster, name, 90).load()
    assert sorted(found.records, key=lambda each: each.id) == [two, newer]
    assert found.notes == {"alerts/orders": b"[3]"}
    admin = KafkaAdmin(cluster)
    settings = admin.describe([name])[name].settings
    admin.close()
    assert settings["cleanup.policy"] == "compact,delete"
    assert settings["retention.ms"] == str(90 * 24 * 3_600_000)


def _of_half_a_name() -> IncidentRecord:
    return IncidentRecord("half", "\ud800", "east", 3)


def test_a_monitor_that_was_frozen_is_refused_by_the_broker(destination_kafka: Servers) -> None:
    cluster, name = KafkaCluster(bootstrap_servers=destination_kafka.address), f"incidents-{uuid4().hex}"
    frozen, following = IncidentTopic(cluster, name, 90), IncidentTopic(cluster, name, 90)
    frozen.load()
    opened = IncidentRecord("orders-1", "orders", "east", 1).noted(1, Phase.DETECTED, "late")
    frozen.write([opened], {"alerts/orders": b"[1]"})
    assert list(following.load().records) == [opened]
    with pytest.raises(Fenced):
        frozen.write([opened.noted(2, Phase.RELAPSED, "late")], {})
    closed = opened.noted(3, Phase.CLOSED, "well")
    following.write([closed], {"alerts/orders": None})
    with pytest.raises(Fenced):
        frozen.write([opened.noted(4, Phase.RELAPSED, "late")], {})
    assert following.read() == ([closed], {})


def test_a_topic_that_was_deleted_is_made_again(destination_kafka: Servers) -> None:
    cluster, name = KafkaCluster(bootstrap_servers=destination_kafka.address), f"incidents-{uuid4().hex}"
    topic, admin = (
        IncidentTopic(cluster, name, 90),
        admin_client(destination_kafka.address),
    )
    one = IncidentRecord("orders-1", "orders", "east", 1)
    topic.load()
    topic.write([one], {})
    admin.delete_topics([name])[name].result()

    def is_written() -> bool:
        try:
            topic.write([one], {})
            return list(topic.read().records) == [one]
        except Fenced:
            raise
        except HeadraceError:
            return False

    wait_until(is_written)


def test_rows_for_pinot_that_cannot_be_written_keep_no_incident_from_being_stored(
    destination_kafka: Servers,
) -> None:
    cluster, name = KafkaCluster(bootstrap_servers=destination_kafka.address), f"incidents-{uuid4().hex}"
    one = IncidentRecord("orders-1", "orders", "east", 1).noted(1, Phase.DETECTED, "late")
    IncidentTopic(cluster, name, 90, "this is no name of a topic!").write([one], {})
    assert list(IncidentTopic(cluster, name, 90).load().records) == [one]


def test_a_cluster_that_is_away_may_come_back() -> None:
    with pytest.raises(HeadraceError) as raised:
        IncidentTopic(KafkaCluster(bootstrap_servers="127.0.0.1:1"), "incidents", 90).load()
    assert isinstance(raised.value, Unreachable)


def test_a_topic_that_no_monitor_has_made_has_no_incidents(destination_kafka: Servers) -> None:
    chosen = {"bootstrap_servers": destination_kafka.address}
    settings = HeadraceSettings.model_validate(
        {"clusters": {"destination": chosen}, "monitor": {"incidents_topic": f"never-{uuid4().hex}"}}
    )
    with pytest.raises(TopicMissing):
        incident_topic(settings).read()
    assert kept_incidents(settings)() == []
