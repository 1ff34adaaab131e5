"""Loss of all data in ZooKeeper: the service names and restores its datastreams, and no record is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from stack.zookeeper import ZooKeeperServer
from tests.e2e.conftest import NewInstance, on_zookeeper
from tests.kafka_data import Record, make_topic, produce, read_all
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW_MS = 1_795_000_000_000
PARTITIONS = 2
LOST = "/v1/lost-datastreams"


class Flows:
    """Two datastreams, each with a topic; records are also written while their definitions are lost."""

    def __init__(self, pair: KafkaPair) -> None:
        self.pair = pair
        self.names = [f"wiped-{uuid4().hex[:8]}" for _ in range(2)]
        self.written = 0
        for name in self.names:
            for cluster in pair:
                make_topic(cluster.address, name, PARTITIONS, retention_ms="-1")

    def mirror(self, instance: RunningInstance) -> None:
        for name in self.names:
            body = {
                "name": name,
                "source": {"cluster": "source", "topics": name},
                "destination": {"cluster": "destination"},
                "start": "latest" if name == self.names[0] else "earliest",
                "metadata": {"owner": "tests"},
            }
            instance.rest.post("/v1/datastreams", body)

    def write(self) -> None:
        for name in self.names:
            values = [f"{self.written + number}".encode() for number in range(20)]
            records = [Record(n % PARTITIONS, b"k", value, (), NOW_MS) for n, value in enumerate(values)]
            produce(self.pair.source.address, name, records)
        self.written += 20

    def check(self) -> None:
        """Check that every record has arrived once."""
        for name in self.names:
            wait_until(partial(self._has_arrived, name), interval_seconds=0.3)
            assert sorted(self._values(name)) == sorted(str(n).encode() for n in range(self.written)), name

    def _has_arrived(self, name: str) -> bool:
        return len(self._values(name)) >= self.written

    def _values(self, name: str) -> list[bytes]:
        return [one.value or b"" for one in read_all(self.pair.destination.address, name)]


def definitions_part(instance: RunningInstance) -> dict[str, Any]:
    parts: dict[str, dict[str, Any]] = instance.health()["parts"]
    return parts.get("definitions", {"is_well": True, "sentence": ""})


def names_all(instance: RunningInstance, flows: Flows) -> bool:
    part = definitions_part(instance)
    return not part["is_well"] and all(name in part["sentence"] for name in flows.names)


def replace_data(server: ZooKeeperServer, _: str) -> None:
    """Replace the disk: the server rejects earlier sessions."""
    server.kill()
    shutil.rmtree(server.folder / "data")
    server.start()


def delete_tree(server: ZooKeeperServer, root: str) -> None:
    """Delete the tree while sessions live on."""
    nodes = ZooKeeper(ZooKeeperSettings(servers=server.address, root=root))
    nodes.start()
    nodes.delete_tree("")
    nodes.stop()


@pytest.fixture
def server(new_zookeeper: Callable[..., ZooKeeperServer]) -> ZooKeeperServer:
    """Return a server that the test may wipe."""
    return new_zookeeper()


@pytest.mark.parametrize("wipe", [replace_data, delete_tree])
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_lost_datastreams_are_named_restored_and_lose_no_record(
    kafka_pair: KafkaPair,
    server: ZooKeeperServer,
    new_instance: NewInstance,
    service_name: str,
    tmp_path: Path,
    wipe: Callable[[ZooKeeperServer, str], None],
    is_running: bool,
) -> None:
    flows = Flows(kafka_pair)
    instance = new_instance(
        "one", mirror__state_directory=str(tmp_path / "state"), **on_zookeeper(server, service_name)
    )
    flows.mirror(instance)
    wait_until(lambda: len(instance.lanes()) == 2 * PARTITIONS)
    wait_until(lambda: all(lane["phase"] == "copying" for lane in instance.lanes()))
    flows.write()
    flows.check()
    if is_running:
        wipe(server, f"/{service_name}")
        wait_until(lambda: names_all(instance, flows))
        flows.write()
        assert instance.terminate() == 0
    else:
        assert instance.terminate() == 0
        wipe(server, f"/{service_name}")
        flows.write()
    instance.start()
    wait_until(lambda: names_all(instance, flows))
    assert sorted(one["name"] for one in instance.rest.get(LOST)) == sorted(flows.names)
    for name in flows.names:
        instance.rest.post(f"{LOST}/{name}/restore", {})
    flows.write()
    flows.check()
    wait_until(lambda: instance.health()["is_well"])
    assert instance.rest.get(LOST) == []
