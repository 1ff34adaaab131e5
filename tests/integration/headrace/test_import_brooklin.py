"""Run `headrace import-brooklin` between the trees of two services in a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner, Result

from headrace.__main__ import app
from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.node_codec import CHUNK_BYTES
from mirror.errors import InvalidRequest, NewerFormat, NotFound
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, StartPosition
from stack.zookeeper import ZooKeeperServer
from tests.brooklin_data import DESTINATION_BROKERS, SOURCE_BROKERS, a_stream, write_tree
from tests.hostile import BROOKLIN_FIELDS, NODES, every_value
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.deep]

STREAMS = [
    a_stream("orders", metadata={"group.id": "prod-orders"}),
    a_stream("held", "held", "PAUSED", metadata={"system.auto.offset.reset": "latest"}),
    a_stream("ended", "ended", "STOPPED"),
    a_stream("going", "going", "DELETING"),
    a_stream(
        "partly", "partly", metadata={"system.pausedSourcePartitions": json.dumps({"partly": ["1", "4"]})}
    ),
]


class World:
    """Two roots in one ZooKeeper: Brooklin's and ours, which does not exist yet."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name = f"brooklin-{uuid4().hex[:8]}"
        self.root = f"/headrace-{uuid4().hex[:8]}"
        self.brooklin = ZooKeeper(ZooKeeperSettings(servers=address, root=f"/{self.name}"))
        self.ours = ZooKeeper(ZooKeeperSettings(servers=address, root=self.root))
        self.outside = KazooClient(hosts=address)
        for one in (self.brooklin, self.ours, self.outside):
            one.start()

    def run(self, *more: str) -> Result:
        environment = {
            "HEADRACE_ZOOKEEPER__SERVERS": self.address,
            "HEADRACE_ZOOKEEPER__ROOT": self.root,
            "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": SOURCE_BROKERS,
            "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": DESTINATION_BROKERS,
        }
        arguments = ["import-brooklin", self.address, "--cluster", self.name, *more]
        return CliRunner().invoke(app, arguments, env=environment)

    def answer(self, *more: str) -> dict[str, Any]:
        done = self.run("--json", *more)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    def stored(self) -> dict[str, Datastream]:
        return {one.datastream.name: one.datastream for one in DefinitionStore(self.ours).all().readable}

    def everything_in_brooklin(self) -> Mapping[str, tuple[bytes, object]]:
        """Return the data and the whole stat of every node, which reveals any write at or below it."""
        return dict(self._walk(f"/{self.name}"))

    def _walk(self, path: str) -> Iterator[tuple[str, tuple[bytes, object]]]:
        yield path, self.outside.get_async(path).get(timeout=PATIENCE_SECONDS)
        for child in self.outside.get_children_async(path).get(timeout=PATIENCE_SECONDS):
            yield from self._walk(f"{path}/{child}")

    def close(self) -> None:
        for one in (self.brooklin, self.ours, self.outside):
            one.stop()
        self.outside.close()


@pytest.fixture
def world(zookeeper_server: ZooKeeperServer) -> Iterator[World]:
    made = World(zookeeper_server.address)
    yield made
    made.close()


def verdicts(answer: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["verdict"] for one in answer["datastreams"]}


def test_a_dry_run_tells_everything_and_writes_nothing(world: World) -> None:
    write_tree(world.brooklin, STREAMS)
    before = world.everything_in_brooklin()
    answer = world.answer()
    assert verdicts(answer) == dict.fromkeys(("ended", "held", "orders", "partly"), "create") | {
        "going": "skip"
    }
    assert answer["applied"] is False
    definition = next(one["definition"] for one in answer["datastreams"] if one["name"] == "orders")
    assert definition["source"] == "source"
    assert definition["metadata"]["group.id"] == "prod-orders"
    assert world.outside.exists_async(world.root).get(timeout=PATIENCE_SECONDS) is None
    assert world.everything_in_brooklin() == before
    assert "4 would be created" in world.run().stdout


