"""Switch-overs of real clusters whose authorizer denies Write: a writer that no denial affects, and a
transaction that is open at the fence."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from bench.dr.rig.secured import APPLICATION, ROGUE, client_settings, secured_pair
from headrace.__main__ import app
from mirror.jobs.dr.operation import STEPS, Kind
from stack.kafka import KafkaCluster
from tests.e2e.conftest import instances_of, new_service_name
from tests.e2e.pair_site import kill_at
from tests.kafka_data import admin_client, make_topic, read_all
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

TOPIC: Final = "orders"
PARTITIONS: Final = 2


@dataclass
class GuardedSite:
    """Clusters with an authorizer, and a service that copies the topic."""

    clusters: dict[str, KafkaCluster]
    instance: RunningInstance

    def run(self, *words: str, code: int = 0) -> Any:
        """Run a command; return its document."""
        arguments = [*words, "--at", self.instance.address, "--json"]
        result = CliRunner().invoke(app, arguments, env=dict(self.instance.environment))
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def switch(self, *, code: int = 0, deadline: str = f"{PATIENCE_SECONDS:.0f}s") -> Any:
        """Run a switch-over to the other cluster."""
        words = ("dr", "switchover", "pair", "--to", "destination", "--deadline", deadline)
        return self.run(*words, code=code)

    def values(self, name: str) -> Counter[bytes | None]:
        """Return the committed values at a cluster."""
        return Counter(record.value for record in read_all(self.clusters[name].address, TOPIC))

    def are_equal(self, values: Counter[bytes | None]) -> bool:
        """Return whether both clusters have exactly these values."""
        return self.values("source") == self.values("destination") == values

    @property
    def is_fenced(self) -> bool:
        """Return whether Write is denied to anyone at the source."""
        denials = AclBindingFilter(
            ResourceType.TOPIC,
            TOPIC,
            ResourcePatternType.LITERAL,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.WRITE,
            AclPermissionType.DENY,
        )
        admin = admin_client(self.clusters["source"].address)
        return bool(admin.describe_acls(denials).result(PATIENCE_SECONDS))

    def require_untouched(self) -> None:
        """Assert that an undone switch-over has left nothing."""
        assert not self.is_fenced
        (found,) = self.instance.rest.get("/v1/datastreams")
        assert (found["name"], found["status"]) == ("over", "READY")
        status = self.run("dr", "status", "pair")
        assert (status["active"], status["operation"]) == ("source", None)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[GuardedSite]:
    with (
        secured_pair(tmp_path, ("source", "destination")) as clusters,
        instances_of(
            new_service_name(), tmp_path, KafkaPair(clusters["source"], clusters["destination"])
        ) as make,
    ):
        make_topic(clusters["source"].address, TOPIC, PARTITIONS)
        instance = make(
            "one",
            dr__pair__primary="source",
            dr__pair__standby="destination",
            dr__pair__datastreams='["over"]',
            dr__pair__principals=f'["User:{APPLICATION}"]',
            dr__pair__still_seconds="2",
        )
        found = GuardedSite(clusters, instance)
        ways = ("--source", "source", "--destination", "destination", "--topics", TOPIC, "--owner", "tests")
        found.run("datastream", "create", "over", *ways)
        yield found


@contextmanager
def writing(cluster: KafkaCluster, user: str) -> Iterator[tuple[set[int], list[bytes]]]:
    """Write to one partition until the end of the context; yield the ids of the producer, and the values that
    were acknowledged."""
    identities, acknowledged, begun_ns = set[int](), list[bytes](), time.monotonic_ns()
    stopping = threading.Event()

    def note_identity(text: str) -> None:
        identities.add(json.loads(text).get("eos", {}).get("producer_id", -1))

    producer = Producer(
        {
            **client_settings(cluster, user),
            "enable.idempotence": True,
            "linger.ms": 1,
            "log_level": 0,
            "statistics.interval.ms": 100,
            "stats_cb": note_identity,
        }
    )

    def note(error: object, message: Any) -> None:
        if error is None:
            acknowledged.append(message.value())

    def write() -> None:
        number = 0
        while not stopping.wait(0.02):
            value = b"%d %d of %s" % (begun_ns, number, user.encode())
            try:
                producer.produce(TOPIC, value, partition=0, on_delivery=note)
            except KafkaException as error:
                if error.args[0].fatal():
                    raise  # otherwise Write is denied
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=write, name=f"producer {user}")
    thread.start()
    try:
        yield identities, acknowledged
    finally:
        stopping.set()
        thread.join()
        producer.flush(PATIENCE_SECONDS)


def test_a_super_user_who_writes_is_named_and_everything_is_restored(site: GuardedSite) -> None:
    source = site.clusters["source"]
    with writing(source, APPLICATION) as (_, ours), writing(source, ROGUE) as (identities, theirs):
        wait_until(lambda: len(ours) > 20 and len(theirs) > 20, "records are acknowledged")
        failure = site.switch(code=1)["failure"]
    named = re.search(r"producer id (\d+)\b", failure)
    assert named is not None, failure
    assert int(named[1]) in identities
    site.require_untouched()
    wait_until(partial(site.are_equal, Counter([*ours, *theirs])), "every record is mirrored once")


def test_no_record_is_lost_although_the_command_is_killed_while_producers_write(site: GuardedSite) -> None:
    with writing(site.clusters["source"], APPLICATION) as (_, ours):
        wait_until(lambda: len(ours) > 20, "records are acknowledged")
        for step in STEPS[Kind.SWITCHOVER]:
            kill_at(site.instance, step, "dr", "switchover", "pair", "--to", "destination")
        there = site.switch()
    assert (there["active"], there["failure"]) == ("destination", "")
    assert there["continued_by"] == [], "the operator is the same"
    assert site.is_fenced
    with writing(site.clusters["destination"], APPLICATION) as (_, more):
        wait_until(lambda: len(more) > 20, "records are acknowledged")
    written = Counter[bytes | None]([*ours, *more])
    wait_until(partial(site.are_equal, written), "every record is mirrored once")


def test_a_transaction_that_is_open_at_the_fence_is_waited_for(site: GuardedSite) -> None:
    producer = Producer(
        {**client_settings(site.clusters["source"], APPLICATION), "transactional.id": f"t-{uuid4().hex}"}
    )
    producer.init_transactions(PATIENCE_SECONDS)
    written: Counter[bytes | None] = Counter()

    def write(name: str) -> None:
        """Write a record to each partition in a new transaction."""
        producer.begin_transaction()
        for number in range(PARTITIONS):
            value = b"%s %d" % (name.encode(), number)
            producer.produce(TOPIC, value, partition=number)
            written[value] += 1
        assert producer.flush(PATIENCE_SECONDS) == 0

    write("first")
    producer.commit_transaction(PATIENCE_SECONDS)
    wait_until(lambda: site.are_equal(written), "records are mirrored")

    write("second")
    assert "transaction" in site.switch(code=1, deadline="10s")["failure"]
    site.require_untouched()
    producer.commit_transaction(PATIENCE_SECONDS)
    wait_until(lambda: site.are_equal(written), "records are mirrored")

    write("third")
    results: list[Any] = []
    command = threading.Thread(target=lambda: results.append(site.switch()), name="switch-over")
    command.start()
    wait_until(lambda: site.is_fenced, "the source is fenced")
    producer.commit_transaction(PATIENCE_SECONDS)
    command.join()
    assert (results[0]["active"], results[0]["failure"]) == ("destination", "")
    assert site.are_equal(written)
