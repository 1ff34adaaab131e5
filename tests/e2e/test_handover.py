"""Tasks that move between instances under traffic: shutdowns, returns, moves, frozen owners, outages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka.admin import NewPartitions

from stack.zookeeper import ZooKeeperServer
from tests.e2e.conftest import NewInstance, instances_of, new_service_name, on_zookeeper
from tests.freezing import frozen
from tests.kafka_data import admin_client, make_topic, produce, read_all
from tests.mirrored import by_partition, create_datastream, some_records, wait_for_copy
from tests.patience import PATIENCE_SECONDS, eventually, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]
PARTITIONS = 6


class Pair:
    """Two instances that share the tasks of one topic, and records that both have copied."""

    def __init__(self, kafka_pair: KafkaPair, new_instance: NewInstance, **settings: str) -> None:
        self.kafka = kafka_pair
        self.topic = f"handover-{uuid4().hex[:8]}"
        make_topic(kafka_pair.source.address, self.topic, PARTITIONS, retention_ms="-1")
        self.instances = {name: new_instance(name, **settings) for name in ("one", "two")}
        self.one, self.two = self.instances.values()
        eventually(lambda: len(self.one.rest.get("/v1/instances")) == 2, "both instances have joined")
        create_datastream(self.one, "handover", self.topic, limits={"min_tasks": 4})
        self.sent = some_records(PARTITIONS, 300, "a")
        produce(kafka_pair.source.address, self.topic, self.sent)
        wait_for_copy(kafka_pair, self.topic, len(self.sent))

    def homes(self, instance: RunningInstance) -> dict[str, str]:
        """Return the instance of each task."""
        return {one["task"]: one["instance"] for one in instance.rest.get("/v1/plan")["tasks"]}

    def send(self, salt: str) -> None:
        """Write more records, and wait until all are copied."""
        more = some_records(PARTITIONS, 300, salt)
        produce(self.kafka.source.address, self.topic, more)
        self.sent += more
        wait_for_copy(self.kafka, self.topic, len(self.sent))

    def assert_copied_once(self) -> None:
        """Check that every record was copied once, in order."""
        copied = read_all(self.kafka.destination.address, f"copy.{self.topic}")
        assert by_partition(copied) == by_partition(self.sent)


@pytest.fixture
def own_pair(kafka_pair: KafkaPair, new_instance: NewInstance) -> Pair:
    """Return a pair for a test that stops an instance."""
    return Pair(kafka_pair, new_instance)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, kafka_pair: KafkaPair) -> Iterator[Pair]:
    """Return the shared pair: both instances have tasks again after each of its tests."""
    folder = tmp_path_factory.mktemp("handover")
    with instances_of(new_service_name(), folder, kafka_pair) as make:
        yield Pair(kafka_pair, make)


def test_an_instance_hands_over_before_it_goes_and_gets_its_tasks_back(
    own_pair: Pair, new_instance: NewInstance
) -> None:
    before = own_pair.homes(own_pair.one)
    assert set(before.values()) == {"one", "two"}
    assert own_pair.two.terminate() == 0
    assert set(own_pair.homes(own_pair.one).values()) == {"one"}
    events = own_pair.one.rest.get("/v1/events")
    assert any("two leaving" in event["sentence"] for event in events)
    own_pair.send("b")
    new_instance("two")
    eventually(lambda: own_pair.homes(own_pair.one) == before, "the instance has its tasks again")
    own_pair.send("c")
    own_pair.assert_copied_once()


@pytest.mark.deep
def test_the_leader_hands_over_too(own_pair: Pair) -> None:
    leader = own_pair.instances[own_pair.one.rest.get("/v1/instances")[0]["name"]]
    (other,) = set(own_pair.instances.values()) - {leader}
    assert leader.terminate() == 0
    eventually(lambda: other.rest.get("/v1/instances")[0]["name"] == other.name, "the other instance leads")
    assert set(own_pair.homes(other).values()) == {other.name}
    own_pair.send("b")
    own_pair.assert_copied_once()


@pytest.mark.deep
def test_partitions_move_to_the_instance_that_was_named(pair: Pair) -> None:
    plan = pair.one.rest.get("/v1/plan")["tasks"]
    (moved, *_) = next(one["partitions"] for one in plan if one["instance"] == "one")
    body = {"partitions": [moved], "instance": "two"}
    pair.one.rest.post("/v1/datastreams/handover/move", body)

    def is_there() -> bool:
        tasks = pair.one.rest.get("/v1/plan")["tasks"]
        return any(moved in one["partitions"] and one["instance"] == "two" for one in tasks)

    eventually(is_there, "the move is planned")
    pair.send("b")
    pair.assert_copied_once()


@pytest.mark.deep
def test_paused_partitions_stand_still_and_the_others_go_on(pair: Pair) -> None:
    pair.one.rest.post(
        "/v1/datastreams/handover/pause-partitions",
        {"partitions": {pair.topic: "2"}, "reason": "a test"},
    )
    lanes = f"{pair.topic}-2"

    def is_released() -> bool:
        return all(
            lane["partition"] != lanes or lane["worker"] is None
            for one in pair.instances.values()
            for lane in one.lanes()
        )

    eventually(is_released, "the partition is released")
    more = some_records(PARTITIONS, 300, "b")
    produce(pair.kafka.source.address, pair.topic, more)
    waiting = [record for record in more if record.partition == 2]
    wait_for_copy(pair.kafka, pair.topic, len(pair.sent) + len(more) - len(waiting))
    copied = by_partition(read_all(pair.kafka.destination.address, f"copy.{pair.topic}"))
    assert len(copied[2]) == len(by_partition(pair.sent)[2])
    pair.one.rest.post("/v1/datastreams/handover/resume-partitions", {"partitions": {pair.topic: "*"}})
    pair.sent += more
    wait_for_copy(pair.kafka, pair.topic, len(pair.sent))
    pair.assert_copied_once()


@pytest.mark.deep
def test_new_partitions_and_topics_are_found(pair: Pair) -> None:
    admin = admin_client(pair.kafka.source.address)
    admin.create_partitions([NewPartitions(pair.topic, PARTITIONS + 2)])[pair.topic].result(PATIENCE_SECONDS)
    eventually(
        lambda: (
            sum(len(one["partitions"]) for one in pair.one.rest.get("/v1/plan")["tasks"]) == PARTITIONS + 2
        ),
        "the new partitions are planned",
    )
    more = some_records(PARTITIONS + 2, 400, "b")
    produce(pair.kafka.source.address, pair.topic, more)
    pair.sent += more
    wait_for_copy(pair.kafka, pair.topic, len(pair.sent))
    pair.assert_copied_once()


@pytest.mark.deep
def test_a_frozen_instance_is_overruled_and_changes_nothing_when_it_wakes(pair: Pair) -> None:
    with frozen(pair.two.pid):
        eventually(lambda: set(pair.homes(pair.one).values()) == {"one"}, "the other instance has all tasks")
        pair.send("b")
    eventually(lambda: set(pair.homes(pair.one).values()) == {"one", "two"}, "the instance has returned")
    pair.send("c")
    pair.assert_copied_once()


@pytest.mark.deep
def test_zookeeper_goes_and_comes_back(
    kafka_pair: KafkaPair,
    new_instance: NewInstance,
    new_zookeeper: Callable[..., ZooKeeperServer],
    service_name: str,
) -> None:
    server = new_zookeeper()
    pair = Pair(kafka_pair, new_instance, **on_zookeeper(server, service_name))
    server.kill()

    def has_given_up() -> bool:
        lanes = [lane for one in pair.instances.values() for lane in one.lanes()]
        return bool(lanes) and all("given up" in lane["reason"] for lane in lanes)

    eventually(has_given_up, "the leases have expired")
    server.start()
    pair.send("b")
    assert all(wait_until(one.is_alive) for one in pair.instances.values())
    eventually(
        lambda: set(pair.homes(pair.one).values()) == {"one", "two"}, "both instances have tasks again"
    )
    pair.send("c")
    pair.assert_copied_once()
