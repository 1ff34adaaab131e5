"""Two clusters, ZooKeeper, three instances with the monitor, a webhook receiver and traffic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bench.coordination.rig.service import Started, started
from bench.service.rig.histories.pages import Pages, receiver
from bench.service.rig.histories.traffic import Traffic
from headrace.console.client import RestClient
from mirror.errors import HeadraceError, SessionLost
from stack.errors import NotInTime
from stack.process.wait import wait_until
from stack.server import Server
from tests.kafka_data import make_topic
from tests.running import RunningInstance

OBJECTIVE_MS: Final = 3_000
BUDGET: Final = {"milliseconds": OBJECTIVE_MS, "target_percent": 99.0, "period_days": 30}
TOPICS: Final = {"orders": 6, "clicks": 3, "payments": 3}
"""Topics with traffic, and their numbers of partitions."""
DATASTREAMS: Final = {"orders": ("orders", "clicks"), "payments": ("payments",), "archive": ()}
"""Datastreams, and their topics with traffic."""
_IDLE_TOPIC: Final = "archive"
WINDOW_SECONDS: Final = 15
_CALL_SECONDS: Final = 3.0
_TASK_BYTES: Final = 250_000
"""Quota and capacity of a task; the usual traffic takes a tenth."""
_SETTINGS: Final = {
    "ZOOKEEPER__SESSION_TIMEOUT_SECONDS": "4",
    "MIRROR__WORKER__METRICS_INTERVAL_SECONDS": "1",
    "MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "1",
    "MIRROR__WORKER__TASK_BYTES_PER_SECOND_LIMIT": str(_TASK_BYTES),
    "MIRROR__LEADER__TASK_CAPACITY_BYTES_PER_SECOND": str(_TASK_BYTES),
    "MONITOR__MEASUREMENTS": "topic",
    "MONITOR__INTERVAL_SECONDS": "1",
    "MONITOR__WINDOW_SECONDS": str(WINDOW_SECONDS),
    "MONITOR__CLOSE_SECONDS": "10",
    "MONITOR__COOLDOWN_SECONDS": "20",
    "MONITOR__ALERTS__HALTED_AFTER_SECONDS": "8",
    "MONITOR__ALERTS__BLIND_AFTER_SECONDS": "20",
    "MONITOR__ALERTS__PARTITIONS_AFTER_SECONDS": "8",
    "MONITOR__ALERTS__KEEP_SECONDS": "5",
    "MONITOR__ALERTS__RECOVERED_AFTER_SECONDS": "10",
    "MONITOR__ALERTS__GATHER_SECONDS": "1",
}

Route = Callable[[ExitStack, str], Mapping[str, str]]
"""Starts the servers between the monitor and a receiver of alerts, and returns settings of the monitor."""


@dataclass
class Site:
    """The running rig. `servers`: maps the roles `source`, `destination` and `zookeeper` to servers."""

    servers: Mapping[str, Server]
    instances: dict[str, RunningInstance]
    traffic: Traffic
    pages: Pages

    def ask(self, act: Callable[[RestClient], Any], patience: float = 60.0) -> Any:
        """Return the response of the first instance that responds. Retriable errors are retried."""
        until, last = time.monotonic() + patience, "no instance runs"
        while time.monotonic() < until:
            for instance in self.instances.values():
                if not instance.address:
                    continue
                client = RestClient(instance.address, _CALL_SECONDS)
                try:
                    return act(client)
                except HeadraceError as error:
                    if not (error.retriable or isinstance(error, SessionLost)):
                        raise
                    last = str(error)
                finally:
                    client.close()
            time.sleep(0.2)
        raise NotInTime(f"no instance responds within {patience:g} s: {last}")

    def get(self, path: str, **parameters: Any) -> Any:
        """Send a GET to an instance that responds."""
        return self.ask(lambda rest: rest.get(path, **parameters))

    def leader(self) -> RunningInstance:
        """Return the leading instance."""
        return self.instances[str(self.get("/v1/instances")[0]["name"])]

    def follower(self) -> RunningInstance:
        """Return an instance that does not lead and copies topics with traffic."""
        leader = self.leader().name
        homes = {
            task["instance"]
            for task in self.get("/v1/plan")["tasks"]
            if any(partition.rpartition("-")[0] in TOPICS for partition in task["partitions"])
        }
        name = min(name for name in self.instances if name != leader and name in homes)
        return self.instances[name]

    def create(self, name: str, topics: str, tasks: int, **more: object) -> None:
        """Create a datastream with an objective."""
        body = {
            "name": name,
            "source": {"cluster": "source", "topics": topics},
            "destination": {"cluster": "destination", "name": "copy.*"},
            "limits": {"min_tasks": tasks},
            "objective": {"milliseconds": OBJECTIVE_MS},
            "metadata": {"owner": "bench"},
            **more,
        }
        self.ask(lambda rest: rest.post("/v1/datastreams", body))

    def unrest(self) -> str:
        """Return the first deviation from normal operation; empty if there is none."""
        if not all(instance.address and instance.is_alive() for instance in self.instances.values()):
            return "an instance is away"
        plan = self.get("/v1/plan")["tasks"]
        homes = {task["instance"] for task in plan if task["partitions"]}
        if homes != set(self.instances):
            return f"only {', '.join(sorted(homes))} have tasks"
        lanes = self.get("/v1/lanes")["lanes"]
        if odd := [lane["partition"] for lane in lanes if lane["phase"] != "copying"]:
            return f"{odd[0]} does not copy"
        if not self.traffic.is_in_time() or self.traffic.was_late_since(time.time() - WINDOW_SECONDS):
            return "records are late"
        if self.pages.firing:
            return "an alert fires"
        if opened := self.get("/v1/incidents", open="true"):
            return f"an incident of {opened[0]['datastream']} is open"
        return ""

    def calm(self, patience: float = 240.0) -> str:
        """Wait for normal operation. Return the deviation that remains after `patience` seconds."""
        found = "not looked yet"

        def is_quiet() -> bool:
            nonlocal found
            found = self.unrest()
            return not found

        try:
            wait_until(is_quiet, patience, "no incident is open", interval_seconds=0.5)
        except NotInTime:
            return found
        return ""


def by_webhook(_: ExitStack, url: str) -> Mapping[str, str]:
    """Return settings of a monitor that sends its alerts to the receiver itself."""
    return {"MONITOR__ALERTS__WEBHOOKS__BENCH__URL": url}


@contextmanager
def site(route: Route = by_webhook) -> Iterator[Site]:
    """Run everything for the context. `route`: how alerts get to the receiver."""
    with ExitStack() as stack:
        url, pages = stack.enter_context(receiver())
        settings = {f"HEADRACE_{name}": value for name, value in {**_SETTINGS, **route(stack, url)}.items()}
        found: Started = started(stack, ("one", "two", "three"), settings)
        source, destination = found.pair.source, found.pair.target
        for name, count in (TOPICS | {_IDLE_TOPIC: 2}).items():
            make_topic(source.address, name, count)
            make_topic(destination.address, f"copy.{name}", count)
        servers = {
            "source": source.nodes[0],
            "destination": destination.nodes[0],
            "zookeeper": found.store.servers["zookeeper"],
        }
        traffic = Traffic(source.address, destination.address, TOPICS, OBJECTIVE_MS / 1000)
        running = Site(servers, found.instances, traffic, pages)
        adopt = {"destination": {"cluster": "destination", "name": "copy.*", "adopt": True}}
        running.create("orders", "orders|clicks", 3, **adopt)
        running.create("payments", "payments", 1, **adopt, objectives=[BUDGET])
        running.create("archive", _IDLE_TOPIC, 1, **adopt)
        stack.enter_context(traffic)
        if lack := running.calm():
            raise NotInTime(f"the service does not start: {lack}")
        yield running
