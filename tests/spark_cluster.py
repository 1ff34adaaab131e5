"""A standalone Spark cluster from the pyspark wheel, started by the commands of its page in the docs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx
import psutil

from stack.ports import LOOPBACK, free_ports
from stack.process.managed_process import ManagedProcess
from tests.documented import ROOT, blocks_of
from tests.patience import wait_until

PAGE: Final = ROOT / "docs" / "metrics-provider" / "spark-cluster.md"
COMMAND_OF: Final = {
    "master": "spark-class org.apache.spark.deploy.master.Master",
    "worker": "spark-class org.apache.spark.deploy.worker.Worker",
    "driver": "deploy/spark/submit.sh",
}
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_HOST: Final = re.compile(r"\b10\.0\.0\.\d+\b")


def documented(role: str) -> str:
    """Return the lines of the page for a process: its exports, then its command."""
    exports: list[str] = []
    for line in blocks_of(PAGE.read_text(encoding="utf-8")):
        if line.startswith("export "):
            exports.append(line)
        elif line.startswith(COMMAND_OF[role]):
            return "\n".join([*exports, f"exec {line}"])
        elif line.startswith(tuple(COMMAND_OF.values())):
            exports.clear()
    raise AssertionError(f"no command for the {role} in {PAGE}")


class SparkCluster:
    """A master and two workers on loopback, each of which a test may kill and start again."""

    def __init__(self, folder: Path, variables: Mapping[str, str], *, recovers: bool = True) -> None:
        """`variables`: environment of every process. `recovers`: the master keeps its state."""
        self.port, self._page = free_ports(2)
        self._folder = folder
        commands = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        ours = {"PATH": commands, "PYTHONPATH": str(ROOT), "SPARK_DAEMON_MEMORY": "256m"}
        self.variables = {**variables, **ours}
        state = {} if recovers else {"=FILESYSTEM": "=NONE"}
        self.master = self.process("master", "master", state, SPARK_MASTER_WEBUI_PORT=str(self._page))
        self.workers = [
            self.process(
                f"worker-{number}",
                "worker",
                SPARK_WORKER_WEBUI_PORT=str(page),
                SPARK_WORKER_DIR=str(folder / f"work-{number}"),
            )
            for number, page in enumerate(free_ports(2))
        ]

    def process(
        self, name: str, role: str, replaced: Mapping[str, str] | None = None, **more: str
    ) -> ManagedProcess:
        """Return a process with the documented command of a role, whose addresses and folders are ours.

        `replaced`: further texts of the command to replace.
        """
        script = _HOST.sub(LOOPBACK, documented(role))
        ours = {"7077": str(self.port), "/var/lib/spark": str(self._folder / "recovery")}
        for text, mine in {**ours, **(replaced or {})}.items():
            script = script.replace(text, mine)
        command = ["bash", "-c", script]
        log = self._folder / f"{name}.log"
        return ManagedProcess(
            name, command, {**self.variables, **more}, log, directory=ROOT, grace_seconds=30
        )

    def start(self) -> None:
        """Start the master and its workers, and wait until they are registered."""
        for process in (self.master, *self.workers):
            process.start()
        wait_until(lambda: self.state("aliveworkers") == len(self.workers), "a master with its workers")

    def state(self, key: str) -> object:
        """Return a value of the master's page; None while it does not respond."""
        return master_state(self._page, key)

    def executors(self) -> list[psutil.Process]:
        """Return the executors' processes."""
        return [
            child
            for worker in self.workers
            if worker.is_alive()
            for child in psutil.Process(worker.pid).children(recursive=True)
            if any(_EXECUTOR in word for word in _words(child))
        ]

    def stop(self) -> None:
        """Kill every process."""
        for process in (*self.workers, self.master):
            process.kill()


def master_state(page: int, key: str) -> object:
    """Return a value of the master's page, which listens on this port; None while it does not respond."""
    try:
        answer = httpx.get(f"http://{LOOPBACK}:{page}/json/")
    except httpx.TransportError:
        return None
    return answer.json()[key] if answer.is_success else None


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
