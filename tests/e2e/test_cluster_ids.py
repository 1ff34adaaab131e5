"""Cluster identity behind a proxy that falsifies the responses of a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from mirror.errors import InvalidRequest
from stack.ports import free_ports
from tests.delaying import SlowPort
from tests.e2e.conftest import NewInstance
from tests.kafka_data import admin_client, make_topic, produce, read_all
from tests.mirrored import create_datastream, some_records
from tests.patience import eventually, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

RESTRICTED = {"clusters__source__readers": '["nobody"]', "clusters__source__groups": '["*"]'}


class Proxy(SlowPort):
    """Proxy of frames. `lies`: replacements of bytes in responses."""

    def __init__(self, number: int, address: str) -> None:
        super().__init__(number, address)
        self.lies: dict[bytes, bytes] = {}

    def pose(self, cluster_id: str, address: str, *, is_broker: bool) -> None:
        """Report another cluster id and, with `is_broker`, the proxy in place of the broker."""
        self.lies = {cluster_id.encode(): cluster_id[::-1].encode()} if cluster_id else {}
        if is_broker:
            self.lies[_listener(address)] = _listener(self.here)

    async def _accept(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        there, forth = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(self._carry(here, forth), self._answer(there, back))
        finally:
            forth.close()
            back.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size))
                for truth, lie in self.lies.items():
                    frame = frame.replace(truth, lie)
                writer.write(size + frame)
                await writer.drain()


def _listener(address: str) -> bytes:
    """Return host and port as encoded in responses."""
    host, _, port = address.rpartition(":")
    return host.encode() + int(port).to_bytes(4)


@pytest.fixture
def proxy(kafka_pair: KafkaPair) -> Iterator[Proxy]:
    with Proxy(free_ports(1)[0], kafka_pair.source.address) as found:
        yield found


@pytest.fixture
def topic(kafka_pair: KafkaPair) -> str:
    """Return a topic with records that no principal may read."""
    name = f"secret-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, name, 1, retention_ms="-1")
    produce(kafka_pair.source.address, name, some_records(1, 10))
    return name


def problem(instance: RunningInstance, name: str) -> str:
    found = instance.rest.get(f"/v1/datastreams/{name}")["problem"]
    return str(found["reason"]) if found else ""


def source_id(kafka_pair: KafkaPair) -> str:
    found = admin_client(kafka_pair.source.address).list_topics(timeout=60).cluster_id
    assert found
    return str(found)


def create(instance: RunningInstance, proxy: Proxy, topic: str) -> None:
    create_datastream(instance, topic, topic, source={"cluster": proxy.here, "topics": topic})


def test_a_proxy_that_tells_the_truth_has_the_rights_of_the_alias(
    kafka_pair: KafkaPair, proxy: Proxy, new_instance: NewInstance, topic: str
) -> None:
    instance = new_instance("one", **RESTRICTED)
    with pytest.raises(InvalidRequest) as refused:
        create(instance, proxy, topic)
    assert proxy.here in str(refused.value)


def test_listeners_of_an_alias_are_not_reached_through_a_proxy(
    kafka_pair: KafkaPair, proxy: Proxy, new_instance: NewInstance, topic: str
) -> None:
    """The proxy reports another id, and the broker its listener, which belongs to the alias."""
    proxy.pose(source_id(kafka_pair), kafka_pair.source.address, is_broker=False)
    instance = new_instance("one", **RESTRICTED)
    create(instance, proxy, topic)
    port = kafka_pair.source.address.rpartition(":")[2]
    eventually(lambda: f":{port}, which is not allowed" in problem(instance, topic), "the listener is named")
    assert [one["phase"] for one in instance.lanes() if one["datastream"] == topic] == ["paused"]
    assert read_all(kafka_pair.destination.address, f"copy.{topic}") == []


def test_a_proxy_that_lied_at_the_creation_is_held_to_it(
    kafka_pair: KafkaPair, proxy: Proxy, new_instance: NewInstance, topic: str
) -> None:
    truth, address = source_id(kafka_pair), kafka_pair.source.address
    proxy.pose(truth, address, is_broker=True)
    instance = new_instance("one", **RESTRICTED)
    create(instance, proxy, topic)
    proxy.pose("", address, is_broker=True)
    eventually(lambda: truth in problem(instance, topic), "the other cluster is named")
    produce(address, topic, some_records(1, 5, "later"))
    before = len(read_all(kafka_pair.destination.address, f"copy.{topic}"))
    restart = {"start": "earliest", "allow_duplicates": True}
    with pytest.raises(InvalidRequest):
        instance.rest.post(f"/v1/datastreams/{topic}/restart-from", restart)
    wait_until(lambda: truth in problem(instance, topic))
    assert len(read_all(kafka_pair.destination.address, f"copy.{topic}")) == before <= 10


def test_what_was_stored_when_its_address_was_allowed_is_not_mirrored(
    kafka_pair: KafkaPair, proxy: Proxy, new_instance: NewInstance, topic: str
) -> None:
    proxy.pose(source_id(kafka_pair), kafka_pair.source.address, is_broker=True)
    instance = new_instance("one")
    create(instance, proxy, topic)
    wait_until(
        lambda: len(read_all(kafka_pair.destination.address, f"copy.{topic}")) == 10, "its records are copied"
    )
    instance.stop()
    later = new_instance("two", mirror__definitions__addresses='["elsewhere:9092"]')
    eventually(lambda: proxy.here in problem(later, topic), "the address is named")
    wait_until(lambda: {one["task"] for one in later.lanes() if one["datastream"] == topic} == {None})
