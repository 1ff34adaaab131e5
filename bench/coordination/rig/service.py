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
from stack.process.parallel import for_each
from stack.process.wait import wait_until
from stack.server import Server
from tests.coordination_stores import StoreServers, store_servers
from tests.patience import eventually
from tests.running import RunningInstance

PARTITIONS = 12
SESSION_SECONDS = 6.0


class Service:
    """Instances that mirror one topic of `PARTITIONS` partitions."""

    def __init__(self, site: Started, flow: Flow) -> None:
        self.instances = site.instances
        self.flow = flow
        self._site = site

    def server(self, role: str) -> Server:
        """Return a server by its role in the service: `source`, `destination` or `store`. For the store,
        return the server whose loss currently has the greatest effect."""
        if role == "store":
            return self._site.store.victim(0.0, time.sleep)
        pair = self._site.pair
        return (pair.source if role == "source" else pair.target).nodes[0]

    def ask(self, path: str, *but: str) -> Any:
        """Send a GET request to the first running instance that responds, skipping those in `but`."""

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
        """Return the instance that the plan assigns to each partition."""
        return {
            int(partition.rpartition("-")[2]): task["instance"]
            for task in self.ask("/v1/plan", *but)["tasks"]
            for partition in task["partitions"]
        }

    def leader(self) -> str:
        """Return the name of the leading instance."""
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

    store: StoreServers
    pair: Pair
    instances: dict[str, RunningInstance]


def started(
    stack: ExitStack,
    names: Sequence[str],
    settings: Mapping[str, str],
    properties: Mapping[str, object] | None = None,
    store: str = "zookeeper",
) -> Started:
    """Start a coordination store, two brokers with these properties, and the instances.

    `settings` are added to the addresses of the servers. Everything stops with the stack.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    pair = stack.enter_context(clusters(quick_start=True, properties=properties))
    servers = store_servers(store, folder)
    stack.callback(for_each, servers.servers.values(), Server.stop)
    for_each(servers.servers.values(), Server.start)
    environment = {
        **servers.environment(SESSION_SECONDS),
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.target.address,
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        **settings,
    }
    instances = {name: RunningInstance(name, folder, environment) for name in names}
    for instance in instances.values():
        stack.callback(instance.stop)
        instance.start()
    return Started(servers, pair, instances)


@contextmanager
def service(names: tuple[str, ...], store: str) -> Iterator[Service]:
    """Run a store, two brokers, the instances and one datastream with traffic, for the context."""
    with ExitStack() as stack:
        site = started(stack, names, {}, store=store)
        pair, instances = site.pair, site.instances
        flow = Flow(pair.source.address, pair.target.address, "orders", PARTITIONS)
        stack.enter_context(flow)
        running = Service(site, flow)
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
