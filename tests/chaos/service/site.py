"""Servers and instances of a run, their reservation for faults, and the caretaker of the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from headrace.console.client import RestClient
from mirror.errors import HeadraceError, SessionLost
from stack.kafka import KafkaCluster, NodePorts
from stack.pinot import PinotPorts, PinotServer
from stack.process.parallel import for_each
from stack.server import Jvm, Server
from tests.coordination_stores import StoreServers, ZooKeeperStore
from tests.running import RunningInstance

SESSION_SECONDS: Final = 4.0
AUDIT_WINDOW_SECONDS: Final = 60
AUDIT_LATENESS_SECONDS: Final = 6.0
_CALL_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.3
_T = TypeVar("_T")


def _pinot_environment(pinot: PinotServer) -> Mapping[str, str]:
    return {
        "HEADRACE_PINOT__CONTROLLER": pinot.controller_address,
        "HEADRACE_PINOT__BROKER": pinot.broker_address,
        "HEADRACE_MIRROR__LEADER__LOAD_PROVIDER": "pinot",
    }


class Interrupted(Exception):
    """The run ends early."""


class Site:
    """Two clusters, a coordination store, and instances, all ended by `stop`.

    Only the caretaker restarts an instance that exited unexpectedly, like a process manager; `ended` lists
    these.
    """

    def __init__(
        self,
        folder: Path,
        instances: int,
        *,
        store: StoreServers | None = None,
        quick_start: bool = False,
        with_pinot: bool = False,
    ) -> None:
        """Create the site. `store`: by default ZooKeeper; `with_pinot`: loads come from a separate Pinot."""
        self.folder = folder
        self.given_up = threading.Event()
        self.ended: list[str] = []
        jvm = Jvm(heap_mib=512, quick_start=quick_start)
        self.source, self.destination = (
            KafkaCluster(name, folder / name, [NodePorts.free()], jvm=jvm)
            for name in ("source", "destination")
        )
        self.store = store or ZooKeeperStore(folder)
        self.pinot = PinotServer("pinot", folder / "pinot", PinotPorts.free()) if with_pinot else None
        self.instances = {
            name: RunningInstance(name, folder, self._environment())
            for name in (f"instance-{number}" for number in range(1, instances + 1))
        }
        self._free = threading.Condition()
        self._taken: set[str] = set()
        self._caretaker = threading.Thread(target=self._take_care, name="caretaker")

    def _environment(self) -> Mapping[str, str]:
        return {
            **self.store.environment(SESSION_SECONDS),
            "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": self.source.address,
            "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": self.destination.address,
            "HEADRACE_MIRROR__DEFINITIONS__ADDRESSES": '["127.0.0.1:*"]',
            "HEADRACE_MIRROR__WORKER__PROCESSES": "2",
            "HEADRACE_MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "1",
            "HEADRACE_MIRROR__AUDIT__INTERVAL_SECONDS": "2",
            "HEADRACE_MIRROR__AUDIT__WINDOW_SECONDS": str(AUDIT_WINDOW_SECONDS),
            "HEADRACE_MIRROR__AUDIT__LATENESS_SECONDS": str(AUDIT_LATENESS_SECONDS),
            **(_pinot_environment(self.pinot) if self.pinot else {}),
        }

    @property
    def servers(self) -> dict[str, Server]:
        """Servers by name, without those of the store."""
        return {
            "source": self.source.nodes[0],
            "destination": self.destination.nodes[0],
            **({"pinot": self.pinot} if self.pinot else {}),
        }

    def start(self) -> None:
        """Start everything; return when every instance listens."""
        for_each(self._all_servers(), Server.start)
        if self.pinot:
            command = [sys.executable, "-m", "headrace", "pinot", "apply"]
            environment = {**os.environ, **self._environment()}
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        for_each(self.instances.values(), RunningInstance.start)
        self._caretaker.start()

    def stop(self) -> None:
        """End everything at once."""
        self.given_up.set()
        if self._caretaker.is_alive():
            self._caretaker.join()
        for_each(self.instances.values(), RunningInstance.kill)
        for_each(self.instances.values(), RunningInstance.stop)
        for_each(self._all_servers(), Server.kill)

    def _all_servers(self) -> list[Server]:
        return [*self.servers.values(), *self.store.servers.values()]

    def wait(self, seconds: float) -> None:
        """Sleep. Raises Interrupted if the run is aborted meanwhile."""
        if self.given_up.wait(seconds):
            raise Interrupted

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition. Raises Interrupted if the run is aborted meanwhile."""
        while not condition():
            self.wait(0.1)

    @contextmanager
    def taken(self, choice: float, *, leader: bool) -> Iterator[RunningInstance]:
        """Reserve an instance that is not reserved; the leader if requested and free."""
        wanted = self._leader() if leader else ""
        with self._free:
            while not (free := sorted(set(self.instances) - self._taken)):
                self._free.wait(0.1)
                self.wait(0)
            name = wanted if wanted in free else free[int(choice * len(free))]
            self._taken.add(name)
        try:
            yield self.instances[name]
        finally:
            with self._free:
                self._taken.discard(name)
                self._free.notify_all()

    def bring_back(self, instance: RunningInstance) -> None:
        """Start an instance, repeatedly if it exits because the store is down."""
        while True:
            instance.launch()
            self.wait_until(lambda: instance.address or not instance.is_alive())
            if instance.is_alive():
                return
            self.wait(0.5)

    def ask(self, act: Callable[[RestClient], _T]) -> _T:
        """Return the response of any instance that is not reserved; retry after transient errors."""
        while True:
            for name in sorted(set(self.instances) - self._taken):
                with ExitStack() as stack:
                    address = self.instances[name].address
                    if not address:
                        continue
                    client = RestClient(address, _CALL_SECONDS)
                    stack.callback(client.close)
                    try:
                        return act(client)
                    except HeadraceError as error:
                        if not (error.retriable or isinstance(error, SessionLost)):
                            raise
            self.wait(0.2)

    def each(self, path: str) -> dict[str, Any]:
        """Return the response of every instance by name; None if it does not respond or is unhealthy."""
        answers: dict[str, Any] = {}
        for name, instance in self.instances.items():
            client = RestClient(instance.address or "127.0.0.1:1", _CALL_SECONDS)
            try:
                answers[name] = client.get(path)
            except HeadraceError:
                answers[name] = None
            finally:
                client.close()
        return answers

    def _leader(self) -> str:
        """Return the name of the leader, or an empty string while no instance responds."""
        for name in sorted(set(self.instances) - self._taken):
            client = RestClient(self.instances[name].address or "127.0.0.1:1", 1.0)
            try:
                return str(client.get("/v1/instances")[0]["name"])
            except (HeadraceError, IndexError):
                continue
            finally:
                client.close()
        return ""

    def _take_care(self) -> None:
        while not self.given_up.wait(_LOOK_SECONDS):
            for name, instance in self.instances.items():
                with self._free:
                    if name in self._taken or instance.is_alive():
                        continue
                    self._taken.add(name)
                try:
                    self.ended.append(f"{name} ended by itself; see {instance.log_file}")
                    self.bring_back(instance)
                except Interrupted:
                    return
                finally:
                    with self._free:
                        self._taken.discard(name)
                        self._free.notify_all()
