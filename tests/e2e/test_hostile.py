"""Hostile values over REST and in the store: the datastream of another tenant is still copied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from headrace.console.client import tls_context
from mirror.adapters.kafka_store.session import KafkaSession
from mirror.coordination.stores import node_codec
from mirror.coordination.stores.definition_document import to_document
from mirror.model.datastreams.datastream import LatencyObjective, PartitionPause
from tests.builders import a_datastream
from tests.e2e.conftest import NewInstance
from tests.hostile import (
    BROOKLIN_FIELDS,
    NODES,
    REST_FIELDS,
    STORED_FIELDS,
    VALUES,
    every_key,
    with_value,
)
from tests.kafka_data import make_topic, produce, read_all
from tests.mirrored import by_partition, create_datastream, some_records, wait_for_copy
from tests.patience import PATIENCE_SECONDS, eventually
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

PLACES = (
    "/live/i-9999999999",
    "/live/x",
    "/holdings/i-9999999999",
    "/leaving/x",
    "/requests/r-9999999999",
    "/requests/x",
    "/events/e-9999999999",
    "/loads/x/0000",
    "/plan/x",
    "/plan/y/z",
    "/problems/x",
    "/unreported-of",
)
READ = ("/v1/datastreams", "/datastream", "/v1/plan", "/v1/events", "/v1/instances", "/v1/lanes", "/metrics")
A_FEW_VALUES = 1


class Tenants:
    """A good datastream, copied by two instances, and the datastreams of attackers."""

    def __init__(self, kafka_pair: KafkaPair, instances: list[RunningInstance]) -> None:
        self.kafka_pair = kafka_pair
        self.instances = instances
        self.topic = f"hostile-{uuid4().hex[:8]}"
        self.records = some_records(4, 40)
        make_topic(kafka_pair.source.address, self.topic, 4, retention_ms="-1")
        produce(kafka_pair.source.address, self.topic, self.records)
        create_datastream(instances[0], "good", self.topic, limits={"min_tasks": 2})

    def ask(self, number: int, method: str, path: str, body: bytes | None = None) -> httpx.Response:
        """Send a request to one of the instances; check that it responds without a server error."""
        address = self.instances[number % len(self.instances)].address
        answer = httpx.request(
            method,
            f"http://{address}{path}",
            content=body,
            headers={"content-type": "application/json"},
            timeout=PATIENCE_SECONDS,
            verify=tls_context(),
        )
        assert answer.status_code < 500, (path, (body or b"")[:200], answer.text[:500])
        if answer.content and path != "/metrics":
            json.loads(answer.content)
        return answer

    def names(self, number: int) -> set[str]:
        return {str(one["name"]) for one in self.ask(number, "GET", "/v1/datastreams").json()}

    def delete_all_but_good(self) -> None:
        """Delete the other datastreams over both interfaces of both instances."""
        for number, name in enumerate(sorted(self.names(0) - {"good"})):
            quoted = quote(name, safe="")
            door = ("/v1/datastreams", "/datastream")[number // 2 % 2]
            assert self.ask(number, "GET", f"/v1/datastreams/{quoted}").status_code in {200, 404}
            assert self.ask(number, "DELETE", f"{door}/{quoted}").status_code in {200, 202, 404, 405}, name
        for number in range(len(self.instances)):
            eventually(lambda number=number: self.names(number) == {"good"}, "only good is left")  # type: ignore[misc]

    def check_good(self) -> None:
        """Check that new records are copied, and that both instances respond."""
        more = some_records(4, 40, uuid4().hex[:4])
        produce(self.kafka_pair.source.address, self.topic, more)
        self.records += more
        wait_for_copy(self.kafka_pair, self.topic, len(self.records))
        for number in range(len(self.instances)):
            for path in READ:
                assert self.ask(number, "GET", path).status_code == 200, path


def rest_cases(kafka_pair: KafkaPair) -> Iterator[tuple[str, bytes]]:
    body: Mapping[str, Any] = {
        "name": "bad",
        "source": {"cluster": "source", "topics": "nothing"},
        "destination": {"cluster": "destination", "name": "bad.*"},
        "limits": {},
        "objective": {"milliseconds": 5},
        "metadata": {"owner": "tests"},
    }
    brooklin: Mapping[str, Any] = {
        "name": "bad",
        "connectorName": "kafkaMirroringConnector",
        "source": {"connectionString": f"kafka://{kafka_pair.source.address}/nothing"},
        "destination": {"connectionString": f"kafka://{kafka_pair.destination.address}/bad.*"},
        "metadata": {"owner": "tests"},
    }
    for field, value in some_values(REST_FIELDS):
        yield "/v1/datastreams", with_value(body, field, value)
    for _, data in every_key(body, "metadata"):
        yield "/v1/datastreams", data
    for field, value in some_values(BROOKLIN_FIELDS):
        yield "/datastream", with_value(brooklin, field, value)


def some_values(fields: Sequence[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every field with some value, and clusters with every value; tests/unit/api covers every pair."""
    values = list(VALUES.values())
    for place, field in enumerate(fields):
        is_cluster = field[-1] in {"source", "destination", "cluster", "connectionString"}
        for number in range(len(values) if is_cluster else A_FEW_VALUES):
            yield field, values[(place * 5 + number) % len(values)]


