"""A real Alertmanager on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from stack.ports import LOOPBACK, free_ports
from stack.process.managed_process import ManagedProcess
from tests.debian import ALERTMANAGER
from tests.patience import wait_until


@contextmanager
def running_alertmanager(folder: Path, configuration: str) -> Iterator[str]:
    """Yield the address of an Alertmanager with this configuration file."""
    file, log = folder / "alertmanager.yml", folder / "alertmanager.log"
    file.write_text(configuration)
    (port,) = free_ports(1)
    command = [
        ALERTMANAGER.required_path(),
        f"--config.file={file}",
        f"--storage.path={folder / 'alertmanager'}",
    ]
    command += [f"--web.listen-address={LOOPBACK}:{port}", "--cluster.listen-address="]
    process = ManagedProcess(
        "alertmanager", command, {}, log, directory=ALERTMANAGER.directory, grace_seconds=10
    )
    with ready(process, port, log) as url:
        yield url


@contextmanager
def ready(process: ManagedProcess, port: int, log: Path) -> Iterator[str]:
    """Run a Prometheus or Alertmanager that listens at `port`; yield its address once it is ready."""
    with process:
        url = f"http://{LOOPBACK}:{port}"
        wait_until(lambda: _is_ready(url) or not process.is_alive(), f"{process.name} listens")
        assert process.is_alive(), log.read_text()
        yield url


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").is_success
    except httpx.TransportError:
        return False