def test_definitions_groups_states_and_pauses_arrive_and_brooklin_is_not_touched(world: World) -> None:
    write_tree(world.brooklin, STREAMS)
    before = world.everything_in_brooklin()
    assert world.answer("--apply")["applied"] is True
    stored = world.stored()
    assert {name: one.status for name, one in stored.items()} == {
        "orders": DatastreamStatus.INITIALIZING,
        "partly": DatastreamStatus.INITIALIZING,
        "held": DatastreamStatus.PAUSED,
        "ended": DatastreamStatus.STOPPED,
    }
    assert {one.consumer_group for one in stored.values()} == {"prod-orders", "partly", "held", "ended"}
    assert stored["partly"].pauses["partly"].numbers == frozenset({1, 4})
    assert stored["orders"].start is StartPosition.COMMITTED
    assert stored["held"].start is StartPosition.COMMITTED_OR_LATEST
    assert world.everything_in_brooklin() == before
    again = world.answer("--apply")
    assert set(verdicts(again).values()) == {"present", "skip"}
    assert world.stored() == stored


def test_groups_are_hashed_where_brooklin_hashed_them(world: World) -> None:
    write_tree(world.brooklin, [a_stream("orders", metadata={"group.id": None})])
    world.answer("--apply", "--hashed-groups")
    (stored,) = world.stored().values()
    assert stored.consumer_group.startswith(f"{world.name}.")
    assert len(stored.consumer_group) == len(world.name) + 1 + 32


def test_while_brooklin_runs_only_paused_ones_are_created(world: World) -> None:
    write_tree(world.brooklin, STREAMS, live=["host-1"])
    done = world.run("--apply")
    assert isinstance(done.exception, InvalidRequest)
    assert "host-1" in str(done.exception)
    assert world.stored() == {}
    answer = world.answer("--apply", "--paused")
    assert answer["live_instances"] == ["host-1"]
    assert {one.status for one in world.stored().values()} == {
        DatastreamStatus.PAUSED,
        DatastreamStatus.STOPPED,
    }


def test_what_can_be_carried_is_and_the_exit_status_tells_of_the_rest(world: World) -> None:
    write_tree(world.brooklin, [a_stream("good"), a_stream("java", r"\p{Alpha}+")])
    done = world.run("--apply")
    assert done.exit_code == 1
    assert "java: topics" in done.stdout
    assert set(world.stored()) == {"good"}


def test_a_place_without_brooklin_is_named(world: World) -> None:
    done = world.run()
    assert isinstance(done.exception, NotFound)
    assert f"/{world.name} at {world.address}" in str(done.exception)


@pytest.mark.parametrize("wish", ["--apply", "--dry-run"])
def test_a_root_of_a_newer_version_is_refused(world: World, wish: str) -> None:
    write_tree(world.brooklin, STREAMS)
    world.ours.create("/version", b"999")
    assert isinstance(world.run(wish).exception, NewerFormat)
    assert world.stored() == {}


def test_whatever_one_definition_holds_the_others_are_taken_over(world: World) -> None:
    write_tree(world.brooklin, STREAMS)
    for number, (_, data) in enumerate(every_value(STREAMS[0], BROOKLIN_FIELDS)):
        name = f"bad-{number}"
        if len(data) < CHUNK_BYTES:
            world.brooklin.create(f"/dms/{name}", data.replace(b'"orders"', f'"{name}"'.encode()))
    for name, data in NODES.items():
        world.brooklin.create(f"/dms/{name}", data)
    world.ours.create("/datastreams/ended", b"{")
    done = world.run("--json", "--apply", "--paused")
    assert done.exit_code == 1, done.output
    answer = json.loads(done.stdout)
    found = verdicts(answer)
    assert {name: found[name] for name in ("orders", "held", "partly", "ended")} == {
        "orders": "create",
        "held": "create",
        "partly": "create",
        "ended": "conflict",
    }
    assert {found[name] for name in NODES} == {"impossible"}
    assert world.stored().keys() == {name for name, verdict in found.items() if verdict == "create"}
    assert all(one["notes"] for one in answer["datastreams"] if one["verdict"] in {"impossible", "conflict"})
