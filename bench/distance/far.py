"""A distant cluster: a process in the other network namespace, which fills topics without using the network
link.

`python -m bench.distance.far OPTIONS` starts the cluster, prints its address and the process id of its
broker, then fills a topic for every line of its input, until the input ends. All lines are JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.distance.link import FAR_HOST, Namespaces
from bench.mirror.rig.data import Shape, SourceTopic, write_topic
from mirror.protocol.batches.compression import Codec
from stack.kafka import KafkaCluster, NodePorts
from stack.ports import LOOPBACK, free_ports
from stack.server import Jvm

_HEAP_MIB = 512
_REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class FarNode:
    """Broker at the far end of the link: process id, and folder of its files."""

    pid: int
    folder: Path


class FarCluster:
    """The cluster at the far end of the link, as seen from the near end."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process
        started = self._answer()
        self.address: str = started["address"]
        self.nodes = (FarNode(started["pid"], Path(started["folder"])),)

    def write_topic(self, shape: Shape) -> SourceTopic:
        """Create the topic `bench-<shape>` on the distant cluster, and fill it there."""
        assert self._process.stdin is not None
        print(json.dumps({**asdict(shape), "codec": shape.codec.name}), file=self._process.stdin, flush=True)
        return SourceTopic(**{**self._answer(), "shape": shape})

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process at the far end has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def far_cluster(
    namespaces: Namespaces, name: str, folder: Path, properties: Mapping[str, object]
) -> Iterator[FarCluster]:
    """Run a cluster of one broker at the far end of the link, which must be up."""
    options = json.dumps({"name": name, "folder": str(folder), "properties": dict(properties)})
    command = namespaces.far_command(sys.executable, "-m", "bench.distance.far", options)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY
    ) as process:
        try:
            yield FarCluster(name, process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def broker(name: str, folder: Path, properties: Mapping[str, object]) -> tuple[KafkaCluster, str]:
    """Return a cluster that also listens at the far end of the link, and its address there."""
    ports = NodePorts.free()
    (port,) = free_ports(1)
    clients = f"PLAINTEXT://{LOOPBACK}:{ports.broker},LINK://{FAR_HOST}:{port}"
    listeners = {
        "listeners": f"{clients},CONTROLLER://{LOOPBACK}:{ports.controller}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LINK:PLAINTEXT",
    }
    cluster = KafkaCluster(
        name, folder, [ports], jvm=Jvm(heap_mib=_HEAP_MIB), properties={**properties, **listeners}
    )
    return cluster, f"{FAR_HOST}:{port}"


def main() -> None:
    """Run the cluster until the input ends."""
    options = json.loads(sys.argv[1])
    cluster, address = broker(options["name"], Path(options["folder"]), options["properties"])
    cluster.start()
    try:
        node = cluster.nodes[0]
        print(json.dumps({"address": address, "pid": node.pid, "folder": str(node.folder)}), flush=True)
        for line in sys.stdin:
            values = json.loads(line)
            topic = write_topic(cluster, Shape(**{**values, "codec": Codec[values["codec"]]}))
            print(json.dumps({**asdict(topic), "shape": None}), flush=True)
    finally:
        cluster.kill()


if __name__ == "__main__":
    main()
