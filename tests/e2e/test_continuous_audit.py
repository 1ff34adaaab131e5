"""Continuous audits of a running service: an injected loss, and an instance that is killed."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from headrace.__main__ import app
from monitor.alerts.catalogue import AUDIT_DIFFERENCE
from tests.e2e.conftest import NewInstance
from tests.engines import write
from tests.kafka_data import Record, delete_records, make_topic
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream, wait_for_copy
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]

NOW_MS = round(time.time() * 1_000)


def audit_of(instance: RunningInstance, name: str) -> dict[str, Any]:
    """Return the audit of the only topic of a datastream; empty before the first run."""
    topics = instance.rest.get("/v1/audits", datastream=name)["topics"]
    return dict(topics[0]) if topics else {}


def test_a_loss_is_found_and_alarmed_and_a_killed_audit_continues(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    name, source = fresh_name("audited"), kafka_pair.source.address
    make_topic(source, name, 1)
    write(source, name, [Record(0, b"k", b"%d" % n, (), NOW_MS) for n in range(20)])
    options = {"monitor__measurements": "topic", "monitor__interval_seconds": "0.5"}
    options |= {"mirror__audit__interval_seconds": "0.5", "mirror__audit__topic": f"windows-{name}"}
    instance = new_instance("one", **options)
    create_datastream(instance, name, name, audit="off")  # the records are lost before they are audited
    wait_for_copy(kafka_pair, name, 20)
    delete_records(kafka_pair.destination.address, f"copy.{name}", 0, 5)
    instance.rest.patch(f"/v1/datastreams/{name}", {"audit": "full"}, "*")
    found = wait_until(
        lambda: (one := audit_of(instance, name)) and one["faults"] and one, "the loss is found"
    )
    (fault,) = found["faults"]
    assert (fault["verdict"], fault["records"], fault["source_offset"]) == ("missing", 5, 0)
    assert found["complete_through_ms"] is None
    metrics = f"http://{instance.address}/metrics"
    series = f'headrace_audit_fault_records{{datastream="{name}",topic="{name}",verdict="missing"}} 5.0'
    assert series in httpx.get(metrics).text
    firing = f'headrace_alerts_firing{{alertname="{AUDIT_DIFFERENCE.name}"}} 1.0'
    wait_until(lambda: firing in httpx.get(metrics).text, "the alert fires")
    instance.kill()
    write(source, name, [Record(0, b"k", b"more %d" % n, (), NOW_MS) for n in range(10)])
    instance.start()

    def windows() -> list[dict[str, Any]]:
        result = CliRunner().invoke(app, ["audit", "windows", "--json"], env=dict(instance.environment))
        assert result.exit_code == 1, "records are missing"
        return list(json.loads(result.stdout))

    def total(column: str) -> int:
        return sum(int(window[column]) for window in windows())

    # Deletions are seen by offsets and count in the present window, which may be a later one.
    wait_until(lambda: total("count") == 25, "it continues")
    assert (total("missing"), {window["datastream"] for window in windows()}) == (5, {name})
    assert total("payload_bytes") > 0
    assert audit_of(instance, name)["faults"] == [fault]
