"""Ports of the stack, free ports for tests, and the process that uses a port."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

import psutil

from stack.errors import PortTaken

LOOPBACK: Final = "127.0.0.1"
_LOWEST: Final = 15000
_EPHEMERAL_BY_DEFAULT: Final = 32768
_ATTEMPTS: Final = 2000
_reserved: dict[int, int] = {}


@dataclass(frozen=True)
class StackPorts:
    """One port for each listener of the stack, all on loopback."""

    zookeeper: int = 2181
    source: int = 9092
    source_controller: int = 9093
    destination: int = 9192
    destination_controller: int = 9193
    pinot_controller: int = 9000
    pinot_broker: int = 9001
    pinot_server: int = 9002
    pinot_admin: int = 9003
    pinot_zookeeper: int = 9005

    def shifted(self, offset: int) -> StackPorts:
        """Return all ports shifted by the same number, for a second stack on the machine."""
        return StackPorts(**{name: port + offset for name, port in asdict(self).items()})

    @staticmethod
    def free() -> StackPorts:
        """Return unused ports that `free_ports` gives to no other process."""
        names = [field.name for field in fields(StackPorts)]
        return StackPorts(**dict(zip(names, free_ports(len(names)), strict=True)))


def free_ports(count: int) -> list[int]:
    """Return ports that can be bound now, and reserve them against other calls until the process ends.

    The ports are below the range that the kernel uses for outgoing connections, so that no connection takes a
    port by chance while a server is down.
    """
    found: list[int] = []
    for _ in range(_ATTEMPTS):
        if len(found) == count:
            return found
        port = random.randrange(_LOWEST, _first_ephemeral())  # noqa: S311 - no secret
        if reserve(port):
            found.append(port)
    raise PortTaken(
        f"no {count} free ports from {_LOWEST} to {_first_ephemeral()}", advice="stop processes that use them"
    )


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def require_free(server: str, ports: Mapping[str, int], advice: str) -> None:
    """Raise PortTaken with the first port in use and, if found, the process that uses it."""
    for role, port in ports.items():
        if not 0 < port < 65536:
            raise PortTaken(
                f"invalid port {port} for {server} ({role})", advice="choose a port from 1 to 65535"
            )
        if not is_free(port):
            owner = owner_of([port]) or "another process"
            raise PortTaken(f"port {port}, which {server} needs ({role}), is used by {owner}", advice=advice)


def owner_of(ports: Iterable[int]) -> str | None:
    """Return `name (process 123)` for the first process found listening on one of the ports."""
    wanted = set(ports)
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        connections = []
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port in wanted and connection.pid:
            try:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
            except psutil.NoSuchProcess:
                continue
    return None


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 0
    return first if first > _LOWEST + _ATTEMPTS else _EPHEMERAL_BY_DEFAULT


def reserve(port: int) -> bool:
    """Reserve a free port against other processes while this one runs; return False if it is taken."""
    if port in _reserved or not is_free(port):
        return False
    folder = Path(tempfile.gettempdir()) / f"headrace-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    _reserved[port] = lock
    return True
