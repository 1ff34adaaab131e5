"""Processes of the demonstration, which end with their parent unless they are left running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from headrace.console.client import RestClient
from headrace_dev.demo.kept import end_released, remember
from headrace_dev.demo.preparation import DemoPreparation
from headrace_dev.demo.scenario import INSTANCES, KEPT, TOPICS, Rates, settings_text
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import HeadraceError
from mirror.model.topics import TopicDescription
from mirror.settings import KafkaCluster
from stack.errors import ServerDied
from stack.jars.spark import job_environment
from stack.ports import StackPorts, require_free
from stack.process.managed_process import ManagedProcess
from stack.process.records import ProcessRecord
from stack.process.wait import wait_until
from stack.server import log_shown
from stack.supervisor import Lifetime, Stack

FIRST_REST_PORT = 32311
SERVERS: Final = ("source", "destination", "pinot")
"""The instances share a store on Kafka, so ZooKeeper is not needed."""
_PATIENCE_SECONDS: Final = 180.0
"""Time for a process to respond or to exit, on a machine that starts all servers at once."""


class DemoProcesses:
    """The servers, the instances, the traffic and the measurement pipeline."""

    def __init__(self, home: Path, port_offset: int, report: Callable[[str], None]) -> None:
        self.home = home
        self.ports = StackPorts().shifted(port_offset)
        self._offset = port_offset
        self._report = report
        self.stack = Stack(home / "stack", self.ports, lifetime=Lifetime.RELEASABLE, report=report)
        self.addresses = asdict(self.stack.addresses())
        self.settings_file = home / "headrace.toml"
        self.processes: dict[str, ManagedProcess] = {}
        self._traffic: subprocess.Popen[str] | None = None
        self._preparation = DemoPreparation(home, report)

    def start_stack(self) -> None:
        """Start the servers with empty data. Raises errors of the stack."""
        if ended := end_released(self.home):
            self._report(f"stopped processes of an earlier demonstration: {', '.join(ended)}")
        ports = {name: self.rest_port(name) for name in INSTANCES}
        require_free("the demonstration", ports, "stop that process, or move all ports with --port-offset")
        for leftover in ("pmp-checkpoint", "running"):
            shutil.rmtree(self.home / leftover, ignore_errors=True)
        self.home.mkdir(parents=True, exist_ok=True)
        self._preparation.begin()
        self.stack.up(SERVERS, fresh=True)
        self.settings_file.write_text(settings_text(self.addresses))

    def make_topics(self) -> None:
        """Create the source topics of the demonstration."""
        admin = KafkaAdmin(KafkaCluster(bootstrap_servers=self.addresses["source"]))
        for name, partitions in TOPICS.items():
            admin.create(TopicDescription(name, partitions, settings=KEPT))

    def start_pipeline(self) -> None:
        """Create Pinot's tables and start the Spark job, which loads the sampler's measurements into them."""
        self.run_command("pinot", "apply")
        self._hold("spark-job", "pmp", "run", **job_environment(self._report))

    def start_sampler(self) -> None:
        """Start the sampler, which measures the loads of partitions."""
        self._hold("sampler", "pmp", "sampler", "--cluster", "source")

    def start_instances(self) -> None:
        """Start all instances of Headrace in parallel, after a running compilation has finished."""
        self._preparation.finish_compiling()
        for name in INSTANCES:
            self.start_instance(name)
        self._await_instances()

    def start_instance(self, name: str) -> None:
        """Start an instance of Headrace on its REST port."""
        port = str(self.rest_port(name))
        self._hold(name, "serve", "--port", port, HEADRACE_MIRROR__INSTANCE_NAME=name)

    def start_traffic(self, rates: Rates) -> None:
        """Start to write to the source topics, until the demonstration ends."""
        self._require_absent("traffic")
        arguments = [sys.executable, "-m", "stack.traffic", self.addresses["source"]]
        self._traffic = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.home / "traffic.log").open("w"),
            text=True,
            start_new_session=True,
        )
        self.set_traffic(rates)

    def set_traffic(self, rates: Rates) -> None:
        """Change the rates at which records are written."""
        assert self._traffic is not None
        assert self._traffic.stdin is not None
        self._traffic.stdin.write(json.dumps(rates) + "\n")
        self._traffic.stdin.flush()

    def stop_traffic(self) -> int:
        """Stop writing and return the number of records written. Raises HeadraceError if writes failed."""
        assert self._traffic is not None
        output, _ = self._traffic.communicate(timeout=_PATIENCE_SECONDS)
        if self._traffic.returncode != 0:
            raise HeadraceError(f"cannot write the traffic; see {self.home / 'traffic.log'}")
        return int(output)

    def go_on(self, rates: Rates) -> None:
        """Prepare to leave all processes running: start all instances, and traffic that ends with the other
        processes. Raises HeadraceError if an instance does not start."""
        self._start(
            "traffic",
            [sys.executable, "-m", "stack.traffic", self.addresses["source"], json.dumps(rates)],
            {},
        )
        for name in INSTANCES:
            if name not in self.processes:
                self.start_instance(name)
        self._await_instances()

    def kill_instance(self, name: str) -> None:
        """Send SIGKILL to an instance and its workers."""
        self.processes.pop(name).kill()

    def rest_port(self, name: str) -> int:
        """Return the REST port of an instance."""
        return FIRST_REST_PORT + self._offset + INSTANCES.index(name)

    def rest_address(self, name: str) -> str:
        """Return the REST address of an instance as `host:port`."""
        return f"127.0.0.1:{self.rest_port(name)}"

    def client(self, name: str) -> RestClient:
        """Return a REST client of an instance."""
        return RestClient(self.rest_address(name))

    def run_command(self, *arguments: str) -> str:
        """Run a `headrace` command and return its output. Raises HeadraceError with the end of the command's
        stderr."""
        command = [sys.executable, "-m", "headrace", *arguments, "--config", str(self.settings_file)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.home, check=False)
        if done.returncode != 0:
            raise HeadraceError(f"headrace {' '.join(arguments)} failed: {done.stderr.strip()[-500:]}")
        return done.stdout

    def require_alive(self) -> None:
        """Raise HeadraceError if a process has exited unexpectedly."""
        for name, process in self.processes.items():
            if not process.is_alive():
                raise HeadraceError(f"{name} has exited", advice=log_shown(process.log_file))

    def release(self) -> list[str]:
        """Leave all processes running after this one exits, until `headrace-dev demo --stop`. Return the
        names of the processes. Processes that have already exited, for example after a failure, are reported
        and omitted."""
        kept = []
        for name, process in self.processes.items():
            try:
                address = self.rest_address(name) if name in INSTANCES else ""
                remember(self.home, ProcessRecord.of(name, process.release(), address))
            except ServerDied as error:
                process.stop()
                self._report(str(error))
            else:
                kept.append(name)
        self.processes.clear()
        return [*self.stack.release(), *kept]

    def stop(self) -> None:
        """Terminate all processes that are not left running, the servers last."""
        self._preparation.stop()
        if self._traffic is not None and self._traffic.poll() is None:
            os.killpg(self._traffic.pid, signal.SIGKILL)
            self._traffic.wait()
        for process in reversed(self.processes.values()):
            process.signal(signal.SIGTERM)
        for process in reversed(self.processes.values()):
            process.stop(5)
        self.processes.clear()
        self.stack.__exit__()

    def _hold(self, name: str, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-m", "headrace", *arguments, "--config", str(self.settings_file)]
        self._start(name, command, environment)

    def _start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        self._require_absent(name)
        log_file = self.home / f"{name}.log"
        log_file.unlink(missing_ok=True)
        process = ManagedProcess(name, command, _environment(environment), log_file, directory=self.home)
        self.processes[name] = process.start(releasable=True)

    def _require_absent(self, name: str) -> None:
        assert name not in self.processes, f"{name} is already running"

    def _await_instances(self) -> None:
        """Wait until all instances respond. Raises HeadraceError if a process has exited, and NotInTime if an
        instance does not respond in time."""
        for name in INSTANCES:
            wait_until(partial(self._answers, name), _PATIENCE_SECONDS, f"{name} answers")

    def _answers(self, name: str) -> bool:
        self.require_alive()
        client = self.client(name)
        try:
            client.get("/v1/instances")
        except HeadraceError:
            return False
        finally:
            client.close()
        return True


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a process."""
    return {**more, "PYTHONUNBUFFERED": "1"}
