"""Servers shared by all tests of a run, one of each kind, owned by the main pytest process.

Worker processes of xdist request a server over a Unix socket. The first request starts it, and it ends with
the run. Tests use unique names of topics, groups and roots.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

import pytest

from stack.errors import StackError
from stack.kafka import KafkaCluster, NodePorts
from stack.pinot import PinotPorts, PinotServer
from stack.ports import free_ports
from stack.process.parallel import for_each
from stack.server import Jvm
from stack.zookeeper import ZooKeeperServer

KAFKA_RELEASE: Final = os.environ.get("KAFKA_RELEASE", "")
"""Set of jars (stack/jars) of the shared brokers; empty: that of the other tests."""
_WITH_ZOOKEEPER: Final = KAFKA_RELEASE == "kafka-2.8"
"""Whether the release has no KRaft fit for use."""
QUICK_KAFKA: Final = Jvm(heap_mib=512, quick_start=True, jar_set=KAFKA_RELEASE)
QUICK_PINOT: Final = Jvm(heap_mib=256, quick_start=True)
BROKER_PROPERTIES: Final = {
    "log.retention.ms": -1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "num.io.threads": 4,
    "num.network.threads": 2,
}
"""Broker settings: records of any timestamp are retained, and expired transactions are aborted soon.

Few threads, since each wakes up even on an idle broker.
"""

_KAFKA: Final = ("source", "destination")
_INPUT: Final = "shared_servers"
_SERVERS: Final = pytest.StashKey["SharedServers"]()
_SOCKET: Final = pytest.StashKey["_Socket"]()


class SharedServers:
    """Servers of a run by name, each started on its first request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports: dict[str, Any] = {
            "source": NodePorts.free(),
            "destination": NodePorts.free(),
            "zookeeper": free_ports(1)[0],
            "pinot": PinotPorts.free(),
        }
        zookeeper = f"127.0.0.1:{self._ports['zookeeper']}" if _WITH_ZOOKEEPER else ""
        self._servers = {name: server(name, folder, ports, zookeeper) for name, ports in self._ports.items()}
        self._locks = {name: threading.Lock() for name in self._ports}

    def ports_of(self, names: Sequence[str]) -> list[Any]:
        """Start the servers that are not running, in parallel, and return their ports. Raises StackError."""
        for_each(names, self._start)
        return [self._ports[name] for name in names]

    def _start(self, name: str) -> None:
        if _WITH_ZOOKEEPER and name in _KAFKA:
            self._start("zookeeper")
        with self._locks[name]:
            if not self._servers[name].is_alive():
                self._servers[name].start()

    def end(self) -> None:
        """Kill the servers and remove their files."""
        for_each(self._servers.values(), lambda one: one.kill())
        shutil.rmtree(self.folder, ignore_errors=True)


def server(
    name: str, folder: Path, ports: Any, zookeeper: str = ""
) -> KafkaCluster | ZooKeeperServer | PinotServer:
    """Return the shared server of that name without starting it; worker processes use its addresses.

    `zookeeper`: address for brokers without KRaft.
    """
    match name:
        case "zookeeper":
            return ZooKeeperServer(name, folder / name, ports)
        case "pinot":
            return PinotServer(name, folder / name, ports, jvm=QUICK_PINOT)
    return KafkaCluster(
        name,
        folder / name,
        [ports],
        jvm=QUICK_KAFKA,
        properties=BROKER_PROPERTIES,
        zookeeper=f"{zookeeper}/{name}" if zookeeper else "",
    )


class _Socket:
    """Listener for requests of worker processes, with one thread for each."""

    def __init__(self, servers: SharedServers) -> None:
        self._servers = servers
        self.address = str(servers.folder / "requests")
        self._listener = Listener(self.address, "AF_UNIX", backlog=64)
        threading.Thread(target=self._accept, name="shared-servers", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                request = self._listener.accept()
                threading.Thread(target=self._answer, args=(request,), daemon=True).start()

    def _answer(self, request: Connection) -> None:
        with request, contextlib.suppress(EOFError):
            names = request.recv()
            try:
                request.send(self._servers.ports_of(names))
            except StackError as error:
                request.send(str(error))

    def close(self) -> None:
        """Stop accepting requests."""
        self._listener.close()


def _servers_of(config: pytest.Config) -> SharedServers:
    if _SERVERS not in config.stash:
        config.stash[_SERVERS] = SharedServers(Path(tempfile.mkdtemp(prefix="headrace-servers-")))
    return config.stash[_SERVERS]


def running(config: pytest.Config, *names: str) -> list[Any]:
    """Return the named running servers. Raises StackError."""
    address = getattr(config, "workerinput", {}).get(_INPUT)
    if address is None:
        servers = _servers_of(config)
        folder, answer = servers.folder, servers.ports_of(names)
    else:
        folder, answer = Path(address).parent, _request(address, names)
    return [server(name, folder, ports) for name, ports in zip(names, answer, strict=True)]


def _request(address: str, names: Sequence[str]) -> list[Any]:
    with Client(address, "AF_UNIX") as connection:
        connection.send(names)
        answer: list[Any] | str = connection.recv()
    if isinstance(answer, str):
        raise StackError(answer)
    return answer


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the address for server requests to an xdist worker."""
    config = node.config
    if _SOCKET not in config.stash:
        config.stash[_SOCKET] = _Socket(_servers_of(config))
    node.workerinput[_INPUT] = config.stash[_SOCKET].address


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers at the end of the run."""
    socket, servers = config.stash.get(_SOCKET, None), config.stash.get(_SERVERS, None)
    if socket is not None:
        socket.close()
    if servers is not None:
        servers.end()
