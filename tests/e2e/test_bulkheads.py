"""Isolation of two tenants on two instances: hostile data in ZooKeeper harms only their writer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mirror.adapters.kafka_store.session import KafkaSession
from mirror.coordination.stores.definition_document import to_document
from mirror.model.identifiers import ClusterRef
from tests.builders import a_datastream
from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, make_topic, produce, read_all
from tests.mirrored import by_partition, create_datastream, some_records, wait_for_copy
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

HOSTILE: Mapping[str, Mapping[str, Any]] = {
    "bad-destination": {"destination": "a:b"},
    "bad-list": {"destination": "host:9092,"},
    "bad-dead": {"source": "127.0.0.1:1", "destination": "127.0.0.1:1", "naming": "dead.*"},
    "bad-time": {"metadata": {"owner": "t", "system.creation.ms": "1", "system.ttl.ms": "9" * 5_000}},
    "bad-prefix": {"metadata": {"owner": "t", "system.taskPrefix": "x" * 140_000}},
    "bad-text": {"metadata": {"owner": "t", "system.taskPrefix": "\udfff"}},
    "bad-expression": {"topics": {"include": "(", "exclude": "", "internal": False}},
    "bad-limits": {"limits": {"min_tasks": 10**9, "max_tasks": None, "max_partitions_per_task": None}},
}
REQUESTS = (
    b"rubbish",
    b"[" * 100_000,
    b'{"group": "calm", "full": false, "requested_by": "\\udfff", "reason": "r", "requested_ms": 1, "x": 1}',
    b'{"group": "nobody", "full": true, "requested_by": "me", "reason": "to see", "requested_ms": 1}',
)

LETHAL = """
import os, signal

def make(_):
    def apply(record):
        if record.value == b"poison":
            os.kill(os.getpid(), signal.SIGKILL)
        return record
    return apply
