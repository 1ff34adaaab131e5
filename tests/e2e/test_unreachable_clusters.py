"""Sixty clusters that refuse connections or never respond, beside a healthy datastream."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic, produce, read_all
from tests.mirrored import by_partition, create_datastream, some_records, wait_for_copy
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

DEAD = 60
AT_ONCE = 15
"""Number of concurrent creations: each waits a few seconds for a silent cluster."""
CLIENT_THREADS = 4
"""Threads of a Kafka client with its own threads, which no unresponsive cluster may occupy."""
OF_A_KIND = DEAD // 6
"""Smallest number of clusters of one kind, such as silent destinations.

It exceeds the remaining growth of an instance's thread pools under such requests; those threads stay.
"""


@pytest.fixture
def dead_addresses() -> Iterator[list[str]]:
    """Yield addresses: one half refuse connections, the other half accept them and never respond."""
    with ExitStack() as open_ones:
        addresses = []
        for number in range(DEAD):
            one = open_ones.enter_context(socket.socket())
            one.bind((f"127.0.7.{number + 1}", 0))
            if number % 2:
                one.listen(100)
            addresses.append("{}:{}".format(*one.getsockname()))
        yield addresses


def threads(instance: RunningInstance) -> int:
    """Return the number of threads of the control process, including threads of client libraries."""
    return len(list(Path(f"/proc/{instance.pid}/task").iterdir()))


def create_dead(instance: RunningInstance, number: int, address: str, topic: str) -> None:
    """Create a datastream; every third one has a dead destination, any other a dead source."""
    source, destination = ("source", address) if number % 3 == 0 else (address, "destination")
    body = {
        "name": f"dead-{number}",
        "source": {"cluster": source, "topics": topic},
        "destination": {"cluster": destination, "name": f"dead-{number}.*"},
        "metadata": {"owner": "tests"},
    }
    url = f"http://{instance.address}/v1/datastreams"
    httpx.post(url, json=body, timeout=PATIENCE_SECONDS).raise_for_status()


def names(instance: RunningInstance) -> set[str]:
    return {str(one["name"]) for one in instance.rest.get("/v1/datastreams")}


def problems(instance: RunningInstance) -> set[str]:
    found = instance.rest.get("/v1/datastreams")
    return {str(one["name"]) for one in found if one["problem"] is not None}


def test_clusters_that_do_not_answer_hold_up_nobody_and_leave_no_threads(
    kafka_pair: KafkaPair, new_instance: NewInstance, dead_addresses: list[str]
) -> None:
    topic = f"healthy-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 3, retention_ms="-1")
    instance = new_instance("one", mirror__definitions__addresses='["127.0.7.*:*"]')
    create_datastream(instance, "healthy", topic)
    records = some_records(3, 300, "a")
    produce(kafka_pair.source.address, topic, records)
    wait_for_copy(kafka_pair, topic, len(records))
    before, seen = threads(instance), [0]
    dead = {f"dead-{number}" for number in range(DEAD)}
    with ThreadPoolExecutor(AT_ONCE) as creators:
        creations = [
            creators.submit(create_dead, instance, number, address, topic)
            for number, address in enumerate(dead_addresses)
        ]
        while wait(creations, 0.1).not_done:
            seen.append(threads(instance))
    for one in creations:
        one.result()
    wait_until(lambda: dead <= problems(instance), "every unresponsive cluster is shown")
    more = some_records(3, 300, "b")
    produce(kafka_pair.source.address, topic, more)
    wait_for_copy(kafka_pair, topic, len(records) + len(more))
    most = max(*seen, threads(instance))
    assert most - before < DEAD * CLIENT_THREADS / 2, "dead clusters have clients with threads"
    for name in sorted(dead):
        instance.rest.delete(f"/v1/datastreams/{name}")
    wait_until(lambda: names(instance) == {"healthy"}, "the other datastreams are deleted")
    # Threads of REST end at a later request only.
    wait_until(lambda: names(instance) and threads(instance) < before + OF_A_KIND, "the threads have ended")
    copied = read_all(kafka_pair.destination.address, f"copy.{topic}")
    assert by_partition(copied) == by_partition(records + more)
