"""Both fleets with their servers: two brokers, ZooKeeper, Pinot, the sampler and the Spark job."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.evaluation.fleets import KINDS, Fleet
from bench.evaluation.rates import TASK_BYTES_PER_SECOND, TOPICS, UTILISATION_PERCENT
from bench.mirror.rig.clusters import Pair, clusters
from stack.jars.spark import job_environment
from stack.pinot import PinotPorts, PinotServer
from stack.ports import free_ports
from stack.process.managed_process import ManagedProcess
from stack.server import Jvm
from stack.zookeeper import ZooKeeperServer
from tests.kafka_data import make_topic
from tests.metrics_data import apply_tables

REPLAN_SECONDS: Final = 5
SCALE_IN_SECONDS: Final = 60
"""One wave of 450 s represents a day, so a replan every ten minutes would be one every three seconds here."""
_SETTINGS: Final = """
[clusters.source]
bootstrap_servers = "{source}"
[clusters.destination]
bootstrap_servers = "{destination}"
[zookeeper]
servers = "{zookeeper}"
[mirror.worker]
processes = 1
metrics_interval_seconds = 1.0
task_bytes_per_second_limit = {limit}
[mirror.leader]
task_capacity_bytes_per_second = {limit}
task_utilisation_percent = {percent}
replan_interval_seconds = {replan}
scale_in_after_hours = {scale_in}
[pinot]
controller = "{controller}"
broker = "{broker}"
[pmp.clusters.source]
sampled_by = "sampler"
[pmp.sampler]
interval_seconds = 2.0
[pmp.job]
checkpoint_folder = "{folder}/checkpoint"
quick_start = true
[pmp.rollup]
enabled = false
[pmp.provider]
window_seconds = 15.0
refresh_seconds = 1.0
[monitor]
enabled = false
[logging]
format = "json"
"""


@dataclass(frozen=True)
class Site:
    """Running servers, fleets and commands of an evaluation."""

    source_address: str
    pinot: PinotServer
    fleets: Sequence[Fleet]
    commands: Sequence[ManagedProcess]

    def require_alive(self) -> None:
        """Raise RuntimeError with the tail of its log if a command has exited."""
        for command in self.commands:
            if not command.is_alive():
                raise RuntimeError(f"{command.name} exited: {command.log_file.read_text()[-2000:]}")


@contextmanager
def site() -> Iterator[Site]:
    """Run servers and fleets; stop them and delete their data with the context. Datastreams are not created
    yet."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pair = stack.enter_context(clusters(quick_start=True))
        zookeeper = ZooKeeperServer("zookeeper", folder / "zookeeper", free_ports(1)[0])
        zookeeper.start()
        stack.callback(zookeeper.kill)
        pinot = PinotServer("pinot", folder / "pinot", PinotPorts.free(), jvm=Jvm(heap_mib=768))
        pinot.start()
        stack.callback(pinot.kill)
        apply_tables(pinot, pair.target.address)
        for name, topic in TOPICS.items():
            make_topic(pair.source.address, name, topic.partitions)
        config = folder / "headrace.toml"
        config.write_text(_settings(pair, zookeeper, pinot, folder))
        commands = [
            _held(stack, config, folder, "pmp", "sampler", "--cluster", "source"),
            _held(stack, config, folder, "pmp", "run"),
        ]
        fleets = [Fleet(kind) for kind in KINDS]
        for fleet in fleets:
            stack.callback(fleet.stop)
            fleet.start(config, folder)
        yield Site(pair.source.address, pinot, fleets, commands)


def _settings(pair: Pair, zookeeper: ZooKeeperServer, pinot: PinotServer, folder: Path) -> str:
    return _SETTINGS.format(
        source=pair.source.address,
        destination=pair.target.address,
        zookeeper=zookeeper.address,
        controller=pinot.controller_address,
        broker=pinot.broker_address,
        folder=folder,
        limit=TASK_BYTES_PER_SECOND,
        percent=UTILISATION_PERCENT,
        replan=float(REPLAN_SECONDS),
        scale_in=SCALE_IN_SECONDS / 3_600,
    )


def _held(stack: ExitStack, config: Path, folder: Path, *arguments: str) -> ManagedProcess:
    name = "-".join(arguments[:2])
    command = [sys.executable, "-m", "headrace", *arguments]
    environment = {"HEADRACE_CONFIG": str(config), **(job_environment() if name == "pmp-run" else {})}
    process = ManagedProcess(name, command, environment, folder / f"{name}.log", grace_seconds=60)
    process.start()
    stack.callback(process.stop)
    return process
