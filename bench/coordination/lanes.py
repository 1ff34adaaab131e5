"""One worker with 20,000 lanes: its start, restarts, and a change of leader, without losing leases.

20 topics of 1,000 partitions on two clusters of two brokers, and one instance with one worker process. After
the start, the worker is killed; then the instance is restarted; then it is killed and started, so that it
becomes leader again when its old session expires. Each step ends when every lane copies and one new record
has arrived in each topic. `BENCH_PARTITIONS=5000` makes it smaller. A worker that exits without being killed
has lost its lease.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil

from bench.mirror.rig.clusters import Pair, Topics, clusters_of_many_partitions
from bench.mirror.rig.watch import MIB, family, peak_mib
from stack.ports import free_ports
from stack.process.wait import wait_until
from stack.zookeeper import ZooKeeperServer
from tests.running import RunningInstance

_PARTITIONS_OF_TOPIC = 1_000
_PATIENCE_SECONDS = 900
_STEADY_SECONDS = 30
_DEATHS = "headrace_worker_deaths_total"
_COPYING = 'phase="copying"'
_HEADING = (
    f"  {'step':20}{'all copy after s':>18}{'leases lost':>13}"
    f"{'worker MiB':>12}{'peak':>7}{'control MiB':>13}"
)


def main() -> None:
    """Print a line for each step. Raise SystemExit(1) if a worker lost its lease."""
    topics = int(os.environ.get("BENCH_PARTITIONS", "20000")) // _PARTITIONS_OF_TOPIC
    with _site(topics) as (instance, pair):
        steps = _Steps(instance, pair, [_name(number) for number in range(topics)])
        steps.take("start", instance.start, 0)
        steps.take("worker killed", lambda: steps.worker().kill(), 1)
        steps.take("instance restarted", lambda: _restart(instance), 0)
        steps.take("leader killed", lambda: _replace(instance), 0)
    if steps.lost:
        raise SystemExit(1)


@contextmanager
def _site(topics: int) -> Iterator[tuple[RunningInstance, Pair]]:
    """Run the servers; yield an instance that is not started yet, and the clusters."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pair = stack.enter_context(clusters_of_many_partitions())
        zookeeper = ZooKeeperServer("zookeeper", folder / "zookeeper", free_ports(1)[0])
        zookeeper.start()
        stack.callback(zookeeper.stop)
        made = Topics(pair.source)
        for number in range(topics):
            made.create(_name(number), _PARTITIONS_OF_TOPIC)
        instance = RunningInstance("one", folder, _environment(zookeeper, pair))
        stack.callback(instance.stop)
        yield instance, pair


def _name(number: int) -> str:
    return f"bench-lanes-{number:02}"


def _environment(zookeeper: ZooKeeperServer, pair: Pair) -> dict[str, str]:
    return {
        "HEADRACE_ZOOKEEPER__SERVERS": zookeeper.address,
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.target.address,
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
    }


def _restart(instance: RunningInstance) -> None:
    instance.stop()
    instance.start()


def _replace(instance: RunningInstance) -> None:
    instance.kill()
    instance.start()


class _Steps:
    """Runs steps on the instance, and measures the time until every lane copies again."""

    def __init__(self, instance: RunningInstance, pair: Pair, topics: list[str]) -> None:
        self._instance = instance
        self._topics = topics
        self._source_topics, self._target_topics = Topics(pair.source), Topics(pair.target)
        self._lanes = len(topics) * _PARTITIONS_OF_TOPIC
        self._taken = 0
        self.lost = 0
        print(f"{self._lanes:,} lanes in one worker\n{_HEADING}")

    def take(self, name: str, step: Callable[[], object], deaths: int) -> None:
        """Run a step that kills `deaths` worker processes, and print the result."""
        began = time.monotonic()
        step()
        if not self._taken:
            self._instance.rest.post("/v1/datastreams", _DATASTREAM)
        self._taken += 1
        self._wait_until_all_copy(deaths)
        seconds = time.monotonic() - began
        time.sleep(_STEADY_SECONDS)
        lost = int(self._value(_DEATHS)) - deaths
        self.lost += lost
        worker = self.worker()
        sizes = [one.memory_info().rss / MIB for one in (worker, psutil.Process(self._instance.pid))]
        print(
            f"  {name:20}{seconds:18.1f}{lost:13}{sizes[0]:12.0f}{peak_mib(worker):7.0f}{sizes[1]:13.0f}",
            flush=True,
        )

    def _wait_until_all_copy(self, deaths: int) -> None:
        wait_until(
            lambda: self._value(_DEATHS) >= deaths and self._value("headrace_lanes", _COPYING) == self._lanes,
            _PATIENCE_SECONDS,
            f"{self._lanes} lanes copy; log: {self._instance.log_file}",
            interval_seconds=0.5,
        )
        self._source_topics.write_one(self._topics, _PARTITIONS_OF_TOPIC - 1)
        wait_until(
            lambda: all(
                self._target_topics.end(f"{name}-copy", _PARTITIONS_OF_TOPIC) >= self._taken
                for name in self._topics
            ),
            _PATIENCE_SECONDS,
            "a copied record in every topic",
            interval_seconds=0.5,
        )

    def worker(self) -> psutil.Process:
        """Return the only worker process."""
        _, worker = family(psutil.Process(self._instance.pid))
        return worker

    def _value(self, metric: str, label: str = "") -> float:
        """Return the sum of the series of a metric, or 0 while the instance is unreachable."""
        try:
            text = httpx.get(f"http://{self._instance.address}/metrics", timeout=30, trust_env=False).text
        except httpx.HTTPError:
            return 0.0
        lines = (line.rpartition(" ") for line in text.splitlines() if line.startswith(metric))
        return sum(float(value) for series, _, value in lines if label in series)


_DATASTREAM = {
    "name": "bench-lanes",
    "source": {"cluster": "source", "topics": "bench-lanes-.*"},
    "destination": {"cluster": "destination", "name": "*-copy"},
    "limits": {"max_tasks": 1},
    "metadata": {"owner": "bench"},
}
