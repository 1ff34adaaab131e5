"""Memory and CPU of one mirror with 20,000 mostly idle partitions.

20 topics of 1,000 partitions on two clusters of two brokers; `headrace copy` with one worker has a lane for
each partition. It is measured without traffic, and with one record per second to some of the partitions.
`BENCH_PARTITIONS=5000` makes it smaller. With `BENCH_FORMER`, that checkout is measured next on new clusters.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from bench.mirror.rig.clusters import Pair, Topics, clusters_of_many_partitions
from bench.mirror.rig.engines import Engine, Work, formers, headrace
from bench.mirror.rig.watch import MIB, cpu_seconds, family, peak_mib
from mirror.protocol.batches.compression import Codec
from stack.process.managed_process import ManagedProcess
from stack.process.wait import wait_until

_PARTITIONS_OF_TOPIC = 1_000
_SECONDS = 30
_RATES = (0, 20, 200)
_START_SECONDS = 240
_SETTLING_SECONDS = 10


def main() -> None:
    """Print a line for each write rate."""
    for make in (headrace, *formers().values()):
        _measure(make)


def _measure(make: Callable[[Pair, Work], Engine]) -> None:
    topics = int(os.environ.get("BENCH_PARTITIONS", "20000")) // _PARTITIONS_OF_TOPIC
    with clusters_of_many_partitions() as pair:
        made = Topics(pair.source)
        for number in range(topics):
            made.create(f"bench-idle-{number:02}", _PARTITIONS_OF_TOPIC)
        engine = make(pair, Work("bench-idle-.*", Codec.LZ4))
        began = time.monotonic()
        with engine.process:
            _wait_until_reading(pair, topics)
            seconds = time.monotonic() - began
            partitions = topics * _PARTITIONS_OF_TOPIC
            print(f"{engine.name}: {partitions:,} partitions, all are copied after {seconds:.1f} s")
            print(_HEADING)
            mirror = psutil.Process(engine.process.pid)
            for rate in _RATES:
                with _writer(pair, topics, rate):
                    time.sleep(_SETTLING_SECONDS)
                    print(f"  {rate:12}{_watch(pair, mirror)}", flush=True)


_HEADING = (
    f"  {'records/s':>12}{'worker MiB':>12}{'peak':>8}{'parent MiB':>12}{'worker %':>10}{'parent %':>10}"
    f"{'source %':>10}{'target %':>10}"
)


def _wait_until_reading(pair: Pair, topics: int) -> None:
    """Wait for a record in the last partition of every topic to arrive at the destination."""
    last = _PARTITIONS_OF_TOPIC - 1
    arguments = [f"bench-idle-{number:02}" for number in range(topics)]
    there, here = Topics(pair.target), Topics(pair.source)
    wait_until(lambda: there.names("bench-idle-") == topics, _START_SECONDS, "topics at the destination")
    here.write_one(arguments, last)
    wait_until(
        lambda: all(there.end(f"{name}-headrace", _PARTITIONS_OF_TOPIC) for name in arguments),
        _START_SECONDS,
        "a copied record in every topic",
        interval_seconds=0.5,
    )


def _watch(pair: Pair, mirror: psutil.Process) -> str:
    """Return the memory of the mirror at the end, and its CPU over the interval in percent of a core."""
    parent, *workers = family(mirror)
    brokers = [psutil.Process(cluster.nodes[0].pid) for cluster in (pair.source, pair.target)]
    watched = [*workers, parent, *brokers]
    before = [cpu_seconds(process) for process in watched]
    time.sleep(_SECONDS)
    used = [
        (cpu_seconds(process) - then) / _SECONDS * 100 for process, then in zip(watched, before, strict=True)
    ]
    (worker,) = workers
    sizes = [process.memory_info().rss / MIB for process in (worker, parent)]
    columns = "".join(f"{percent:10.1f}" for percent in used)
    return f"{sizes[0]:12.0f}{peak_mib(worker):8.0f}{sizes[1]:12.0f}{columns}"


@contextmanager
def _writer(pair: Pair, topics: int, rate: int) -> Iterator[None]:
    """Write one record per second to each of `rate` partitions, spread over the topics."""
    if not rate:
        yield
        return
    command = [sys.executable, "-m", "bench.mirror.rig.trickle", pair.source.address, str(topics), str(rate)]
    with ManagedProcess("trickle", command, log_file=pair.folder / "trickle.log") as process:
        yield
        assert process.is_alive(), process.log_file.read_text(encoding="utf-8")[-2000:]
