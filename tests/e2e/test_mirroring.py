"""The service from the view of its users: two clusters, instances, REST."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from tests.e2e.conftest import NewInstance, instances_of, new_service_name
from tests.kafka_data import Record, counts, group_positions, make_topic, produce, read_all
from tests.mirrored import by_partition, copied_records, create_datastream, some_records, wait_for_copy
from tests.patience import eventually, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, kafka_pair: KafkaPair) -> Iterator[RunningInstance]:
    """Return the instance of all tests that stop none; each has a datastream of its own."""
    folder = tmp_path_factory.mktemp("mirroring")
    with instances_of(new_service_name(), folder, kafka_pair) as make:
        yield make("one")


def test_records_arrive_as_they_were(kafka_pair: KafkaPair, instance: RunningInstance) -> None:
    topic = f"fidelity-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 3, retention_ms="-1", max_message_bytes="2000000")
    records = some_records(3, 600)
    produce(kafka_pair.source.address, topic, records)
    create_datastream(instance, "fidelity", topic)
    wait_for_copy(kafka_pair, topic, len(records))
    copied = read_all(kafka_pair.destination.address, f"copy.{topic}")
    assert by_partition(copied) == by_partition(records)


@pytest.mark.deep
def test_a_restart_goes_on_where_it_stopped(kafka_pair: KafkaPair, new_instance: NewInstance) -> None:
    topic = f"restart-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 2, retention_ms="-1")
    first, second = some_records(2, 400, "a"), some_records(2, 400, "b")
    produce(kafka_pair.source.address, topic, first)
    instance = new_instance("one")
    create_datastream(instance, "restart", topic)
    wait_for_copy(kafka_pair, topic, len(first))
    assert instance.terminate() == 0
    produce(kafka_pair.source.address, topic, second)
    again = new_instance("two")
    wait_for_copy(kafka_pair, topic, len(first) + len(second))
    assert eventually(lambda: again.rest.get("/v1/health")["is_well"], "healthy")
    copied = read_all(kafka_pair.destination.address, f"copy.{topic}")
    assert by_partition(copied) == by_partition(first + second)


def test_killing_an_instance_moves_its_tasks(kafka_pair: KafkaPair, new_instance: NewInstance) -> None:
    topic = f"failover-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 6, retention_ms="-1")
    instances = {name: new_instance(name) for name in ("one", "two")}
    eventually(lambda: len(instances["one"].rest.get("/v1/instances")) == 2, "both instances have joined")
    create_datastream(instances["one"], "failover", topic, limits={"min_tasks": 4})
    first, second = some_records(6, 600, "a"), some_records(6, 600, "b")
    produce(kafka_pair.source.address, topic, first)
    wait_for_copy(kafka_pair, topic, len(first))
    homes = {task["instance"] for task in instances["one"].rest.get("/v1/plan")["tasks"]}
    assert homes == {"one", "two"}
    instances["two"].kill()
    produce(kafka_pair.source.address, topic, second)
    wait_for_copy(kafka_pair, topic, len(first) + len(second))
    homes = {task["instance"] for task in instances["one"].rest.get("/v1/plan")["tasks"]}
    assert homes == {"one"}
    events = instances["one"].rest.get("/v1/events")
    assert any("two left" in event["sentence"] for event in events)
    wanted = first + second
    copied = copied_records(kafka_pair, topic, len(wanted))
    assert by_partition(copied) == by_partition(wanted), "a record was repeated despite effectively-once"


@pytest.mark.deep
def test_a_quota_holds_over_all_instances_together(kafka_pair: KafkaPair, new_instance: NewInstance) -> None:
    topic, value = f"quota-{uuid4().hex[:8]}", random.randbytes(10_000)
    make_topic(kafka_pair.source.address, topic, 4, retention_ms="-1")
    records = [Record(number % 4, None, value, (), 1_700_000_000_000) for number in range(400)]
    produce(kafka_pair.source.address, topic, records, **{"batch.size": 20_000})
    instances = [new_instance("one"), new_instance("two")]
    eventually(lambda: len(instances[0].rest.get("/v1/instances")) == 2, "both instances have joined")
    began = time.monotonic()
    metadata = {"owner": "tests", "headrace.bytes-per-second": "500000"}
    create_datastream(instances[0], "quota", topic, limits={"min_tasks": 4}, metadata=metadata)
    wait_for_copy(kafka_pair, topic, len(records))
    # 4 MB, with a burst of one second: 7 s; less than 4 s if each instance had the whole quota.
    assert time.monotonic() - began > 5.5
    homes = {task["instance"] for task in instances[0].rest.get("/v1/plan")["tasks"]}
    assert homes == {"one", "two"}


@pytest.mark.deep
def test_a_deleted_datastream_disappears_and_its_topics_stay(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic = f"deleted-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 1, retention_ms="-1")
    produce(kafka_pair.source.address, topic, some_records(1, 10))
    instance = new_instance("one")
    create_datastream(instance, "deleted", topic)
    wait_for_copy(kafka_pair, topic, 10)
    instance.rest.delete("/v1/datastreams/deleted")
    eventually(lambda: instance.rest.get("/v1/datastreams") == [], "gone")
    eventually(lambda: instance.lanes() == [], "released")
    assert counts(kafka_pair.destination.address, [f"copy.{topic}"]) == {f"copy.{topic}": 10}


def test_a_datastream_is_copied_as_its_definition_asks_and_shows_its_positions(
    kafka_pair: KafkaPair, instance: RunningInstance
) -> None:
    topic = f"asked-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 2, retention_ms="-1")
    records = some_records(2, 200)
    old = [Record(number % 2, None, b"old", (), 1_600_000_000_000) for number in range(10)]
    produce(kafka_pair.source.address, topic, old)
    produce(kafka_pair.source.address, topic, records)
    wish = {
        "owner": "tests",
        "start": "2020-09-13T12:26:40.001Z",
        "guarantee": "exactly-once",
        "policies": {"transforms": ["drop-header:number", "rename-header:one=two"]},
        "metadata": {"group.id": f"group-{topic}"},
    }
    create_datastream(instance, "asked", topic, **wish)
    wait_for_copy(kafka_pair, topic, len(records))
    wait_until(
        lambda: group_positions(kafka_pair.source.address, f"group-{topic}", topic, 2) == [105, 105],
        "the positions are committed at the source",
        interval_seconds=0.3,
    )
    names = {"one": "two"}
    expected = [
        replace(
            record,
            headers=tuple(
                (names.get(name, name), value) for name, value in record.headers if name != "number"
            ),
        )
        for record in records
    ]
    assert by_partition(read_all(kafka_pair.destination.address, f"copy.{topic}")) == by_partition(expected)
