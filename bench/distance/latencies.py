"""Latency of delivery over a distance, from the produce call to a consumer's receipt of the record."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench.distance.link import Namespaces
from bench.mirror.rig.clusters import Pair, Topics
from bench.mirror.rig.data import PARTITIONS
from bench.mirror.rig.engines import Engine
from stack.process.managed_process import ManagedProcess
from stack.process.wait import wait_until

PROBE_TOPIC = "bench-probe"
RECORDS_PER_SECOND = 1_000
_RECORD_BYTES = 1_000
_WARM_UP_SECONDS = 15
_PATIENCE_SECONDS = 120


@contextmanager
def writing(ends: Namespaces, address: str, folder: Path) -> Iterator[None]:
    """Write records to the probe topic at the far end while the context lasts."""
    arguments = ["write", address, PROBE_TOPIC, PARTITIONS, RECORDS_PER_SECOND, _RECORD_BYTES]
    with _probe(folder / "writer.log", ends.far_command(*_command(*arguments))) as writer:
        yield
        assert writer.is_alive(), writer.log_file.read_text(encoding="utf-8")[-2000:]


def measure_latency(ends: Namespaces, pair: Pair, engine: Engine | None, seconds: float) -> dict[str, float]:
    """Return latency percentiles ("50", "99") in milliseconds, measured at the destination.

    Without an engine, a consumer at the far end reads the source.
    """
    cluster, topic = (pair.target, engine.target) if engine else (pair.source, PROBE_TOPIC)
    topics = Topics(cluster)
    with engine.process if engine else nullcontext():
        wait_until(lambda: topics.end(topic, PARTITIONS) > 0, _PATIENCE_SECONDS, f"records in {topic}")
        time.sleep(_WARM_UP_SECONDS)
        command = _command("read", cluster.address, topic, PARTITIONS)
        with _probe(pair.folder / "reader.log", command if engine else ends.far_command(*command)) as reader:
            time.sleep(seconds)
    found: dict[str, float] = json.loads(reader.log_file.read_text(encoding="utf-8").splitlines()[-1])
    return found


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bench.mirror.rig.probe", *map(str, arguments)]


def _probe(log: Path, command: list[str]) -> ManagedProcess:
    log.unlink(missing_ok=True)
    return ManagedProcess(log.stem, command, log_file=log)
