"""Outages of one and of all of three ZooKeeper servers under a running service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from stack.zookeeper import ZooKeeperEnsemble
from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, counts, make_topic, produce, read_all
from tests.patience import eventually, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW_MS = 1_795_000_000_000
PARTITIONS = 4
FROZEN_SECONDS = 60.0


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeperEnsemble]:
    """Start three servers that the test may kill."""
    made = ZooKeeperEnsemble("ensemble", tmp_path / "ensemble")
    made.start()
    yield made
    made.kill()


class Flow:
    """One topic, mirrored under its own name; each call writes records and waits for them."""

    def __init__(self, pair: KafkaPair) -> None:
        self.pair = pair
        self.name = f"outage-{uuid4().hex[:8]}"
        self._written = 0
        for cluster in pair:
            make_topic(cluster.address, self.name, PARTITIONS, retention_ms="-1")

    def mirror(self, instance: RunningInstance) -> None:
        body = {
            "name": self.name,
            "source": {"cluster": "source", "topics": self.name},
            "destination": {"cluster": "destination"},
            "metadata": {"owner": "tests"},
        }
        eventually(lambda: instance.rest.post("/v1/datastreams", body), "a datastream is created")

    def goes_on(self, why: str) -> None:
        records = [Record(number % PARTITIONS, b"k", b"v", (), NOW_MS) for number in range(40)]
        produce(self.pair.source.address, self.name, records)
        self._written += len(records)
        try:
            wait_until(
                lambda: self.arrived() >= self._written, f"{why}: records arrive", interval_seconds=0.3
            )
        finally:
            assert self.arrived() == self._written, f"{why}: {self.name}"

    def starts(self) -> int:
        """Return the number of fencing markers, one for each start of a lane."""
        return counts(self.pair.destination.address, [self.name])[self.name] - self.arrived()

    def arrived(self) -> int:
        """Return the number of records; offsets also count the fencing markers of new owners."""
        return len(read_all(self.pair.destination.address, self.name))


def sequences(instance: RunningInstance) -> dict[str, int]:
    """Return the instances by the sequence number of their ZooKeeper session."""
    found = eventually(lambda: instance.rest.get("/v1/instances"), "ZooKeeper responds")
    return {one["name"]: one["sequence"] for one in found}


def test_losing_one_of_three_servers_costs_no_session_and_losing_all_no_record(
    kafka_pair: KafkaPair, ensemble: ZooKeeperEnsemble, new_instance: NewInstance, service_name: str
) -> None:
    settings = {
        "zookeeper__servers": ensemble.address,
        "zookeeper__root": f"/{service_name}",
        "zookeeper__session_timeout_seconds": "10",
    }
    instances = [new_instance(name, **settings) for name in ("one", "two")]
    first = instances[0]
    wait_until(lambda: len(sequences(first)) == 2, "both instances have joined")
    before = sequences(first)
    flow = Flow(kafka_pair)
    flow.mirror(first)
    flow.goes_on("with all three")

    leader = ensemble.leader
    assert leader is not None
    leader.kill()
    flow.goes_on("while the other two elect")
    wait_until(lambda: ensemble.leader not in (None, leader), "another server leads")
    second = Flow(kafka_pair)
    second.mirror(instances[1])
    second.goes_on("a plan was made by two servers")
    assert sequences(first) == before, "an instance lost its session"

    ensemble.kill()
    eventually(lambda: all(_has_given_up(one) for one in instances), "the leases expire")
    for server in ensemble.servers:
        server.launch()
    for server in ensemble.servers:
        server.wait_until_ready()
    third = Flow(kafka_pair)
    third.mirror(first)
    for one in (flow, second, third):
        one.goes_on("all three are back")
    assert [one.arrived() % 40 for one in (flow, second, third)] == [0, 0, 0], "records were repeated"


def test_a_frozen_server_stops_no_lane_of_an_instance_that_uses_it(
    kafka_pair: KafkaPair, ensemble: ZooKeeperEnsemble, new_instance: NewInstance, service_name: str
) -> None:
    """The instance continues its session on another server, and health reports what does not work."""
    settings = {
        "zookeeper__servers": ensemble.address,
        "zookeeper__root": f"/{service_name}",
        "zookeeper__session_timeout_seconds": "20",
    }
    instance = new_instance("one", **settings)
    flow = Flow(kafka_pair)
    flow.mirror(instance)
    flow.goes_on("with all three")
    before, starts = sequences(instance), flow.starts()
    (used,) = [server for server in ensemble.servers if server.sessions]
    used.suspend()
    until = time.monotonic() + FROZEN_SECONDS
    while time.monotonic() < until:
        flow.goes_on("a server is frozen")
        assert {lane["phase"] for lane in instance.lanes()} == {"copying"}
        parts = instance.health()["parts"]
        unwell = {name: part["sentence"] for name, part in parts.items() if not part["is_well"]}
        disconnected = "the coordination store does not respond"  # until the session is on another server
        assert unwell.pop("follower", disconnected).startswith(disconnected)
        assert unwell.keys() <= {"coordination session"}, unwell
    second = Flow(kafka_pair)
    second.mirror(instance)
    second.goes_on("a plan was made without the frozen server")
    wait_until(lambda: instance.health()["is_well"], "the session is well on another server")
    used.resume()
    flow.goes_on("the server is back")
    assert sequences(instance) == before, "the instance lost its session"
    assert flow.starts() == starts, "a lane was restarted"


def _has_given_up(instance: RunningInstance) -> bool:
    """Return whether the instance copies nothing and does not know the owners."""
    lanes = instance.lanes()
    return all(lane["phase"] == "waiting" and lane["lag_records"] is None for lane in lanes)
