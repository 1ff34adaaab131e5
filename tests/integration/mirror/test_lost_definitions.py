"""Deletion of a service's tree from a real ZooKeeper during a live session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.coordination.datastream_records.loss_store import LostStore
from mirror.coordination.stores import znodes
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.instance.health import Health
from mirror.instance.lost_definitions import DefinitionFile, LossWatch
from mirror.model.identifiers import InstanceName
from stack.zookeeper import ZooKeeperServer
from tests.builders import a_datastream
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.servers


@pytest.fixture
def nodes(zookeeper_server: ZooKeeperServer) -> Iterator[ZooKeeper]:
    """Return a session below a root of this test."""
    made = ZooKeeper(ZooKeeperSettings(servers=zookeeper_server.address, root=f"/lost-{uuid4().hex[:8]}"))
    made.start()
    yield made
    made.delete_tree("")
    made.stop()


class Watching:
    """A watch of an instance, and its reports."""

    def __init__(self, nodes: ZooKeeper, folder: Path) -> None:
        self._definitions = DefinitionStore(nodes)
        self._watch = LossWatch(nodes, DefinitionFile(folder, InstanceName("one")))
        self._watch.start()

    def lost(self) -> str:
        health = Health()
        self._watch.compare(self._definitions.all(), lambda: None)
        self._watch.report(health)
        condition = health.conditions().get("definitions")
        return condition.sentence if condition is not None else ""

    def stop(self) -> None:
        self._watch.stop(PATIENCE_SECONDS)


def test_a_deleted_tree_is_a_loss_which_a_restart_remembers(nodes: ZooKeeper, tmp_path: Path) -> None:
    definitions, store = DefinitionStore(nodes), LostStore(nodes)
    kept, dropped, deleted = (a_datastream(name) for name in ("kept", "dropped", "deleted"))
    for one in (kept, dropped, deleted):
        definitions.create(one)
    before = Watching(nodes, tmp_path)
    assert before.lost() == ""
    definitions.remove(deleted.name)
    assert before.lost() == ""
    before.stop()
    for folder in (znodes.DATASTREAMS, znodes.DELETED):
        nodes.delete_tree(folder)

    after = Watching(nodes, tmp_path)
    assert "2 datastreams" in after.lost()
    store.forget(store.get(dropped.name))
    wait_until(lambda: "dropped" not in after.lost())
    definitions.create(kept)
    wait_until(lambda: not after.lost())
    assert store.all() == ()
    after.stop()
