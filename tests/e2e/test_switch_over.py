"""A switch and a return without `headrace dr`: each record exists once at both ends."""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from headrace.__main__ import app
from headrace.clusters import audits
from tests.e2e.conftest import NewInstance
from tests.kafka_data import commit_positions, group_positions, make_topic, produce, read_all
from tests.mirrored import some_records
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

PARTITIONS: Final = 2
PATIENTLY: Final = ("--timeout", f"{PATIENCE_SECONDS:.0f}s")
EACH: Final = 40
"""Number of records written on one side before the switch."""


def invoked(instance: RunningInstance, *words: str) -> Result:
    """Return the result of a command; `--at` is added if it queries the service."""
    at = [] if words[0] == "translate" else ["--at", instance.address]
    return CliRunner().invoke(app, [*words, *at], env=dict(instance.environment))


def run(instance: RunningInstance, *words: str) -> None:
    """Run a command that must succeed."""
    result = invoked(instance, *words)
    assert result.exit_code == 0, result.output


def test_each_record_is_at_both_ends_once_after_a_switch_and_a_return(
    kafka_pair: KafkaPair, new_instance: NewInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "_FIRST_CHECKPOINT_SECONDS", PATIENCE_SECONDS)
    instance = new_instance("one")
    addresses = {"source": kafka_pair.source.address, "destination": kafka_pair.destination.address}
    topic, group = f"orders-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"
    make_topic(addresses["source"], topic, PARTITIONS)

    def mirror(name: str, source: str, destination: str, start: str) -> None:
        ways = ("--source", source, "--destination", destination, "--topics", topic)
        run(instance, "datastream", "create", name, *ways, "--owner", "tests", "--start", start)
        run(instance, "datastream", "wait", name, "--for", "running", *PATIENTLY)

    def write(at: str, prefix: str) -> None:
        produce(addresses[at], topic, some_records(PARTITIONS, EACH, prefix))

    def leave(name: str) -> None:
        run(instance, "datastream", "wait", name, "--for", "caught-up", *PATIENTLY)
        run(instance, "audit", name)
        run(instance, "datastream", "delete", name, "--wait", *PATIENTLY)

    def values(at: str) -> list[bytes]:
        return sorted(one.value or b"" for one in read_all(addresses[at], topic))

    def have(expected: int) -> None:
        for cluster in addresses:
            wait_until(partial(holds, cluster, expected), f"{expected} records at the {cluster}")

    def holds(cluster: str, expected: int) -> bool:
        return len(values(cluster)) >= expected

    mirror("over", "source", "destination", "earliest")
    write("source", "first")
    have(EACH)
    run(instance, "datastream", "wait", "over", "--for", "caught-up", *PATIENTLY)
    read = {(topic, 0): 7, (topic, 1): 3}
    commit_positions(addresses["source"], group, read)
    sides = ("--source", "source", "--destination", "destination", "--state", "over", "--group", group)
    run(instance, "translate", *sides, *PATIENTLY)
    assert group_positions(addresses["destination"], group, topic, PARTITIONS) == list(read.values())
    leave("over")

    mirror("back", "destination", "source", "latest")
    write("destination", "second")
    have(2 * EACH)
    leave("back")

    mirror("over-2", "source", "destination", "latest")
    write("source", "third")
    have(3 * EACH)
    leave("over-2")

    assert values("source") == values("destination")
    assert len(values("source")) == 3 * EACH
