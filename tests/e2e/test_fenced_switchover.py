"""A switch-over of a whole service between fake clusters with an authorizer, which deny Write to a producer.

The principal of a producer is its client id there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from headrace.__main__ import app
from mirror.jobs.dr.operation import Step
from tests.e2e.pair_site import PARTITIONS, TOPIC, Site, kill_at, pair_site
from tests.fakes.broker.cluster import FakeCluster
from tests.patience import wait_until

WRITE: Final = 4
KEY: Final = Ed25519PrivateKey.generate()


def report_of(site: Site, *options: str) -> Any:
    """Return the report on the last operation, after its signatures were checked."""
    key, file, page = (site.instance.log_file.with_name(name) for name in ("key", "json", "html"))
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    create = ("pair", "-o", str(file), "--html", str(page), *options, "--at", site.instance.address)
    for words in (create, ("check", str(page)), ("check", str(file), "--json")):
        arguments = ["dr", "report", *words, "--key", str(key)]
        result = CliRunner().invoke(app, arguments, env=dict(site.instance.environment))
        assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["report"]


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
    report = report_of(site)
    assert (report["outcome"], report["failure"]) == ("undone", undone["failure"])
    assert report["stages"][-1]["outcome"] == "failed"
    wait_until(partial(same, site), "the copy continues")
    assert site.instance.rest.get("/v1/datastreams/over")["status"] == "READY"


def test_a_drill_goes_there_and_back_and_leaves_nothing(site: Site) -> None:
    before = site.instance.rest.get("/v1/datastreams/over")
    found = site.run("dr", "drill", "pair", "--for", "1s")
    assert found["problems"] == []
    assert [(leg["origin"], leg["target"], leg["failure"]) for leg in found["legs"]] == [
        ("east", "west", ""),
        ("west", "east", ""),
    ]
    assert [group["positions"] for group in found["legs"][0]["groups"]] == [1]
    assert [(one["lost"], one["consumed"] > 0) for one in found["deliveries"]] == [(0, True)] * 2
    assert not site.east.acls
    assert not site.west.acls
    assert [one["name"] for one in site.instance.rest.get("/v1/datastreams")] == ["over"]
    assert site.instance.rest.get("/v1/datastreams/over") == before
    report = report_of(site, "--drill")
    assert (report["scenario"], report["target"], report["outcome"]) == ("drill", "east", "completed")
    status = site.run("dr", "status", "pair")
    assert (status["active"], status["history"]) == ("east", [])


@pytest.mark.deep
@pytest.mark.parametrize("step", [Step.FENCED, Step.OPEN])
def test_a_killed_drill_is_undone_by_the_next_one(step: Step, site: Site) -> None:
    kill_at(site.instance, step, "dr", "drill", "pair", "--for", "1s")
    found = site.run("dr", "drill", "pair", "--for", "1s")
    assert (found["problems"], len(found["legs"])) == ([], 2)
    assert not [*site.east.acls, *site.west.acls]
    assert [one["name"] for one in site.instance.rest.get("/v1/datastreams")] == ["over"]


def same(site: Site) -> bool:
    return site.values(site.east) == site.values(site.west)
