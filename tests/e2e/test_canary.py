"""The canary of a running service, and the gates that pass and fail on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import httpx
import pytest

from mirror.model.topics import canary_topic
from monitor.alerts.catalogue import CANARY_LOST
from tests.e2e.conftest import NewInstance
from tests.kafka_data import admin_client, delete_records, make_topic
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]


def gate(pair: KafkaPair, *options: str) -> tuple[int, dict[str, Any]]:
    """Run a gate of two seconds, and return its exit status and its document."""
    environment = {
        **os.environ,
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.destination.address,
    }
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "canary", *options, "--for", "2s", "--max-delay", "5s", "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=environment,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def shown(instance: RunningInstance, name: str, datastream: str) -> float:
    """Return a metric of the datastream's canary; -1 without it."""
    label = f'{{datastream="{datastream}"}}'
    for line in httpx.get(f"http://{instance.address}/metrics").text.splitlines():
        if line.startswith(f"headrace_canary_{name}{label}"):
            return float(line.rpartition(" ")[2])
    return -1.0


def test_a_canary_passes_its_gate_and_fails_it_on_a_broken_path(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    name = fresh_name("canary")
    make_topic(kafka_pair.source.address, name)
    instance = new_instance("one", monitor__measurements="topic", monitor__interval_seconds="0.5")
    create_datastream(instance, name, name, canary=True)
    wait_until(lambda: shown(instance, "records_consumed_total", name) >= 3, "canary records arrive")
    assert shown(instance, "records_lost_total", name) == 0
    code, document = gate(kafka_pair, name, "--at", instance.address)
    assert (code, document["passed"], document["lost"]) == (0, True, 0), document
    assert document["figures"]["consumed"] >= 2
    pause = {"partitions": {canary_topic(name): "*"}, "reason": "a broken path"}
    instance.rest.post(f"/v1/datastreams/{name}/pause-partitions", pause)
    wait_until(lambda: {one["phase"] for one in instance.lanes()} >= {"paused"}, "the lane is paused")
    code, document = gate(kafka_pair, name, "--at", instance.address)
    assert (code, document["passed"]) == (1, False), document
    assert {one["limit"] for one in document["failures"]} == {"max_delay_ms"}


@pytest.mark.deep
def test_records_that_the_source_deletes_are_lost_and_alarmed(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    name, source = fresh_name("canary"), kafka_pair.source.address
    topic = canary_topic(name)
    make_topic(source, name)
    instance = new_instance("one", monitor__measurements="topic", monitor__interval_seconds="0.5")
    create_datastream(instance, name, name, canary=True, policies={"on_loss": "continue"})
    wait_until(lambda: shown(instance, "records_consumed_total", name) >= 3, "canary records arrive")
    path = f"/v1/datastreams/{name}"
    instance.rest.post(f"{path}/pause-partitions", {"partitions": {topic: "*"}, "reason": "a loss"})
    wait_until(lambda: {one["phase"] for one in instance.lanes()} >= {"paused"}, "the lane is paused")
    before = shown(instance, "records_produced_total", name)
    wait_until(lambda: shown(instance, "records_produced_total", name) >= before + 3, "records wait")
    assert shown(instance, "records_lost_total", name) == 0
    delete_records(source, topic, 0, -1)
    instance.rest.post(f"{path}/resume-partitions", {"partitions": {topic: "*"}})
    wait_until(lambda: shown(instance, "records_lost_total", name) >= 3, "the loss is found")
    firing = f'headrace_alerts_firing{{alertname="{CANARY_LOST.name}"}} 1.0'
    wait_until(lambda: firing in httpx.get(f"http://{instance.address}/metrics").text, "the alert fires")
    assert shown(instance, "records_duplicated_total", name) == 0


def test_a_gate_without_a_service_copies_its_own_records(kafka_pair: KafkaPair) -> None:
    sides = "--source", kafka_pair.source.address, "--destination", kafka_pair.destination.address
    code, document = gate(kafka_pair, *sides)
    assert (code, document["passed"]) == (0, True), document
    admins = [admin_client(one.address) for one in (kafka_pair.source, kafka_pair.destination)]
    wait_until(lambda: not any(document["topic"] in str(one.list_topics().topics) for one in admins))
