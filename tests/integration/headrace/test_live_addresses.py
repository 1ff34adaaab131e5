"""A command finds a live instance in ZooKeeper if none of the addresses in the settings responds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.model.identifiers import InstanceName
from stack.zookeeper import ZooKeeperServer
from tests.browser.served import served
from tests.e2e.conftest import new_service_name
from tests.fakes.site import Site

pytestmark = pytest.mark.servers
NOBODY: Final = "127.0.0.1:1"
SETTINGS: Final = """[zookeeper]
servers = "{servers}"
root = "{root}"
[commands]
addresses = ["{nobody}"]
"""


def headrace(*arguments: str, config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *arguments, "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))


def test_a_command_asks_a_live_instance(zookeeper_server: ZooKeeperServer, tmp_path: Path) -> None:
    site, root = Site(), f"/{new_service_name()}"
    site.create("orders")
    config = tmp_path / "headrace.toml"
    config.write_text(SETTINGS.format(servers=zookeeper_server.address, root=root, nobody=NOBODY))
    nodes = ZooKeeper(ZooKeeperSettings(servers=zookeeper_server.address, root=root))
    nodes.start()
    try:
        none = headrace("datastream", "get", "orders", config=config)
        assert none.returncode != 0
        assert NOBODY in none.stderr
        with served(site.app) as url:
            address = url.removeprefix("http://")
            Membership(nodes).join(LiveInstance(InstanceName("one"), 0, "here", 1, address))
            found = headrace("datastream", "get", "orders", config=config)
            assert found.returncode == 0, found.stderr
            assert json.loads(found.stdout)["name"] == "orders"
            chosen = headrace("datastream", "get", "orders", "--at", NOBODY, config=config)
            assert chosen.returncode != 0, "the option excludes all other instances"
    finally:
        nodes.stop()
