"""Instances of the service on real servers, with access to their REST reports."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.coordination.rig.flow import Flow
from bench.mirror.rig.clusters import Pair, clusters
from mirror.errors import HeadraceError
from stack.ports import free_ports
from stack.server import Server
from stack.wait import wait_until
from stack.zookeeper import ZooKeeperServer
from tests.patience import eventually
from tests.running import RunningInstance

PARTITIONS = 12


class Service:
    """Instances that mirror one topic of `PARTITIONS` partitions."""

    def __init__(
        self, servers: Mapping[str, Server], flow: Flow, instances: dict[str, RunningInstance]
    ) -> None:
        """`servers` maps the role in the service (`ZooKeeper`, `source`, `destination`) to the server."""
        self.servers, self.flow, self.instances = servers, flow, instances

    def ask(self, path: str, *but: str) -> Any:
        """Send a GET to the first running instance that responds, skipping those in `but`."""

        def attempt() -> Any:
            for name, instance in self.instances.items():
                if name not in but and instance.is_alive():
                    try:
                        return instance.rest.get(path)
                    except HeadraceError:
                        continue
            return None

        return wait_until(attempt, 60, path)

    def homes(self, *but: str) -> dict[int, str]:
        """Return the planned instance of each partition."""
        return {
            int(partition.rpartition("-")[2]): task["instance"]
            for task in self.ask("/v1/plan", *but)["tasks"]
            for partition in task["partitions"]
        }

    def leader(self) -> str:
        """Return the name of the leader."""
        return str(self.ask("/v1/instances")[0]["name"])

    def wait_until_spread(self) -> None:
        """Wait until every instance is live and has tasks, and every partition flows."""

        def is_spread() -> bool:
            return set(self.homes().values()) == set(self.instances) and self._is_quiet()

        eventually(is_spread, "the work is spread")

    def _is_quiet(self) -> bool:
        moment = time.monotonic()
        return wait_until(lambda: self.flow.flows_since(moment), 60, "every partition flows")


@dataclass(frozen=True)
class Started:
    """Running instances and their servers."""

    zookeeper: ZooKeeperServer
    pair: Pair
    instances: dict[str, RunningInstance]


def started(
    stack: ExitStack,
    names: Sequence[str],
    settings: Mapping[str, str],
    properties: Mapping[str, object] | None = None,
) -> Started:
    """Start ZooKeeper, two brokers with these properties, and the instances.

    `settings` are added to the addresses of the servers. Everything stops with the stack.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    pair = stack.enter_context(clusters(quick_start=True, properties=properties))
    zookeeper = ZooKeeperServer("zookeeper", folder / "zookeeper", free_ports(1)[0])
    zookeeper.start()
    stack.callback(zookeeper.stop)
    environment = {
        "HEADRACE_ZOOKEEPER__SERVERS": zookeeper.address,
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.target.address,
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        **settings,
    }
    instances = {name: RunningInstance(name, folder, environment) for name in names}
    for instance in instances.values():
        stack.callback(instance.stop)
        instance.start()
    return Started(zookeeper, pair, instances)


@contextmanager
def service(names: tuple[str, ...], session_timeout_seconds: float = 6.0) -> Iterator[Service]:
    """Run ZooKeeper, two brokers, the instances and one datastream with traffic, for the context."""
    with ExitStack() as stack:
        settings = {"HEADRACE_ZOOKEEPER__SESSION_TIMEOUT_SECONDS": str(session_timeout_seconds)}
        site = started(stack, names, settings)
        pair, instances = site.pair, site.instances
        flow = Flow(pair.source.address, pair.target.address, "orders", PARTITIONS)
        stack.enter_context(flow)
        servers = {
            "ZooKeeper": site.zookeeper,
            "source": pair.source.nodes[0],
            "destination": pair.target.nodes[0],
        }
        running = Service(servers, flow, instances)
        body = {
            "name": "bench",
            "source": {"cluster": "source", "topics": "orders"},
            "destination": {"cluster": "destination"},
            "limits": {"min_tasks": 2 * len(names)},
            "metadata": {"owner": "bench"},
        }
        instances[names[0]].rest.post("/v1/datastreams", body)
        running.wait_until_spread()
        yield running
