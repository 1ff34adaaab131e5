"""CPU time to receive responses and forward their batches: Headrace's event loop, asyncio, kafka-python.

No Kafka is involved: a peer process answers Kafka-shaped frames from memory, so only the loop, the transport
and the framing are measured. Each run is a separate process, and the three engines take turns. Our loop is
compiled if the data plane of the workers is; the other engines run as packaged.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Final

from headrace.process.machine_code import worker_command

_RUNS: Final = 5
_CASES: Final = {
    "responses of 2 MiB": (2 * 2**20, 1000),
    "responses of 64 KiB": (64 * 1024, 8000),
    "responses of 1 KiB": (1024, 30_000),
}
_ENGINES: Final = ("own", "asyncio", "kafka.net")


def main() -> None:
    """Print a line for each response size and event loop, and the ratios."""
    for name, (response_bytes, count) in _CASES.items():
        figures: dict[str, list[tuple[float, float, float]]] = {engine: [] for engine in _ENGINES}
        for _ in range(_RUNS):
            for engine in _ENGINES:
                figures[engine].append(_run(engine, response_bytes, count))
        print(f"{name}, {count} responses, medians of {_RUNS} runs")
        print(f"  {'loop':12}{'CPU us a response':>19}{'CPU s a GB':>12}{'wall s':>9}{'RSS MiB':>9}")
        medians = {
            engine: [statistics.median(column) for column in zip(*runs, strict=True)]
            for engine, runs in figures.items()
        }
        for engine, (wall, cpu, resident) in medians.items():
            gigabytes = response_bytes * count / 1e9
            print(
                f"  {engine:12}{cpu / count * 1e6:19.1f}{cpu / gigabytes:12.3f}{wall:9.2f}{resident:9.0f}",
                flush=True,
            )
        for other in _ENGINES[1:]:
            ours, theirs = medians["own"][1], medians[other][1]
            print(f"  CPU: {ours:.2f} s against {theirs:.2f} s of {other}, 1/{theirs / ours:.1f}")
        print()


def _run(engine: str, response_bytes: int, count: int) -> tuple[float, float, float]:
    peer = subprocess.Popen(
        [sys.executable, "-m", "bench.mirror.rig.loops.peer", str(response_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with peer:
        assert peer.stdout is not None
        ports = peer.stdout.readline().split()
        command = [
            *worker_command("bench.mirror.rig.loops.engines"),
            engine,
            *ports,
            str(response_bytes),
            str(count),
        ]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        peer.communicate("")
    wall, cpu, resident = (float(figure) for figure in printed.split())
    return wall, cpu, resident