"""
"""Plug-in that kills its process at a record, like a defect of a native library."""


@pytest.fixture
def lethal_transform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a transform in a package as installed by pip, for instances started from now on."""
    package = tmp_path / "packages"
    metadata = package / "lethal-1.0.dist-info"
    metadata.mkdir(parents=True)
    (package / "lethal.py").write_text(LETHAL)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lethal\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[headrace.transforms]\nlethal = lethal:make\n")
    path = [str(package), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    return "lethal"


def write_hostile(session: KafkaSession, topic: str) -> None:
    for name, changes in HOSTILE.items():
        one = a_datastream(name, topic, destination=ClusterRef("destination"))
        session.create(f"/datastreams/{name}", json.dumps(to_document(one) | dict(changes)).encode())
    session.create("/datastreams/bad-bytes", b"\xff" * 100)
    for data in REQUESTS:
        session.create("/requests/r-", data, sequential=True)


def problems(instance: RunningInstance) -> dict[str, str]:
    found = instance.rest.get("/v1/datastreams")
    return {one["name"]: one["problem"]["reason"] for one in found if one["problem"] is not None}


def shows(instance: RunningInstance, names: set[str]) -> bool:
    return set(problems(instance)) == names


def phases(instance: RunningInstance) -> set[tuple[str, str, bool]]:
    """Return for each lane its datastream, its phase, and whether its reason is a dead worker process."""
    return {(lane["datastream"], lane["phase"], "signal 9" in lane["reason"]) for lane in instance.lanes()}


def is_well(instance: RunningInstance) -> bool:
    return not ill(instance)


def harmed(instance: RunningInstance) -> dict[str, str]:
    """Return the unhealthy parts that errors of a tenant must not affect."""
    parts = instance.health()["parts"]
    kept = {"leader", "follower", "datastream calm"} & ill(instance)
    return {part: parts[part]["sentence"] for part in kept}


def ill(instance: RunningInstance) -> set[str]:
    return {part for part, one in instance.health()["parts"].items() if not one["is_well"]}


def test_what_one_tenant_writes_into_the_store_harms_it_alone(
    kafka_pair: KafkaPair, new_instance: NewInstance, session: KafkaSession
) -> None:
    calm, late = (f"{name}-{uuid4().hex[:8]}" for name in ("calm", "late"))
    for topic in (calm, late):
        make_topic(kafka_pair.source.address, topic, 3, retention_ms="-1")
    one, two = new_instance("one"), new_instance("two")
    create_datastream(one, "calm", calm)
    first, second = some_records(3, 300, "a"), some_records(3, 300, "b")
    produce(kafka_pair.source.address, calm, first)
    wait_for_copy(kafka_pair, calm, len(first))
    for instance in (one, two):
        wait_until(partial(is_well, instance), "both instances are healthy")
    write_hostile(session, calm)
    bad = {*HOSTILE, "bad-bytes"}
    for instance in (one, two):
        wait_until(partial(shows, instance, bad), "every problem is shown")
    leader = one if one.is_leading() else two
    wait_until(
        lambda: {f"datastream {name}" for name in bad} <= ill(leader), "health names the bad datastreams"
    )
    assert (harmed(one), harmed(two)) == ({}, {})
    wait_until(lambda: session.children("/requests") == (), "every request has an outcome")
    told = {(event["kind"], event["datastream"]) for event in two.rest.get("/v1/events", limit=1000)}
    assert {("problem", name) for name in bad} | {("request", "nobody")} <= told
    create_datastream(two, "late", late)
    for topic in (calm, late):
        produce(kafka_pair.source.address, topic, second)
    wait_for_copy(kafka_pair, calm, len(first) + len(second))
    wait_for_copy(kafka_pair, late, len(second))
    one.terminate()
    three = new_instance("three")
    wait_until(partial(shows, three, bad), "a restarted instance also shows them")
    for name in bad:
        three.rest.delete(f"/v1/datastreams/{name}")
    for instance in (two, three):
        wait_until(partial(shows, instance, set()), "no problem remains")
        wait_until(partial(is_well, instance), "the instance is healthy")
    assert {one["name"] for one in three.rest.get("/v1/datastreams")} == {"calm", "late"}
    assert by_partition(read_all(kafka_pair.destination.address, f"copy.{calm}")) == by_partition(
        first + second
    )
    assert by_partition(read_all(kafka_pair.destination.address, f"copy.{late}")) == by_partition(second)


def test_a_lane_that_kills_its_worker_process_is_found_and_paused_alone(
    kafka_pair: KafkaPair, new_instance: NewInstance, lethal_transform: str
) -> None:
    calm, poison = (f"{name}-{uuid4().hex[:8]}" for name in ("calm", "poison"))
    for topic in (calm, poison):
        make_topic(kafka_pair.source.address, topic, 2, retention_ms="-1")
    instance = new_instance("one")
    metadata = {"owner": "t", "headrace.transforms": lethal_transform}
    create_datastream(instance, "poison", poison, metadata=metadata)
    create_datastream(instance, "calm", calm)
    first, second = some_records(2, 100, "a"), some_records(2, 100, "b")
    for topic in (calm, poison):
        produce(kafka_pair.source.address, topic, first)
        wait_for_copy(kafka_pair, topic, len(first))
    produce(kafka_pair.source.address, poison, [Record(0, b"k", b"poison", (), first[0].timestamp_ms)])

    def reason() -> str:
        return problems(instance).get("poison", "")

    wait_until(lambda: "signal 9" in reason(), "the lane is identified", interval_seconds=0.3)
    for topic in (calm, poison):
        produce(kafka_pair.source.address, topic, second)
    wait_for_copy(kafka_pair, calm, len(first) + len(second))
    found = instance.health()["parts"]["lanes of poison"]
    assert (found["is_well"], "signal 9" in found["sentence"]) == (False, True)
    expected = {("calm", "copying", False), ("poison", "paused", True)}
    wait_until(lambda: phases(instance) == expected, "only the lanes of poison are paused")
    told = [one for one in instance.rest.get("/v1/events", limit=1000) if one["kind"] == "problem"]
    assert any(one["datastream"] == "poison" and "signal 9" in one["sentence"] for one in told)
    assert not any(one["datastream"] == "calm" and "signal 9" in one["sentence"] for one in told)
    there = kafka_pair.destination.address
    assert by_partition(read_all(there, f"copy.{calm}")) == by_partition(first + second)
    assert by_partition(read_all(there, f"copy.{poison}")) == by_partition(first), "a record was repeated"
    instance.rest.delete("/v1/datastreams/poison")
    wait_until(lambda: "lanes of poison" not in ill(instance), "the problem is resolved")
