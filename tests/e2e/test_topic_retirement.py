"""A topic in use is never proposed; an unused one is retired step by step, with a kill in between."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.settings import KafkaCluster
from monitor.alerts.catalogue import TOPIC_RETIREMENT
from tests.acls import PERMISSIVE, add_rules
from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, admin_client, make_topic, produce
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream, wait_until_caught_up
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair, NewKafka

pytestmark = pytest.mark.servers


def topics(instance: RunningInstance, *arguments: str) -> tuple[int, Any]:
    command = [sys.executable, "-m", "headrace", "topics", *arguments, "--json", "--at", instance.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.stdout or done.returncode, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_an_unused_topic_is_retired_and_one_in_use_is_not(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    address = kafka_pair.source.address
    idle, busy = fresh_name("idle"), fresh_name("busy")
    for name in (idle, busy):
        make_topic(address, name, 2)
        produce(address, name, [Record(n % 2, b"k", b"v", (), 1_700_000_000_000 + n) for n in range(20)])
    reader = Consumer(
        {"bootstrap.servers": address, "group.id": f"{busy}-reader", "enable.auto.commit": False}
    )
    monitored = {"monitor__measurements": "topic", "monitor__interval_seconds": "0.5"}
    instance = new_instance("one", **monitored)
    try:
        reader.subscribe([busy])  # a member that has committed nothing
        wait_until(
            lambda: reader.poll(0.1) is not None or bool(reader.assignment()), "the reader is a member"
        )
        create_datastream(instance, idle, idle)
        create_datastream(instance, busy, busy)
        for name in (idle, busy):
            wait_until_caught_up(instance, name)
        where = ("--cluster", "source", "--days", "0")

        def shown() -> dict[str, Any]:
            code, found = topics(instance, "unused", *where, "--all")
            assert code == 0, found
            return {one["topic"]: one for one in found["topics"]}

        wait_until(lambda: shown()[busy]["readers"], "its reader is seen")
        evidence = shown()
        assert (evidence[busy]["is_unused"], "readers" in evidence[busy]["reasons"]) == (False, True)
        assert (evidence[idle]["readers"], evidence[idle]["records"]) == ([], 20)
        assert topics(instance, "retire", busy, *where, "--execute")[0] != 0

        def step(*more: str) -> Any:
            """Do a step, as soon as the topics of every group of other tests are known."""
            arguments = ("retire", idle, *where, "--wait", "1ms", *more)
            return wait_until(
                lambda: None if (done := topics(instance, *arguments))[0] else done[1], "a step"
            )

        planned = step()
        assert (planned["is_dry_run"], planned["retirement"]["paused"]) == (True, [idle])
        assert instance.rest.get("/v1/retirements") == []
        assert step("--execute")["retirement"]["phase"] == "sealed"
        assert instance.rest.get(f"/v1/datastreams/{idle}")["status"] == "PAUSED"
        metrics, firing = f"http://{instance.address}/metrics", f'alertname="{TOPIC_RETIREMENT.name}"}} 1.0'
        wait_until(lambda: firing in httpx.get(metrics).text, "the owner is told")
        instance.kill()
        instance = new_instance("one", **monitored)
        assert [one["topic"] for one in instance.rest.get("/v1/retirements")] == [idle]
        assert step("--execute")["is_over"]
        admin = KafkaAdmin(KafkaCluster(bootstrap_servers=address))
        wait_until(lambda: idle not in admin.list_topics(), "the topic is deleted")
        assert busy in admin.list_topics()
        assert reader.committed([TopicPartition(busy, 0)], PATIENCE_SECONDS)[0].offset < 0
        admin.close()
    finally:
        reader.close()


@pytest.mark.deep
def test_a_broker_with_an_authorizer_refuses_writes_to_a_sealed_topic(
    new_instance: NewInstance, new_kafka: NewKafka
) -> None:
    address, idle = new_kafka("secured", properties=PERMISSIVE).address, fresh_name("idle")
    make_topic(address, idle, 1)
    produce(address, idle, [Record(0, b"k", b"v", (), 1_700_000_000_000)])
    everyone = (ResourceType.TOPIC, idle, ResourcePatternType.LITERAL, "User:*", "*", AclOperation.ALL)
    admin = admin_client(address)
    add_rules(admin, [AclBinding(*everyone, AclPermissionType.ALLOW)])
    instance = new_instance("one", clusters__source__bootstrap_servers=address)
    where = ("--cluster", "source", "--days", "0", "--wait", "1ms", "--execute")

    def step(*words: str) -> Any:
        return wait_until(
            lambda: None if (done := topics(instance, words[0], idle, *words[1:]))[0] else done[1], words[0]
        )

    def written() -> list[int]:
        errors: list[int] = []
        writer = Producer({"bootstrap.servers": address})
        writer.produce(idle, b"v", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
        writer.flush(PATIENCE_SECONDS)
        return errors

    sealed = step("retire", *where)["retirement"]
    assert (sealed["phase"], sealed["denial"]) == ("sealed", "made")
    wait_until(lambda: written() == [KafkaError.TOPIC_AUTHORIZATION_FAILED], "writes are refused")
    step("restore", "--cluster", "source")
    wait_until(lambda: written() == [0], "the broker accepts writes again")
    assert step("retire", *where)["retirement"]["phase"] == "sealed"
    wait_until(lambda: step("retire", *where)["is_over"], "the topic is retired")
    wait_until(lambda: idle not in admin.list_topics(timeout=PATIENCE_SECONDS).topics, "it is deleted")
