"""Loops, duplicates and self-copies: rejected at creation, and detected by the leader later."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import NewPartitions

from mirror.adapters.kafka_store.session import KafkaSession
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.errors import AlreadyExists, InvalidRequest, NotFound
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicNaming, TopicSelection
from tests.e2e.conftest import NewInstance
from tests.kafka_data import admin_client, make_topic, produce, read_all
from tests.mirrored import some_records
from tests.patience import PATIENCE_SECONDS, eventually, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair, NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.deep]


class OlderDefinitions:
    """A service, and definitions written directly to its ZooKeeper, as stored by an older version."""

    def __init__(self, instance: RunningInstance, session: KafkaSession) -> None:
        self.rest = instance.rest
        self.definitions = DefinitionStore(session)

    def refuses(self, words: str, **body: Any) -> None:
        """Check that a creation is rejected with these words and advice, and stores nothing."""
        with pytest.raises(InvalidRequest, match=words) as caught:
            self.rest.post("/v1/datastreams", body)
        assert caught.value.advice
        assert body["name"] not in [one["name"] for one in self.rest.get("/v1/datastreams")]

    def put(
        self, name: str, source: str, topics: str, destination: str, naming: str = "*", **more: str
    ) -> None:
        self.definitions.create(
            Datastream(
                DatastreamName(name),
                ClusterRef(source),
                TopicSelection(topics),
                ClusterRef(destination),
                TopicNaming(naming),
                metadata={"owner": "tests", "system.creation.ms": "9000000000000"},
            )
        )

    def says(self, name: str, words: str) -> None:
        """Wait until the datastream reports these words."""

        def said() -> bool:
            try:
                problem = self.rest.get(f"/v1/datastreams/{name}")["problem"]
            except NotFound:
                return False  # the service has not read the definition from the store yet
            return problem is not None and words in problem["reason"]

        eventually(said, f"{words!r} of {name}")

    def planned(self, name: str) -> list[str]:
        tasks = self.rest.get("/v1/plan")["tasks"]
        return sorted(one for task in tasks if task["datastream"] == name for one in task["partitions"])


def a_body(name: str, source: str, topics: str, destination: str, naming: str = "*", **more: Any) -> Any:
    return {
        "name": name,
        "source": {"cluster": source, "topics": topics, "match_all": topics == ".*"},
        "destination": {"cluster": destination, "name": naming},
        "metadata": {"owner": "tests", **more},
    }


def topics_of(address: str, prefix: str) -> dict[str, int]:
    found = admin_client(address).list_topics(timeout=60).topics
    return {name: len(one.partitions) for name, one in found.items() if name.startswith(prefix)}


@pytest.fixture
def town(new_instance: NewInstance, service_name: str, session: KafkaSession) -> OlderDefinitions:
    instance = new_instance("one", mirror__progress_topic=f"own-{service_name}")
    return OlderDefinitions(instance, session)


def wait_for(address: str, topic: str, count: int) -> None:
    def arrived() -> bool:
        return topic in topics_of(address, topic) and len(read_all(address, topic)) >= count

    wait_until(arrived, f"{count} records of {topic}", interval_seconds=0.5)


def test_what_would_go_round_or_be_doubled_cannot_be_created(
    kafka_pair: KafkaPair, town: OlderDefinitions
) -> None:
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    mark = f"rt{uuid4().hex[:6]}"
    for address, topic in ((source, "a"), (source, "b"), (destination, "a"), (destination, "c")):
        make_topic(address, f"{mark}-{topic}", 1, retention_ms="-1")
    town.rest.post("/v1/datastreams", a_body("there", "source", f"{mark}-(a|b)", "destination"))
    back = a_body("back", "destination", f"{mark}-.*", "source")
    town.refuses(f"{mark}-a: the topic may contain records of source, copied by datastream there", **back)
    town.refuses(
        f"{mark}-a: datastream there already writes",
        **a_body("twin", "source", f"{mark}-a", "destination"),
    )
    other_name = f"localhost:{source.rpartition(':')[2]}"
    town.refuses("same cluster", **a_body("self", other_name, f"{mark}-.*", "source"))
    for stranger in ("localhost.example.com:9092", f"{other_name},broker.example.com:9092"):
        town.refuses("address", **a_body("out", "source", f"{mark}-a", stranger))
    chain = a_body("chain", "source", f"{mark}-.*", "source", "*-x")
    town.refuses(f"{mark}-a-x: the topic may contain records of source", **chain)
    group = {"system.taskPrefix": "there"}
    with pytest.raises(AlreadyExists):
        town.rest.post("/v1/datastreams", a_body("there", "destination", "t", "source", **group))
    allowed = a_body("allowed", "destination", f"{mark}-c", "source")
    town.rest.post("/v1/datastreams", allowed)
    produce(source, f"{mark}-a", some_records(1, 20))
    produce(destination, f"{mark}-c", some_records(1, 20))
    wait_for(destination, f"{mark}-a", 20)
    wait_for(source, f"{mark}-c", 20)
    assert sorted(topics_of(source, mark)) == [f"{mark}-a", f"{mark}-b", f"{mark}-c"]


def test_what_is_found_later_is_left_out_and_the_rest_copied(
    kafka_pair: KafkaPair, town: OlderDefinitions, service_name: str
) -> None:
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    mark = f"rl{uuid4().hex[:6]}"
    for topic in ("a", "b", "grown"):
        make_topic(source, f"{mark}-{topic}", 2, retention_ms="-1")
    make_topic(destination, f"{mark}-grown", 2, retention_ms="-1")
    other_name = f"localhost:{source.rpartition(':')[2]}"
    town.rest.post("/v1/datastreams", a_body("there", "source", f"{mark}-(a|b|grown)", "destination"))
    town.put("back", "destination", f"{mark}-.*|own-{service_name}.*", "source")
    town.put("self", other_name, f"{mark}-.*", "source")
    town.put("twin", other_name, f"{mark}-a", "destination")
    town.put("chain", "source", f"{mark}-b.*", "source", "*-x")
    town.put("nothing", "source", f"{mark}-none", "destination")
    town.says("back", f"{mark}-a: the topic may contain records of source")
    town.says("self", "same cluster")
    town.says("twin", f"{mark}-a: datastream there already writes")
    town.says("nothing", "no topic of source matches")
    wait_until(lambda: f"{mark}-b-x" in topics_of(source, mark), "the copy within the cluster")
    town.says("chain", f"{mark}-b-x: the topic may contain records of source")
    admin = admin_client(source)
    grown = admin.create_partitions([NewPartitions(f"{mark}-grown", 7)])[f"{mark}-grown"]
    grown.result(timeout=PATIENCE_SECONDS)
    town.says("there", f"{mark}-grown: the source topic has 7 partitions")
    for topic in ("a", "b", "grown"):
        produce(source, f"{mark}-{topic}", some_records(2, 40))
    for topic in ("a", "b", "grown"):
        wait_for(destination, f"{mark}-{topic}", 40)
    wait_for(source, f"{mark}-b-x", 40)
    assert topics_of(destination, mark)[f"{mark}-grown"] == 2
    assert town.planned("back") == town.planned("self") == town.planned("twin") == []
    assert town.planned("chain") == [f"{mark}-b-0", f"{mark}-b-1"]
    assert f"{mark}-grown-2" not in town.planned("there")
    for address, topic in (
        (source, "a"),
        (source, "b"),
        (source, "b-x"),
        (destination, "a"),
        (destination, "b"),
    ):
        assert len(read_all(address, f"{mark}-{topic}")) == 40, (address, topic)
    admin = admin_client(destination)
    admin.delete_topics([f"{mark}-a"])[f"{mark}-a"].result(timeout=PATIENCE_SECONDS)
    wait_until(lambda: f"{mark}-a" not in topics_of(destination, mark), "the topic is deleted")
    wait_until(
        lambda: topics_of(destination, mark).get(f"{mark}-a") == 2, "the leader creates the topic again"
    )


def test_a_ring_of_three_is_cut_and_every_record_is_once_at_every_site(
    kafka_pair: KafkaPair, new_instance: NewInstance, new_kafka: NewKafka, session: KafkaSession
) -> None:
    third = new_kafka("third").address
    addresses = [kafka_pair.source.address, kafka_pair.destination.address, third]
    topic = f"ring-{uuid4().hex[:8]}"
    town = OlderDefinitions(new_instance("one", clusters__third__bootstrap_servers=third), session)
    make_topic(addresses[0], topic, 1, retention_ms="-1")
    town.rest.post("/v1/datastreams", a_body("one", "source", topic, "destination"))
    town.rest.post("/v1/datastreams", a_body("two", "destination", topic, "third"))
    town.refuses("would copy|would return", **a_body("three", "third", ".*", "source"))
    town.put("three", "third", ".*", "source")
    produce(addresses[0], topic, some_records(1, 100))
    for address in addresses:
        wait_for(address, topic, 100)
    town.says("three", topic)
    produce(addresses[0], topic, some_records(1, 50))
    for address in addresses:
        wait_for(address, topic, 150)
        assert len(read_all(address, topic)) == 150
    assert town.planned("three") == []
