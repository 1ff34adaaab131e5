"""Two instances without ZooKeeper that coordinate through Kafka: one is killed, the other takes over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.conftest import service_environment
from tests.kafka_data import make_topic, produce
from tests.mirrored import by_partition, copied_records, create_datastream, some_records, wait_for_copy
from tests.patience import eventually
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]
PARTITIONS = 4


@pytest.fixture
def instances(tmp_path: Path, kafka_pair: KafkaPair) -> Iterator[dict[str, RunningInstance]]:
    """Two instances with the same topic for their state, not started."""
    unique = uuid4().hex[:12]
    environment = {
        "HEADRACE_COORDINATION__CLUSTER": "destination",
        "HEADRACE_COORDINATION__TOPIC": f"coordination-{unique}",
        **service_environment(kafka_pair, unique),
    }
    made = {name: RunningInstance(name, tmp_path, environment) for name in ("one", "two")}
    yield made
    for instance in made.values():
        instance.stop()


def test_the_other_instance_takes_over_and_every_record_is_copied_once(
    kafka_pair: KafkaPair, instances: dict[str, RunningInstance]
) -> None:
    topic = f"shared-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, PARTITIONS, retention_ms="-1")
    first, second, third = (some_records(PARTITIONS, 300, salt) for salt in "abc")
    one, two = (instance.start() for instance in instances.values())
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
