"""Audits of a datastream under traffic: records that arrive meanwhile are no difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner, Result

from headrace.__main__ import app
from headrace.clusters import audits
from headrace.clusters.audits import AuditResult, audit_datastream
from headrace.settings import HeadraceSettings
from mirror.errors import NotFound, TopicMissing
from mirror.settings import KafkaCluster, MirrorSettings
from tests.e2e.conftest import NewInstance
from tests.engines import write
from tests.kafka_data import Record, make_topic
from tests.mirrored import create_datastream, wait_for_copy
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers

NOW = int(time.time() * 1000)


def test_what_arrived_is_certified_and_a_foreign_record_is_found_at_its_offset(
    kafka_pair: KafkaPair, new_instance: NewInstance, tmp_path: Path
) -> None:
    topic = f"certified-{uuid4().hex[:8]}"
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    make_topic(source, topic, 1)
    write(source, topic, [Record(0, b"k", b"%d" % n, (), NOW + n) for n in range(20)])
    key, file = tmp_path / "audit.pem", tmp_path / "certificate.json"
    private = Ed25519PrivateKey.generate()
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    instance = new_instance("one", commands__audit_key_file=str(key))
    create_datastream(instance, "certified", topic)
    wait_for_copy(kafka_pair, topic, 20)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["audit", *words], env=dict(instance.environment))

    at = ("--at", instance.address)
    period = ("--from", str(NOW), "--to", str(NOW + 10))
    written = ("certify", "certified", *period, "-o", str(file), *at)
    wait_until(lambda: run(*written).exit_code == 0, "the records are checkpointed")
    (part,) = json.loads(file.read_text())["partitions"]
    assert part["source"]["records"] == part["destination"]["records"] == 10
    assert part["source"]["hash"] == part["destination"]["hash"]
    assert run("check", str(file), "--against-clusters").exit_code == 0
    signed = file.read_bytes()
    file.write_bytes(signed.replace(b'"missing": 0', b'"missing": 1'))
    assert run("check", str(file)).exit_code == 1
    file.write_bytes(signed)
    watching = subprocess.Popen(
        [sys.executable, "-m", "headrace", "audit", "certified", "--watch", "--json", *at],
        env={**os.environ, **instance.environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    with watching:
        assert watching.stdout is not None
        result = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
    assert (watching.returncode, result["problem"]) == (0, "")
    assert result["complete_through_ms"] > NOW - 10 * 60_000
    write(destination, f"copy.{topic}", [Record(0, b"stranger", b"", (), NOW)])

    def foreign() -> list[dict[str, Any]]:
        found = run("certified", "--json", *at)
        return [one for row in json.loads(found.stdout) for one in row["findings"]] if found.stdout else []

    (finding,) = wait_until(foreign, "the stranger is found")
    assert (finding["verdict"], finding["destination_offset"]) == ("foreign", 20)


def settings_of(pair: KafkaPair, progress_topic: str) -> HeadraceSettings:
    return HeadraceSettings(
        clusters={
            "source": KafkaCluster(bootstrap_servers=pair.source.address),
            "destination": KafkaCluster(bootstrap_servers=pair.destination.address),
        },
        mirror=MirrorSettings(progress_topic=progress_topic),
    )


@pytest.mark.deep
def test_an_audit_under_traffic_judges_what_is_copied(
    kafka_pair: KafkaPair, new_instance: NewInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"audited-{uuid4().hex[:8]}"
    progress = f"progress-{topic}"
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    settings = settings_of(kafka_pair, progress)
    make_topic(source, topic, 2)
    write(source, topic, [Record(n % 2, None, b"%d" % n, (), NOW) for n in range(500)])
    instance = new_instance("one", mirror__progress_topic=progress)
    create_datastream(instance, "audited", topic)
    definition = instance.rest.get("/v1/datastreams/audited")
    wait_for_copy(kafka_pair, topic, 500)
    stop = Event()

    def audited() -> AuditResult:
        (result,) = audit_datastream(settings, definition)
        return result

    with monkeypatch.context() as patience:
        patience.setattr(audits, "_FIRST_CHECKPOINT_SECONDS", PATIENCE_SECONDS)
        assert audited().counts.equal > 0  # it waits for the first checkpoint

    def traffic() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            write(source, topic, [Record(number % 2, b"k", b"more %d" % number, (), NOW)] * 20)

    with ThreadPoolExecutor() as pool:
        running = pool.submit(traffic)
        try:
            wait_until(lambda: audited().counts.equal > 500, "new checkpoints")
            for _ in range(4):
                result = audited()
                row = result.to_json()
                assert (row["missing"], row["duplicates"], row["foreign"], row["altered"]) == (0, 0, 0, 0)
                assert row["source_records"] == row["destination_records"] > 500
        finally:
            stop.set()
            running.result()
    write(destination, f"copy.{topic}", [Record(0, b"stranger", b"", (), NOW)])
    write(source, topic, [Record(0, b"after", b"", (), NOW)])
    wait_until(lambda: (found := audited()).counts.foreign and not found.unjudged, "all records are judged")
    last = audited()
    assert (last.counts.missing, last.counts.foreign, last.is_complete) == (0, 1, False)
    with pytest.raises(TopicMissing, match="matches never-made"):
        audit_datastream(settings, definition | {"source": definition["source"] | {"topics": "never-made"}})
    monkeypatch.setattr(audits, "_FIRST_CHECKPOINT_SECONDS", 1.0)
    with pytest.raises(NotFound, match=r"^nobody .*\b1 s\b"):
        audit_datastream(settings, definition | {"name": "nobody", "metadata": {}})


@pytest.mark.deep
def test_what_was_skipped_on_purpose_is_not_missing(kafka_pair: KafkaPair, new_instance: NewInstance) -> None:
    topic = f"skipped-{uuid4().hex[:8]}"
    progress = f"progress-{topic}"
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    settings = settings_of(kafka_pair, progress)
    make_topic(source, topic, 1)
    make_topic(destination, f"copy.{topic}", 1, max_message_bytes="2000")
    large = [Record(0, b"large %d" % n, b"%05000d" % n, (), NOW) for n in range(3)]
    small = [Record(0, b"small %d" % n, b"%d" % n, (), NOW) for n in range(20)]
    for record in (*small[:10], *large, *small[10:]):
        write(source, topic, [record])
    instance = new_instance("one", mirror__progress_topic=progress)
    metadata = {"owner": "tests", "headrace.on-rejection": "skip"}
    create_datastream(instance, "skipped", topic, metadata=metadata)
    wait_for_copy(kafka_pair, topic, 20)
    definition = instance.rest.get("/v1/datastreams/skipped")

    def audited() -> AuditResult | None:
        (result,) = audit_datastream(settings, definition)
        return None if result.unjudged else result

    result = wait_until(audited, "all records are checkpointed", interval_seconds=0.5)
    assert result is not None
    row = result.to_json()
    assert (row["source_records"], row["destination_records"]) == (23, 20)
    assert (row["missing"], row["left_out"], row["foreign"], row["complete"]) == (0, 3, 0, True)
