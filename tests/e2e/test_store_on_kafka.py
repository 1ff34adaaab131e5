"""Two instances without ZooKeeper that coordinate through Kafka: one is killed, the other takes over."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic, produce
from tests.mirrored import by_partition, copied_records, create_datastream, some_records, wait_for_copy
from tests.patience import eventually
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]
PARTITIONS = 4


def test_the_other_instance_takes_over_and_every_record_is_copied_once(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic = f"shared-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, PARTITIONS, retention_ms="-1")
    first, second, third = (some_records(PARTITIONS, 300, salt) for salt in "abc")
    one, two = (new_instance(name) for name in ("one", "two"))
    eventually(lambda: len(two.rest.get("/v1/instances")) == 2, "both instances have joined")
    create_datastream(one, "shared", topic, limits={"min_tasks": 4})
    produce(kafka_pair.source.address, topic, first)
    wait_for_copy(kafka_pair, topic, len(first))
    eventually(lambda: one.lanes() and two.lanes(), "both copy")
    leader, other = (one, two) if one.is_leading() else (two, one)

    leader.kill()
    produce(kafka_pair.source.address, topic, second)
    wait_for_copy(kafka_pair, topic, len(first + second))
    eventually(other.is_leading, "another leader")
    assert [found["name"] for found in other.rest.get("/v1/instances")] == [other.name]
    assert eventually(lambda: other.health()["is_well"], "healthy")

    leader.start()
    eventually(leader.lanes, "it has lanes again")
    produce(kafka_pair.source.address, topic, third)
    wanted = first + second + third
    wait_for_copy(kafka_pair, topic, len(wanted))
    copied = copied_records(kafka_pair, topic, len(wanted))
    assert by_partition(copied) == by_partition(wanted), "nothing lost, nothing doubled"
    assert "cluster destination" in other.health()["parts"]["coordination store"]["sentence"]
    assert leader.terminate() == 0
    assert other.terminate() == 0
