"""A whole service between two fake clusters that form a pair, east and west."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from headrace.__main__ import app
from mirror.jobs.dr.operation import Step
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.contents import Seen, committed
from tests.patience import wait_until
from tests.running import RunningInstance

TOPIC: Final = "orders"
PARTITIONS: Final = 2


@dataclass
class Site:
    """Two clusters, east and west, and a service that copies the topic from east to west."""

    east: FakeCluster
    west: FakeCluster
    instance: RunningInstance

    def run(self, *words: str, code: int = 0) -> Any:
        """Run a command; return its document."""
        arguments = [*words, "--at", self.instance.address, "--json"]
        result = CliRunner().invoke(app, arguments, env=dict(self.instance.environment))
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if result.stdout else None

    def is_ready(self) -> bool:
        """Return whether a switch-over may begin."""
        arguments = ["dr", "check", "pair", "--at", self.instance.address, "--json"]
        result = CliRunner().invoke(app, arguments, env=dict(self.instance.environment))
        return bool(json.loads(result.stdout)["ready"])

    def records(self, cluster: FakeCluster) -> list[Seen]:
        """Return the committed records of all partitions, in order per partition."""
        with cluster.lock:
            found = [committed(cluster.log(TOPIC, number)) for number in range(PARTITIONS)]
        return [one for records in found for one in records]

    def values(self, cluster: FakeCluster) -> list[bytes]:
        """Return the values of all records, sorted."""
        return sorted(one.value or b"" for one in self.records(cluster))


@contextmanager
def pair_site(folder: Path) -> Iterator[Site]:
    """Start the clusters and the service, and wait until the pair is ready."""
    east, west = FakeCluster("east"), FakeCluster("west")
    east.has_authorizer = west.has_authorizer = True
    for cluster in (east, west):
        cluster.create_topic(TOPIC, PARTITIONS)
    with running(east), running(west):
        settings = {
            "CLUSTERS__EAST__BOOTSTRAP_SERVERS": east.address,
            "CLUSTERS__WEST__BOOTSTRAP_SERVERS": west.address,
            "MIRROR__STATE_DIRECTORY": str(folder / "state"),
            "MIRROR__WORKER__PROCESSES": "1",
            "MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "0.5",
            "DR__PAIR__PRIMARY": "east",
            "DR__PAIR__STANDBY": "west",
            "DR__PAIR__DATASTREAMS": '["over"]',
            "DR__PAIR__GROUPS": "billing",
            "DR__PAIR__PRINCIPALS": '["User:app"]',
            "DR__PAIR__STILL_SECONDS": "1",
            "MIRROR__DESTINATION_CLUSTER": "west",
            "MIRROR__METRICS_CLUSTER": "west",
        }
        environment = {f"HEADRACE_{key}": value for key, value in settings.items()}
        instance = RunningInstance("one", folder, environment)
        try:
            found = Site(east, west, instance.start())
            ways = ("--source", "east", "--destination", "west", "--topics", f"{TOPIC}.*", "--owner", "tests")
            found.run("datastream", "create", "over", *ways, "--groups", "billing")
            wait_until(found.is_ready, "the pair is ready")
            yield found
        finally:
            instance.stop()


def kill_at(instance: RunningInstance, step: Step, *words: str) -> None:
    """Run a command in another process, and kill the process when the command begins a step."""
    command = [sys.executable, "-m", "headrace", *words, "--at", instance.address]
    environment = {**os.environ, **instance.environment}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process:
        seen = []
        for line in process.stderr:
            seen.append(line)
            if step.value in line.split():
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL, "".join(seen)
