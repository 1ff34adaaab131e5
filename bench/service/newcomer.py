"""Time from `pip install` of a wheel in an empty environment to the first mirrored record.

Two brokers run, with a topic at the source. Two commands follow the installation: `headrace serve` and
`headrace datastream create`. `RUNS` (3) sets the number of runs, each with a new environment and state, and
`EXTRAS=assigner,monitor` adds extras. Packages come from the cache of pip, with `EMPTY=1` from the index.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from confluent_kafka import Consumer, Producer

from bench.mirror.rig.clusters import Pair, clusters
from stack.ports import LOOPBACK, free_ports
from stack.process.managed_process import ManagedProcess
from stack.process.wait import wait_until
from tests.kafka_data import make_topic

_ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 300
_REQUIRED_SECONDS = 60


def _wheel(folder: Path) -> Path:
    """Build the pure wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = os.environ | {"HEADRACE_WHEEL": "pure"}
    subprocess.run(command, cwd=_ROOT, env=environment, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def _environment(pair: Pair, folder: Path) -> dict[str, str]:
    """Return the variables of both commands: only the addresses of the brokers, and a free port."""
    return {
        "XDG_STATE_HOME": str(folder),
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.target.address,
        "HEADRACE_API__PORT": str(free_ports(1)[0]),
    }


def _listens(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection((LOOPBACK, port)):
        return True
    return False


def _first_record(pair: Pair, topic: str) -> None:
    """Write a record a second, and return when one arrives at the destination."""
    producer = Producer({"bootstrap.servers": pair.source.address})
    consumer = Consumer(
        {
            "bootstrap.servers": pair.target.address,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        producer.produce(topic, b"hello")
        producer.flush()
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            consumer.close()
            return
    raise SystemExit("no record has arrived")


def _run(pair: Pair, wheel: Path, folder: Path, topic: str) -> list[float]:
    """Return the times of the installation, the start, the creation and the first record."""
    make_topic(pair.source.address, topic, 2)
    variables = _environment(pair, folder)
    marks = [time.monotonic()]

    def run(*command: str) -> None:
        subprocess.run(command, env=os.environ | variables, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        marks.append(time.monotonic())

    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    marks[0] = time.monotonic()
    cache = ["--no-cache-dir"] if "EMPTY" in os.environ else []
    extras = f"[{os.environ['EXTRAS']}]" if os.environ.get("EXTRAS") else ""
    run(str(folder / "env/bin/pip"), "install", "--quiet", *cache, f"headrace{extras} @ file://{wheel}")
    headrace = str(folder / "env/bin/headrace")
    with ManagedProcess("headrace", [headrace, "serve"], variables, folder / "log", directory=folder):
        port = int(variables["HEADRACE_API__PORT"])
        wait_until(lambda: _listens(port), _PATIENCE_SECONDS, f"REST listens; log: {folder / 'log'}")
        marks.append(time.monotonic())
        run(headrace, "datastream", "create", "first", "--topics", topic, "--owner", "me")
        _first_record(pair, topic)
        marks.append(time.monotonic())
    return [later - earlier for earlier, later in itertools.pairwise(marks)]


def main() -> None:
    """Print the times of each run."""
    for name in [one for one in os.environ if one.startswith(("HEADRACE_", "PYTHON"))]:
        del os.environ[name]  # of the checkout
    print(f"  {'pip install':>12} {'serve':>8} {'create':>8} {'record':>8} {'together':>9}   seconds")
    with ExitStack() as stack:
        pair = stack.enter_context(clusters(quick_start=True))
        wheel = _wheel(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for number in range(int(os.environ.get("RUNS", "3"))):
            with tempfile.TemporaryDirectory() as folder:
                found = _run(pair, wheel, Path(folder), f"orders-{number}")
            install, *others = found
            columns = " ".join(f"{seconds:8.1f}" for seconds in others)
            total = f"{sum(found):9.1f}   (required: < {_REQUIRED_SECONDS})"
            print(f"  {install:12.1f} {columns} {total}", flush=True)
