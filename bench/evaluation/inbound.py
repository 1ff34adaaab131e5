"""Bytes that each instance receives from the source cluster, according to its kernel's socket statistics
(`ss`)."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import psutil

from bench.evaluation.fleets import Fleet

_SOCKET: Final = re.compile(r"^\S+ +\d+ +\d+ +(?P<own>\S+) +\S+:(?P<port>\d+) +(?P<users>users:\S+)?")
_PID: Final = re.compile(r"pid=(\d+)")
_RECEIVED: Final = re.compile(r"\bbytes_received:(\d+)")

Received = Mapping[tuple[int, str], int]
"""Bytes received so far, by process and its end of the socket."""


def received_from(text: str, port: int) -> Received:
    """Parse `ss -tinpH`: sockets of known processes whose peer has that port, each with a line of details."""
    found: dict[tuple[int, str], int] = {}
    sockets: list[tuple[int, str]] = []
    for line in text.splitlines():
        if heading := _SOCKET.match(line):
            is_wanted = int(heading["port"]) == port
            pids = set(map(int, _PID.findall(heading["users"] or ""))) if is_wanted else set()
            sockets = [(pid, heading["own"]) for pid in sorted(pids)[:1]]
        elif received := _RECEIVED.search(line):
            found |= dict.fromkeys(sockets, int(received[1]))
            sockets = []
    return found


class InboundWatch:
    """Adds up the bytes that instances receive from the source between two readings.

    A socket that opens and closes between two observations is missed; those of lanes stay open.
    """

    def __init__(self, fleets: Sequence[Fleet], source_address: str) -> None:
        self._fleets = fleets
        self._port = int(source_address.rpartition(":")[2])
        self._before: Received = {}

    def read(self) -> dict[str, int]:
        """Return the bytes that each instance has received since the previous reading."""
        now = received_from(_sockets(), self._port)
        owners = {pid: name for name, pids in self._processes().items() for pid in pids}
        found: dict[str, int] = defaultdict(int)
        for key, received in now.items():
            if key[0] in owners:
                found[owners[key[0]]] += max(0, received - self._before.get(key, 0))
        self._before = now
        return dict(found)

    def _processes(self) -> dict[str, list[int]]:
        return {
            instance.name: [
                instance.pid,
                *(child.pid for child in psutil.Process(instance.pid).children(recursive=True)),
            ]
            for fleet in self._fleets
            for instance in fleet.instances
        }


def _sockets() -> str:
    return subprocess.run(["ss", "-tinpH"], capture_output=True, text=True, check=True).stdout
