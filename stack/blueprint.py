"""Creates the servers with their memory, their Java and their addresses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from stack.jars.java import JavaRuntime
from stack.kafka import KafkaCluster, NodePorts
from stack.pinot import PinotPorts, PinotServer
from stack.ports import LOOPBACK, StackPorts
from stack.server import Jvm, Server
from stack.zookeeper import ZooKeeperServer

NAMES: Final = ("zookeeper", "source", "destination", "pinot")


@dataclass(frozen=True)
class ServerResources:
    """Resources of the servers: heap in MiB, and the Java to use (None: search for one)."""

    zookeeper_heap_mib: int = 128
    kafka_heap_mib: int = 512
    pinot_heap_mib: int = 512
    java: JavaRuntime | None = None
    quick_start: bool = False
    """Use only the JVM's first compiler (see `Jvm.quick_start`), for stacks that run for minutes. ZooKeeper
    always uses only that compiler."""


@dataclass(frozen=True)
class StackAddresses:
    """Addresses for clients, each `host:port`."""

    zookeeper: str
    source: str
    destination: str
    pinot_controller: str
    pinot_broker: str

    def as_dict(self) -> dict[str, str]:
        """Return a mapping of each server's name to its address."""
        return asdict(self)

    def as_environment(self) -> dict[str, str]:
        """Return environment variables that set Headrace's settings to the addresses."""
        return {
            "HEADRACE_ZOOKEEPER__SERVERS": self.zookeeper,
            "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": self.source,
            "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": self.destination,
            "HEADRACE_PINOT__CONTROLLER": self.pinot_controller,
            "HEADRACE_PINOT__BROKER": self.pinot_broker,
        }


def addresses_of(ports: StackPorts) -> StackAddresses:
    """Return the addresses that the servers have with these ports."""
    return StackAddresses(
        zookeeper=f"{LOOPBACK}:{ports.zookeeper}",
        source=f"{LOOPBACK}:{ports.source}",
        destination=f"{LOOPBACK}:{ports.destination}",
        pinot_controller=f"{LOOPBACK}:{ports.pinot_controller}",
        pinot_broker=f"{LOOPBACK}:{ports.pinot_broker}",
    )


def build(home: Path, ports: StackPorts, machine: ServerResources) -> dict[str, Server]:
    """Return all servers of the stack, not started."""
    kafka = Jvm(machine.kafka_heap_mib, machine.java, machine.quick_start)
    source = NodePorts(ports.source, ports.source_controller)
    destination = NodePorts(ports.destination, ports.destination_controller)
    pinot = PinotPorts(
        ports.pinot_controller,
        ports.pinot_broker,
        ports.pinot_server,
        ports.pinot_admin,
        ports.pinot_zookeeper,
    )
    return {
        "zookeeper": ZooKeeperServer(
            "zookeeper",
            home / "zookeeper",
            ports.zookeeper,
            jvm=Jvm(machine.zookeeper_heap_mib, machine.java, quick_start=True),
        ),
        "source": KafkaCluster("source", home / "source", [source], jvm=kafka).nodes[0],
        "destination": KafkaCluster("destination", home / "destination", [destination], jvm=kafka).nodes[0],
        "pinot": PinotServer(
            "pinot",
            home / "pinot",
            pinot,
            jvm=Jvm(machine.pinot_heap_mib, machine.java, machine.quick_start),
        ),
    }
