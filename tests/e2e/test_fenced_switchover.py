"""A switch-over of a whole service between fake clusters with an authorizer, which deny Write to a producer.

The principal of a producer is its client id there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.e2e.pair_site import PARTITIONS, TOPIC, Site, pair_site
from tests.fakes.broker.cluster import FakeCluster
from tests.patience import wait_until

WRITE: Final = 4


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with pair_site(tmp_path) as found:
        yield found


@contextmanager
def writing(cluster: FakeCluster, client_id: str) -> Iterator[Callable[[], list[bytes]]]:
    """Write until the end of the context, or until Write is denied.

    Yields a function that returns the values that were acknowledged.
    """
    producer = Producer({"bootstrap.servers": cluster.address, "client.id": client_id, "linger.ms": 1})
    acknowledged: list[bytes] = []
    stopping = threading.Event()

    def note(error: object, message: Any) -> None:
        if error is None:
            acknowledged.append(message.value())

    def write() -> None:
        number = 0
        while not stopping.wait(0.01):
            value = b"%s %d" % (client_id.encode(), number)
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=note)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise
                return
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=write, name=f"producer {client_id}")
    thread.start()
    try:
        yield lambda: list(acknowledged)
    finally:
        stopping.set()
        thread.join()
        producer.flush(30)


@pytest.mark.deep
def test_producers_are_fenced_and_none_of_their_records_is_lost(site: Site) -> None:
    with writing(site.east, "app") as acknowledged:
        wait_until(lambda: len(acknowledged()) > 50, "records are acknowledged")
        there = site.run("dr", "switchover", "pair", "--to", "west")
    assert (there["active"], there["failure"]) == ("west", "")
    assert site.values(site.west) == site.values(site.east) == sorted(acknowledged())
    assert site.east.is_denied("User:app", WRITE, TOPIC)
    with writing(site.west, "app") as more:
        wait_until(lambda: len(more()) > 50, "records are acknowledged")
    wait_until(lambda: site.values(site.east) == site.values(site.west), "records are mirrored back")
    assert site.values(site.west) == sorted([*acknowledged(), *more()])
    back = site.run("dr", "switchover", "pair", "--to", "east")
    assert back["active"] == "east"
    wait_until(lambda: site.run("dr", "status", "pair")["state"] == "steady", "the lag is known")
    assert not site.east.is_denied("User:app", WRITE, TOPIC)
    assert site.west.is_denied("User:app", WRITE, TOPIC)


def test_a_writer_without_a_fence_is_named_and_everything_is_restored(site: Site) -> None:
    with writing(site.east, "app"), writing(site.east, "rogue") as rogue:
        wait_until(lambda: len(rogue()) > 50, "records are acknowledged")
        undone = site.run("dr", "switchover", "pair", "--to", "west", code=1)
        assert "producer" in undone["failure"]
        assert undone["active"] == "east"
        assert not site.east.acls
    wait_until(partial(same, site), "the copy continues")
    assert site.instance.rest.get("/v1/datastreams/over")["status"] == "READY"


def same(site: Site) -> bool:
    return site.values(site.east) == site.values(site.west)
