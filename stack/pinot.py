"""Pinot 0.11 in one JVM: its own ZooKeeper, controller, broker and server, started by `pinot.groovy`.

Pinot is stopped by SIGKILL, because a clean stop takes half a minute, and SIGKILL loses no data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import readiness
from stack.jars import jar_sets
from stack.ports import LOOPBACK, free_ports
from stack.server import Jvm, Server, properties_text

DEFAULT_JVM: Final = Jvm(heap_mib=512)
_SCRIPT: Final = Path(__file__).with_name("pinot.groovy")
_CLUSTER: Final = "headrace"
_SESSION_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True)
class PinotPorts:
    """Ports of Pinot, all on loopback."""

    controller: int
    broker: int
    server: int
    """Port for brokers. Pinot has no setting to bind this port to loopback; `pinot.groovy` binds it."""
    admin: int
    zookeeper: int

    @staticmethod
    def free() -> PinotPorts:
        """Return free ports."""
        return PinotPorts(*free_ports(5))


class PinotServer(Server):
    """All Pinot roles in one process."""

    grace_seconds = 0.0
    log_level = "warn"

    def __init__(self, name: str, folder: Path, ports: PinotPorts, *, jvm: Jvm = DEFAULT_JVM) -> None:
        super().__init__(name, folder, jvm)
        self._ports = ports

    @property
    def address(self) -> str:
        """Address of the broker, for queries."""
        return self.broker_address

    @property
    def broker_address(self) -> str:
        """Address of the broker, for queries: `host:port`."""
        return f"{LOOPBACK}:{self._ports.broker}"

    @property
    def controller_address(self) -> str:
        """Address of the controller, which creates tables and schemas: `host:port`."""
        return f"{LOOPBACK}:{self._ports.controller}"

    def ports(self) -> Mapping[str, int]:
        return {
            "controller": self._ports.controller,
            "broker": self._ports.broker,
            "server": self._ports.server,
            "server's admin": self._ports.admin,
            "Pinot's ZooKeeper": self._ports.zookeeper,
        }

    def lacks(self) -> str:
        roles = {
            "Pinot's controller": self._ports.controller,
            "Pinot's broker": self._ports.broker,
            "Pinot's server": self._ports.admin,
        }
        answers = (readiness.http_health(port, role) for role, port in roles.items())
        return next(filter(None, answers), "")

    def configuration(self) -> dict[str, dict[str, object]]:
        """Map the name of each configuration file to its text. The `access.protocols` keys restrict listeners
        to loopback."""
        return {
            "zoo.cfg": self._zookeeper(),
            "controller.conf": self._controller() | self._shared(),
            "broker.conf": self._broker() | self._shared(),
            "server.conf": self._server() | self._shared(),
        }

    def _shared(self) -> dict[str, object]:
        return {
            "pinot.cluster.name": _CLUSTER,
            "pinot.zk.server": f"{LOOPBACK}:{self._ports.zookeeper}",
        }

    def _zookeeper(self) -> dict[str, object]:
        return {
            "dataDir": self.folder / "zookeeper",
            "clientPort": self._ports.zookeeper,
            "clientPortAddress": LOOPBACK,
            "tickTime": 2000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
        }

    def _controller(self) -> dict[str, object]:
        return {
            "pinot.service.role": "CONTROLLER",
            "controller.helix.cluster.name": _CLUSTER,
            "controller.zk.str": f"{LOOPBACK}:{self._ports.zookeeper}",
            "controller.host": LOOPBACK,
            "controller.vip.host": LOOPBACK,
            "controller.vip.port": self._ports.controller,
            **_http("controller.access.protocols", self._ports.controller),
            "controller.data.dir": (
                self.folder / "controller"
            ).as_uri(),  # it cannot read a path that contains a space
            "controller.local.temp.dir": self.folder / "controller.tmp",
            # Repairs a partition whose commit was interrupted by a kill; otherwise it stalls for an hour.
            "controller.realtime.segment.validation.frequencyPeriod": "1m",
            "controller.realtime.segment.validation.initialDelayInSeconds": 30,
            "controller.retention.frequencyPeriod": "10m",
            "controller.task.scheduler.enabled": "false",
        }

    def _broker(self) -> dict[str, object]:
        return {
            "pinot.service.role": "BROKER",
            "pinot.broker.hostname": LOOPBACK,
            **_http("pinot.broker.client.access.protocols", self._ports.broker),
            "pinot.broker.delayShutdownTimeMs": 0,
        }

    def _server(self) -> dict[str, object]:
        return {
            "pinot.service.role": "SERVER",
            "pinot.server.netty.host": LOOPBACK,
            "pinot.server.netty.port": self._ports.server,
            **_http("pinot.server.adminapi.access.protocols", self._ports.admin),
            "pinot.server.grpc.enable": "false",
            "pinot.server.instance.dataDir": self.folder / "server" / "index",
            "pinot.server.instance.segmentTarDir": self.folder / "server" / "tar",
            "pinot.server.shutdown.enableQueryCheck": "false",
        }

    def _prepare(self) -> None:
        for name, values in self.configuration().items():
            (self.folder / name).write_text(properties_text(values), encoding="utf-8")

    def _class_path(self) -> str:
        return jar_sets.class_path("pinot")

    def _options(self) -> Sequence[str]:
        return [
            *(f"-Dzk.session.timeout={_SESSION_TIMEOUT_MS}", f"-Dplugins.dir={self.folder / 'no-plugins'}"),
            *("-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.admin.enableServer=false"),
            *("-Dzookeeper.preAllocSize=1024", "-Dzookeeper.forceSync=no"),
        ]

    def _program(self) -> Sequence[str]:
        files = [str(self.folder / name) for name in ("controller.conf", "broker.conf", "server.conf")]
        zookeeper = (str(self.folder / "zoo.cfg"), str(self._ports.zookeeper))
        return ["groovy.ui.GroovyMain", str(_SCRIPT), *zookeeper, *files]


def _http(prefix: str, port: int) -> dict[str, object]:
    return {prefix: "http", f"{prefix}.http.host": LOOPBACK, f"{prefix}.http.port": port}
