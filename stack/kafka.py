"""Runs Kafka in KRaft mode: clusters of one or several nodes, each with broker and controller in one
process."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import shutil
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import readiness
from stack.errors import ServerDied
from stack.folders import cache_folder
from stack.jars import jar_sets
from stack.ports import LOOPBACK, free_ports
from stack.process.managed_process import ManagedProcess
from stack.process.parallel import for_each
from stack.server import Jvm, Server, properties_text, tail

DEFAULT_JVM: Final = Jvm(heap_mib=512)
_INTERNAL: Final = "PLAINTEXT"
_INTERNAL_PARTITIONS: Final = 8
_FEATURES: Final = "bootstrap.checkpoint"
"""File from which a broker that starts for the first time reads the feature versions of the cluster."""
_OF_KRAFT: Final = (
    *("process.roles", "node.id", "controller.", "broker.session", "broker.heartbeat"),
    "metadata.",
)
"""Beginnings of settings that brokers without KRaft do not know."""
_SECURE: Final = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})


@dataclass(frozen=True)
class NodePorts:
    """Ports of one node: for clients without security, for the controllers, and for additional listeners."""

    broker: int
    controller: int
    extra: Mapping[str, int] | None = None
    """Ports of additional listeners by name. A listener named SSL, SASL_PLAINTEXT or SASL_SSL uses that
    protocol."""

    @staticmethod
    def free(listeners: Sequence[str] = ()) -> NodePorts:
        """Return free ports for a node, including one for each additional listener."""
        broker, controller, *extra = free_ports(2 + len(listeners))
        return NodePorts(broker, controller, dict(zip(listeners, extra, strict=True)))


class KafkaNode(Server):
    """One node of a cluster; create it through KafkaCluster."""

    def __init__(
        self,
        cluster: str,
        node_id: int,
        folder: Path,
        nodes: Sequence[NodePorts],
        *,
        jvm: Jvm = DEFAULT_JVM,
        properties: Mapping[str, object] | None = None,
        zookeeper: str = "",
    ) -> None:
        super().__init__(cluster if len(nodes) == 1 else f"{cluster}-{node_id}", folder, jvm)
        self.node_id = node_id
        self._nodes = tuple(nodes)
        self._properties = dict(properties or {})
        self._zookeeper = zookeeper
        self._mine = self._nodes[node_id - 1]

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._mine.broker}"

    def address_of(self, listener: str) -> str:
        """Return the address of an additional listener."""
        return f"{LOOPBACK}:{(self._mine.extra or {})[listener]}"

    def ports(self) -> Mapping[str, int]:
        return {
            "brokers": self._mine.broker,
            "controllers": self._mine.controller,
            **(self._mine.extra or {}),
        }

    def lacks(self) -> str:
        return readiness.kafka(self._mine.broker, len(self._nodes))

    def configuration(self) -> dict[str, object]:
        """Return server.properties: Kafka's defaults, adapted to a small cluster on one machine."""
        listeners = {_INTERNAL: self._mine.broker, **(self._mine.extra or {})}
        clients = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())
        replicas = min(3, len(self._nodes))
        voters = (
            f"{number}@{LOOPBACK}:{node.controller}" for number, node in enumerate(self._nodes, start=1)
        )
        names = ("CONTROLLER", *listeners)
        protocols = (f"{name}:{name if name in _SECURE else _INTERNAL}" for name in names)
        values: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{clients},CONTROLLER://{LOOPBACK}:{self._mine.controller}",
            "advertised.listeners": clients,
            "inter.broker.listener.name": _INTERNAL,
            "listener.security.protocol.map": ",".join(protocols),
            "log.dirs": self.folder / "data",
            # A killed node can register again only after the session of its previous incarnation has ended.
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 1000,
            # By default an idle node writes to its log twice a second, which is half of its running cost.
            "metadata.max.idle.interval.ms": 5000,
            "log.cleaner.dedupe.buffer.size": 16 * 2**20,
            "group.initial.rebalance.delay.ms": 0,
            "default.replication.factor": replicas,
        }
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            values[f"{topic}.num.partitions"] = _INTERNAL_PARTITIONS
            values[f"{topic}.replication.factor"] = replicas
        for topic in ("transaction.state.log", "share.coordinator.state.topic"):
            values[f"{topic}.min.isr"] = max(1, replicas - 1)
        if len(self._nodes) > 1:
            values["broker.rack"] = f"rack-{self.node_id}"
        return (self._with_zookeeper(values) if self._zookeeper else values) | self._properties

    def _with_zookeeper(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the settings of a broker that uses ZooKeeper instead of KRaft."""
        clients, protocols = str(values["listeners"]), str(values["listener.security.protocol.map"])
        kept = {key: value for key, value in values.items() if not key.startswith(_OF_KRAFT)}
        return kept | {
            "broker.id": self.node_id,
            "zookeeper.connect": self._zookeeper,
            "listeners": clients.rpartition(",CONTROLLER://")[0],
            "listener.security.protocol.map": protocols.partition(",")[2],
        }

    def _prepare(self) -> None:
        file = self.folder / "server.properties"
        file.write_text(properties_text(self.configuration()), encoding="utf-8")
        if self._zookeeper:
            return
        formatted = self.folder / "formatted"
        if not formatted.exists():
            shutil.rmtree(self.folder / "data", ignore_errors=True)
            self._format(file)
            formatted.touch()

    def _format(self, file: Path) -> None:
        """Prepare the data folder with the cluster's id and features, before the first start of the node.

        Caches the features that Kafka's tool writes, for later nodes with the same settings: the tool is an
        additional JVM, and takes a third of the time to a broker's first response.
        """
        kept = self._kept_features()
        if kept is None or not kept.exists():
            self._run_storage_tool(file)
            written = self.folder / "data" / _FEATURES
            if kept is not None and written.exists():  # Kafka 4.3 and later write them elsewhere
                _keep(written, kept)
            return
        data = self.folder / "data"
        data.mkdir()
        shutil.copyfile(kept, data / _FEATURES)
        identity = {"version": 1, "cluster.id": self._cluster_id(), "node.id": self.node_id}
        text = properties_text({**identity, "directory.id": new_cluster_id()})
        (data / "meta.properties").write_text(text, encoding="utf-8")

    def _kept_features(self) -> Path | None:
        """Return the file that caches the features of a cluster with these settings; None if a setting
        contains a folder or an address."""
        settings = properties_text(dict(sorted(self._properties.items())))
        if "/" in settings:
            return None
        identity = f"{len(self._nodes)}\n{settings}\n{self._class_path()}"
        return cache_folder() / "kafka" / hashlib.sha256(identity.encode()).hexdigest()[:32]

    def _run_storage_tool(self, file: Path) -> None:
        command = ["kafka.tools.StorageTool", "format", "-t", self._cluster_id(), "-c", str(file)]
        log = self.folder / "format.log"
        line = self.java_command(["-XX:TieredStopAtLevel=1"], command)
        with ManagedProcess(f"formatting {self.name}", line, log_file=log, grace_seconds=0) as process:
            code = process.wait()
        if code != 0:
            messages = [line for line in tail(log, 40) if not re.match(r"\s", line)][-3:]
            raise ServerDied(f"cannot format the data folder of {self.name}: {' '.join(messages)}")

    def _cluster_id(self) -> str:
        """Return the cluster's id: a UUID in 22 characters that the first node creates and all keep."""
        file = self.folder.parent / "cluster-id"
        draft = file.with_name(f"cluster-id.{self.node_id}")
        draft.write_text(new_cluster_id(), encoding="utf-8")
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
        draft.unlink()
        return file.read_text(encoding="utf-8")

    def _class_path(self) -> str:
        return jar_sets.class_path(self.jvm.jar_set or "kafka")

    def _program(self) -> Sequence[str]:
        return ["kafka.Kafka", str(self.folder / "server.properties")]


def _keep(written: Path, kept: Path) -> None:
    """Copy a file to the cache atomically, because other processes may do the same."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    arriving = kept.with_name(f"{kept.name}.{os.getpid()}.{threading.get_ident()}")
    shutil.copyfile(written, arriving)
    arriving.replace(kept)


def new_cluster_id() -> str:
    """Return 16 random bytes in URL-safe Base64. A leading dash is excluded: it would start an option."""
    while True:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not identity.startswith("-"):
            return identity


class KafkaCluster:
    """A Kafka cluster of any number of nodes, with suitable replication factors."""

    def __init__(
        self,
        name: str,
        folder: Path,
        nodes: Sequence[NodePorts],
        *,
        jvm: Jvm = DEFAULT_JVM,
        properties: Mapping[str, object] | None = None,
        zookeeper: str = "",
    ) -> None:
        """`properties`: override the defaults in server.properties of every node. `zookeeper`: address of a
        ZooKeeper with a path, for releases without KRaft."""
        self.name = name
        self.folder = folder
        self.nodes = tuple(
            KafkaNode(
                name,
                number,
                folder / f"node-{number}",
                nodes,
                jvm=jvm,
                properties=properties,
                zookeeper=zookeeper,
            )
            for number in range(1, len(nodes) + 1)
        )

    @property
    def address(self) -> str:
        """Bootstrap servers: comma-separated addresses of all nodes."""
        return ",".join(node.address for node in self.nodes)

    def address_of(self, listener: str) -> str:
        """Return the bootstrap servers of an additional listener."""
        return ",".join(node.address_of(listener) for node in self.nodes)

    def is_alive(self) -> bool:
        """Return whether the processes of all nodes run."""
        return all(node.is_alive() for node in self.nodes)

    def start(self, cancelled: threading.Event | None = None) -> None:
        """Start all nodes concurrently. If a node fails, kill all nodes and raise its error."""
        with ExitStack() as undo:
            undo.callback(self.kill)
            for_each(self.nodes, KafkaNode.launch)
            for_each(self.nodes, lambda node: node.wait_until_ready(cancelled=cancelled))
            undo.pop_all()

    def stop(self) -> None:
        """Stop all nodes cleanly. Idempotent."""
        for_each(self.nodes, KafkaNode.stop)

    def kill(self) -> None:
        """Send SIGKILL to all nodes. Idempotent."""
        for_each(self.nodes, KafkaNode.kill)

    def wipe(self) -> None:
        """Remove all data and logs; the nodes must not run."""
        for node in self.nodes:
            node.wipe()
        shutil.rmtree(self.folder, ignore_errors=True)