def stored_cases() -> Iterator[tuple[str, bytes]]:
    for number, (field, value) in enumerate(some_values(STORED_FIELDS)):
        document = to_document(
            a_datastream(
                f"bad-{number}",
                "nothing",
                objective=LatencyObjective(5),
                pauses={"t": PartitionPause(frozenset({0}), "why", 1)},
            )
        )
        data = with_value(document, field, value)
        if len(data) <= node_codec.CHUNK_BYTES:
            yield f"bad-{number}", data
    for role in ("source", "destination"):
        document = to_document(a_datastream(f"no-{role}", "nothing"))
        yield f"no-{role}", json.dumps({**document, role: "no-such-alias"}).encode()
    for name, data in NODES.items():
        yield name, data


def test_nothing_that_is_sent_or_stored_for_one_datastream_harms_another(
    kafka_pair: KafkaPair, session: KafkaSession, new_instance: NewInstance
) -> None:
    instances = [new_instance(name) for name in ("one", "two")]
    tenants = Tenants(kafka_pair, instances)
    tenants.check_good()

    for number, (path, body) in enumerate(rest_cases(kafka_pair)):
        tenants.ask(number, "POST", path, body.replace(b"bad", f"bad{number}".encode()))
    assert len(tenants.names(0)) > 5, "valid values are rejected"
    tenants.check_good()
    tenants.delete_all_but_good()

    stored = dict(stored_cases())
    for name, data in stored.items():
        session.create(f"/datastreams/{name}", data)
    for place in PLACES:
        for number, data in enumerate(NODES.values()):
            session.create(place if number == 0 else f"{place}-{number}", data)
    tenants.check_good()
    listed = tenants.ask(1, "GET", "/v1/datastreams").json()
    assert len(listed) == len(stored) + 1
    damaged = [one for one in listed if one["status"] == "DAMAGED"]
    assert len(damaged) > len(NODES)
    assert all(one["problem"]["reason"] for one in damaged)
    assert tenants.ask(0, "POST", f"/v1/datastreams/{damaged[0]['name']}/pause", b"{}").status_code == 409

    for instance in instances:
        assert instance.terminate() == 0
    for instance in instances:
        instance.start()
    tenants.check_good()
    tenants.delete_all_but_good()
    tenants.check_good()
    eventually(lambda: session.children("/requests") == (), "every request has an outcome")
    copied = read_all(kafka_pair.destination.address, f"copy.{tenants.topic}")
    assert by_partition(copied) == by_partition(tenants.records)
