"""`headrace copy` and related commands as an operator runs them, between the shared clusters."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.kafka_data import Record, admin_client
from tests.patience import PATIENCE_SECONDS
from tests.servers import KafkaPair

NOW: Final = int(time.time() * 1000)


class Clusters:
    """Runner of commands between the shared clusters, on topics of one prefix."""

    def __init__(self, pair: KafkaPair, folder: Path) -> None:
        self.source, self.destination = pair.source.address, pair.destination.address
        self.prefix = f"cp{uuid4().hex[:6]}"
        self._report = folder / "report.json"

    def command(self, name: str, *options: str) -> list[str]:
        """Return the command line for the topics of the prefix."""
        sides = ["--source", self.source, "--destination", self.destination]
        chosen = ["--topics", f"{self.prefix}-.*", "--rename", "copy.*", "--json"]
        return [sys.executable, "-m", "headrace", name, *sides, *chosen, *options]

    def run(self, command: str, *options: str) -> tuple[int, dict[str, Any], str]:
        """Run a command; return its exit status, the JSON document, and stderr."""
        done = subprocess.run(
            self.command(command, *options),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    def copy(self, *options: str) -> dict[str, Any]:
        """Run a copy to its end and return its report."""
        code, document, told = self.run("copy", "--until-end", "--report", str(self._report), *options)
        assert code == 0, told
        assert json.loads(self._report.read_text()) == document
        return document


def records(count: int, partitions: int) -> list[Record]:
    """Return records with keys, spread over the partitions in turn."""
    return [Record(n % partitions, b"k%d" % n, b"value %d" % n, (), NOW + n) for n in range(count)]


def change(address: str, topic: str, name: str, value: str) -> None:
    """Change one setting of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_client(address)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_SECONDS)
