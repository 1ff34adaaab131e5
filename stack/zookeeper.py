"""Runs ZooKeeper from the jars inside the PySpark wheel: one server, or an ensemble."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import readiness
from stack.jars import ivy
from stack.ports import LOOPBACK, free_ports
from stack.process.parallel import for_each
from stack.server import Jvm, Server, properties_text

DEFAULT_JVM: Final = Jvm(heap_mib=128, quick_start=True)
_JARS: Final = (
    *("zookeeper-[0-9]*.jar", "zookeeper-jute-*.jar", "audience-annotations-*.jar", "commons-cli-*.jar"),
    *("commons-io-*.jar", "jackson-*.jar", "metrics-core-*.jar", "snappy-java-*.jar"),
    *("netty-buffer-*.jar", "netty-codec-[0-9]*.jar", "netty-common-*.jar", "netty-handler-[0-9]*.jar"),
    *("netty-resolver-[0-9]*.jar", "netty-transport-*.jar"),
    *(
        "slf4j-api-*.jar",
        "log4j-api-*.jar",
        "log4j-core-*.jar",
        "log4j-slf4j2-impl-*.jar",
        "javax.servlet-api-*.jar",
    ),
)


@dataclass(frozen=True)
class Member:
    """Ports of one server of an ensemble; a standalone server needs only the client port."""

    client: int
    quorum: int = 0
    election: int = 0


class ZooKeeperServer(Server):
    """One ZooKeeper server, standalone or as a member of an ensemble."""

    def __init__(
        self,
        name: str,
        folder: Path,
        port: int,
        *,
        members: Sequence[Member] = (),
        jvm: Jvm = DEFAULT_JVM,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """`members`: the whole ensemble including this server; empty for standalone.

        `settings`: keys of zoo.cfg.
        """
        super().__init__(name, folder, jvm)
        self.port = port
        self.members = tuple(members)
        self._settings = dict(settings or {})

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def role(self) -> str:
        """`standalone`, `leader` or `follower`; "" if the server does not serve sessions."""
        return readiness.zookeeper_role(self.port)

    def ports(self) -> Mapping[str, int]:
        found = {"clients": self.port}
        for member in self.members:
            if member.client == self.port:
                found |= {"quorum": member.quorum, "election": member.election}
        return found

    @property
    def sessions(self) -> int:
        """Number of sessions that use this server."""
        return readiness.zookeeper_sessions(self.port)

    def lacks(self) -> str:
        return readiness.zookeeper(self.port)

    def configuration(self) -> dict[str, object]:
        """Return the content of zoo.cfg. Ticks of 0.5 s let sessions of 1 s and more expire on time."""
        values: dict[str, object] = {
            "dataDir": self.folder / "data",
            "clientPort": self.port,
            "clientPortAddress": LOOPBACK,
            "tickTime": 500,
            "initLimit": 40,
            "syncLimit": 20,
            "minSessionTimeout": 1000,
            "maxSessionTimeout": 120_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "autopurge.purgeInterval": 1,
        }
        for number, member in enumerate(self.members, start=1):
            values[f"server.{number}"] = f"{LOOPBACK}:{member.quorum}:{member.election}"
        return values | self._settings

    def _prepare(self) -> None:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        for number, member in enumerate(self.members, start=1):
            if member.client == self.port:
                (data / "myid").write_text(f"{number}\n", encoding="utf-8")
        (self.folder / "zoo.cfg").write_text(properties_text(self.configuration()), encoding="utf-8")

    def _class_path(self) -> str:
        jars = [str(jar) for pattern in _JARS for jar in sorted(ivy.pyspark_jars().glob(pattern))]
        return os.pathsep.join(jars)

    def _options(self) -> Sequence[str]:
        return [
            *("-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.preAllocSize=1024"),
            "-Dzookeeper.forceSync=no",
        ]

    def _program(self) -> Sequence[str]:
        return ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg")]


class ZooKeeperEnsemble:
    """Several ZooKeeper servers that elect a leader among themselves."""

    def __init__(self, name: str, folder: Path, size: int = 3, *, jvm: Jvm = DEFAULT_JVM) -> None:
        free = free_ports(3 * size)
        members = [Member(*free[number : number + 3]) for number in range(0, 3 * size, 3)]
        self.servers = tuple(
            ZooKeeperServer(f"{name}-{number}", folder / str(number), member.client, members=members, jvm=jvm)
            for number, member in enumerate(members, start=1)
        )

    @property
    def address(self) -> str:
        """Comma-separated addresses of all servers."""
        return ",".join(server.address for server in self.servers)

    @property
    def leader(self) -> ZooKeeperServer | None:
        """The current leader, None if there is none."""
        return next((server for server in self.servers if server.role == "leader"), None)

    def start(self, cancelled: threading.Event | None = None) -> None:
        """Start all servers concurrently; raises the errors of a server's start."""
        for server in self.servers:
            server.launch()
        for_each(self.servers, lambda server: server.wait_until_ready(cancelled=cancelled))

    def stop(self) -> None:
        """Stop all servers. Idempotent."""
        for_each(self.servers, ZooKeeperServer.stop)

    def kill(self) -> None:
        """Kill all servers. Idempotent."""
        for_each(self.servers, ZooKeeperServer.kill)
