"""`headrace state export` and `import` with a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.__main__ import app
from headrace.coordination.client import connected
from headrace.settings import load_settings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.root import ensure_root
from mirror.errors import IllegalTransition
from mirror.model.datastreams.datastream import Datastream
from mirror.ports import NodeStore
from mirror.settings import ZooKeeperSettings
from stack.zookeeper import ZooKeeperServer
from tests.builders import a_datastream
from tests.e2e.conftest import new_service_name

pytestmark = pytest.mark.servers
EVENTS = 1_203
"""More than one portion of the transactions that continue the numbers."""


@pytest.fixture
def in_zookeeper(
    zookeeper_server: ZooKeeperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ZooKeeper]:
    """A session with the store that the settings choose, below a root of its own."""
    root = f"/{new_service_name()}"
    monkeypatch.setenv("HEADRACE_ZOOKEEPER__SERVERS", zookeeper_server.address)
    monkeypatch.setenv("HEADRACE_ZOOKEEPER__ROOT", root)
    session = ZooKeeper(ZooKeeperSettings(servers=zookeeper_server.address, root=root))
    session.start()
    yield session
    session.stop()


def headrace(*arguments: str) -> int:
    return CliRunner().invoke(app, ["state", *arguments], catch_exceptions=False).exit_code


def definitions(nodes: NodeStore) -> list[Datastream]:
    return [one.datastream for one in DefinitionStore(nodes).all().readable]


def test_the_state_moves_to_zookeeper_and_back(
    in_zookeeper: ZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, again = tmp_path / "state.json", tmp_path / "again.json"
    with monkeypatch.context() as alone:
        alone.delenv("HEADRACE_ZOOKEEPER__SERVERS")
        alone.delenv("HEADRACE_ZOOKEEPER__ROOT")
        alone.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(tmp_path / "state"))
        with connected(load_settings(), "test") as nodes:
            ensure_root(nodes)
            for name in ("orders", "clicks"):
                DefinitionStore(nodes).create(a_datastream(name))
            nodes.create("/datastreams/ü", b"\xff" * node_codec.CHUNK_BYTES)
            for _ in range(3):
                nodes.create(f"{znodes.EVENTS}/e-", b"event", sequential=True)
            expected = definitions(nodes)
        assert headrace("export", str(file)) == 0
    assert headrace("import", str(file)) == 0
    assert definitions(in_zookeeper) == expected
    assert in_zookeeper.read("/datastreams/ü").data == b"\xff" * node_codec.CHUNK_BYTES
    with pytest.raises(IllegalTransition, match="empty"):
        headrace("import", str(file))
    ensure_root(in_zookeeper)
    assert headrace("export", str(again)) == 0
    first, second = (json.loads(one.read_text())["content"] for one in (file, again))
    assert first["nodes"] == second["nodes"]
    assert all(second["next_numbers"][folder] >= one for folder, one in first["next_numbers"].items())


def test_numbers_continue_and_live_instances_are_in_the_way(in_zookeeper: ZooKeeper, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    ensure_root(in_zookeeper)
    paths = [in_zookeeper.create(f"{znodes.EVENTS}/e-", b"", sequential=True) for _ in range(EVENTS)]
    for path in paths:
        in_zookeeper.delete(path)
    live = in_zookeeper.create(f"{znodes.LIVE}/i-", b"", ephemeral=True, sequential=True)
    with pytest.raises(IllegalTransition, match="live"):
        headrace("export", str(file))
    in_zookeeper.delete(live)
    assert headrace("export", str(file)) == 0
    for name in in_zookeeper.children(""):
        in_zookeeper.delete_tree(f"/{name}")
    in_zookeeper.create(znodes.IMPORT)
    in_zookeeper.create("/datastreams/of-an-import-that-broke-off")
    assert headrace("import", str(file)) == 0
    made = in_zookeeper.create(f"{znodes.EVENTS}/e-", b"", sequential=True)
    assert int(made.rpartition("-")[2]) >= EVENTS
    assert in_zookeeper.children("/datastreams") == ()
