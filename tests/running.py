"""Real instances of the service for tests, which end with the test process in any case."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import httpx

from headrace.console.client import RestClient, tls_context
from stack.ports import StackPorts, reserve
from stack.process.managed_process import ManagedProcess
from tests.patience import PATIENCE_SECONDS, wait_until

QUICK_JAVA: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Environment for commands with short-lived servers: halves the CPU time of their start, see `Jvm`."""


class RunningInstance:
    """One `headrace serve` process and a client of its REST interface."""

    def __init__(
        self, name: str, folder: Path, environment: Mapping[str, str], python: str = sys.executable
    ) -> None:
        self.name = name
        self.environment = environment
        self.log_file = folder / f"{name}.log"
        self._address_file = folder / f"{name}.address"
        self._rest: RestClient | None = None
        self._process = ManagedProcess(
            name,
            [
                python,
                "-m",
                "headrace",
                "serve",
                "--port",
                "0",
                "--address-file",
                str(self._address_file),
            ],
            {**environment, "HEADRACE_MIRROR__INSTANCE_NAME": name, "HEADRACE_LOGGING__FORMAT": "json"},
            self.log_file,
            grace_seconds=30,
        )

    def start(self) -> RunningInstance:
        """Start or restart, and wait until REST responds; the address changes each time."""
        self.launch()
        wait_until(self._is_serving, f"{self.name} listens; log: {self.log_file}")
        return self

    def launch(self) -> None:
        """Start or restart without waiting."""
        self._forget_client()
        self._address_file.unlink(missing_ok=True)
        self._process.start()

    @property
    def address(self) -> str:
        """REST address `host:port`; empty until it listens."""
        return self._address_file.read_text() if self._address_file.exists() else ""

    @property
    def rest(self) -> RestClient:
        """Client of this instance, closed by `stop`."""
        if self._rest is None:
            self._rest = RestClient(self.address)
        return self._rest

    def lanes(self) -> list[dict[str, Any]]:
        """Return the lanes of this instance."""
        found: list[dict[str, Any]] = self.rest.get("/v1/lanes", instance=self.name)["lanes"]
        return found

    def health(self) -> dict[str, Any]:
        """Return the health document, even of an unhealthy instance, for which the client raises an error."""
        url = f"http://{self.address}/v1/health"
        answer: dict[str, Any] = httpx.get(url, timeout=PATIENCE_SECONDS, verify=tls_context()).json()
        return answer

    def is_leading(self) -> bool:
        """Return whether the instance leads."""
        return bool(self.health()["is_leading"])

    @property
    def pid(self) -> int:
        """Process id of the control process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether the control process or a worker is still running."""
        return self._process.is_alive()

    def terminate(self, timeout_seconds: float = PATIENCE_SECONDS) -> int | None:
        """Send SIGTERM to the control process; return its exit status."""
        os.kill(self.pid, signal.SIGTERM)
        return self._process.wait(timeout_seconds)

    def terminate_group(self, timeout_seconds: float = PATIENCE_SECONDS) -> int | None:
        """Send SIGTERM to the control process and its workers, like systemd; return the exit status."""
        self._process.signal(signal.SIGTERM)
        return self._process.wait(timeout_seconds)

    def kill(self) -> None:
        """Send SIGKILL to the control process and its workers."""
        self._process.kill()

    def kill_control_process(self) -> None:
        """Send SIGKILL to the control process only."""
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Stop the instance in any state."""
        self._forget_client()
        self._process.stop()

    def _forget_client(self) -> None:
        if self._rest is not None:
            self._rest.close()
            self._rest = None

    def _is_serving(self) -> bool:
        assert self._process.is_alive(), self.log_file.read_text()[-3000:]
        return bool(self.address)


def free_offset(offsets: range, others: Sequence[int] = ()) -> int:
    """Return an offset at which all ports of a stack and `others` are free; they stay reserved."""
    for offset in random.sample(offsets, len(offsets)):
        ports = [*asdict(StackPorts().shifted(offset)).values(), *(port + offset for port in others)]
        if all(map(reserve, ports)):
            return offset
    raise AssertionError(f"no offset in {offsets} at which all ports are free")
