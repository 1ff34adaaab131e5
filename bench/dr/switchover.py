"""A switch-over of 200 partitions under 50 producers: duration of each step, records lost and repeated.

Two clusters of one broker with an authorizer, 4 topics of 50 partitions, and one instance with one worker.
The producers write 1,000 records a second until they are denied Write, and continue on the other cluster when
the command ends. Then the same way back. Finally, one of the producers is a super user, which no denial
affects: the switch-over names it and undoes itself. After each of the three, an independent consumer compares
both logs with the records that were acknowledged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bench.dr.rig.producers import Producers, Written
from bench.dr.rig.secured import APPLICATION, secured_pair
from stack.kafka import KafkaCluster
from stack.process.wait import wait_until
from tests.kafka_data import Record, commit_positions, make_topic, read_all
from tests.running import RunningInstance

_PARTITIONS: Final = 50
_TOPICS: Final = tuple(f"bench-orders-{number}" for number in range(4))
_GROUP: Final = "bench-billing"
_PATIENCE_SECONDS: Final = 300.0
_WARM_SECONDS: Final = 10.0
_WAYS: Final = ("east", "west")


def main() -> None:
    """Print the steps of each switch-over. Raise SystemExit(1) if a record is lost or repeated, or if a
    producer that still writes is not named."""
    with _site() as site:
        is_exact = [site.exchange("west"), site.exchange("east")]
        is_named = site.meet_rogue()
    if not (all(is_exact) and is_named):
        raise SystemExit(1)


@contextmanager
def _site() -> Iterator[Site]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters = stack.enter_context(secured_pair(folder, _WAYS))
        east, west = clusters["east"], clusters["west"]
        environment = {
            "HEADRACE_CLUSTERS__EAST__BOOTSTRAP_SERVERS": east.address,
            "HEADRACE_CLUSTERS__WEST__BOOTSTRAP_SERVERS": west.address,
            "HEADRACE_COORDINATION__CLUSTER": "west",
            "HEADRACE_MIRROR__DESTINATION_CLUSTER": "west",
            "HEADRACE_MIRROR__METRICS_CLUSTER": "west",
            "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
            "HEADRACE_DR__BENCH__PRIMARY": "east",
            "HEADRACE_DR__BENCH__STANDBY": "west",
            "HEADRACE_DR__BENCH__DATASTREAMS": '["bench"]',
            "HEADRACE_DR__BENCH__GROUPS": _GROUP,
            "HEADRACE_DR__BENCH__PRINCIPALS": f'["User:{APPLICATION}"]',
        }
        for topic in _TOPICS:
            make_topic(east.address, topic, _PARTITIONS)
        commit_positions(east.address, _GROUP, {(topic, 0): 0 for topic in _TOPICS})
        instance = RunningInstance("one", folder, environment)
        stack.callback(instance.stop)
        instance.start()
        instance.rest.post("/v1/datastreams", _DATASTREAM)
        wait_until(lambda: _is_copying(instance), _PATIENCE_SECONDS, "every partition is copied")
        yield Site(clusters, instance, folder)


def _is_copying(instance: RunningInstance) -> bool:
    found = instance.rest.get("/v1/datastreams/bench/lag")["partitions"]
    return len(found) == len(_TOPICS) * _PARTITIONS and all(one["state"] == "copying" for one in found)


@dataclass
class Site:
    """The two clusters of a pair, and the service between them."""

    clusters: dict[str, KafkaCluster]
    instance: RunningInstance
    folder: Path
    active: str = "east"

    def __post_init__(self) -> None:
        self._written = Written()

    def exchange(self, target: str) -> bool:
        """Switch over while producers write; return whether no record was lost or repeated."""
        with self._writing(self.active) as producers:
            run = self._switch(target)
        last_ms = producers.last_ms
        with self._writing(target, seconds=1.0) as producers:
            first_ms = producers.first_ms
        self.active = target
        print(f"switch-over to {target}: {run.found['failure'] or 'completed'}")
        run.print_steps()
        drained, fenced = (run.found["ended_ms"] - run.begun_ms(step) for step in ("AUDITED", "FENCED"))
        print(
            f"  after the drain {drained / 1000:.1f} s; after the start of the fence {fenced / 1000:.1f} s\n"
            f"  from the last record at the former cluster to the first one here"
            f" {(first_ms - last_ms) / 1000:.1f} s"
        )
        return not run.found["failure"] and self._compare()

    def meet_rogue(self) -> bool:
        """Switch over while a super user writes; return whether it was named and everything was restored."""
        with self._writing(self.active, rogues=1) as producers:
            run = self._switch("east" if self.active == "west" else "west")
            wait_until(lambda: producers.are_writing, _PATIENCE_SECONDS, "all producers write again")
        failure = str(run.found["failure"])
        print(f"switch-over with one producer of {producers.number} that is a super user\n  {failure}")
        run.print_steps()
        named = producers.rogue_batches()
        is_named = any(text in failure for text in named)
        seconds = run.noted("undo FENCED") - run.noted("FENCED")
        print(
            f"  named {'correctly' if is_named else 'WRONGLY'} {seconds:.1f} s after the start of the fence;"
            f" restored {run.ended - run.noted('undo FENCED'):.1f} s later; active: {run.found['active']}"
        )
        return is_named and run.found["active"] == self.active and self._compare()

    @contextmanager
    def _writing(
        self, cluster: str, *, rogues: int = 0, seconds: float = _WARM_SECONDS
    ) -> Iterator[Producers]:
        producers = Producers(self.clusters[cluster], _TOPICS, _PARTITIONS, rogues, self._written)
        with producers.writing():
            wait_until(lambda: producers.are_writing, _PATIENCE_SECONDS, "all producers write")
            time.sleep(seconds)
            yield producers

    def _switch(self, target: str) -> Run:
        command = [sys.executable, "-m", "headrace", "dr", "switchover", "bench", "--to", target, "--json"]
        process = subprocess.Popen(
            [*command, "--at", self.instance.address],
            env={**os.environ, **self.instance.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            notes = [(time.monotonic(), line.strip()) for line in process.stderr]
            ended = time.monotonic()
            return Run(json.loads(process.stdout.read()), notes, ended)

    def _compare(self) -> bool:
        """Wait until both clusters have every acknowledged record, and compare; return whether they are
        equal."""

        def logs() -> dict[str, list[tuple[str, Record]]]:
            return {
                name: [(topic, one) for topic in _TOPICS for one in read_all(cluster.address, topic)]
                for name, cluster in self.clusters.items()
            }

        expected = self._written.contents()
        wait_until(
            lambda: all(len(found) >= expected.total() for found in logs().values()),
            _PATIENCE_SECONDS,
            "both clusters have all records",
            interval_seconds=1.0,
        )
        is_exact, found = True, logs()
        for name, records in found.items():
            contents = Counter((topic, one.partition, one.value) for topic, one in records)
            lost, extra = (expected - contents).total(), (contents - expected).total()
            is_exact = is_exact and not lost and not extra
            print(f"  {name}: {len(records)} records; lost {lost}, repeated or foreign {extra}")
        orders = [[(topic, one.partition, one.value) for topic, one in found[name]] for name in _WAYS]
        print(f"  same order in all partitions: {orders[0] == orders[1]}\n", flush=True)
        return is_exact and orders[0] == orders[1]


@dataclass(frozen=True)
class Run:
    """Output of a command that has ended. `notes`: its lines with their times; `ended`: its end (monotonic
    clock)."""

    found: dict[str, Any]
    notes: Sequence[tuple[float, str]]
    ended: float

    def noted(self, text: str) -> float:
        """Return the time at which the command printed a line."""
        return next(moment for moment, line in self.notes if line == text)

    def begun_ms(self, step: str) -> int:
        """Return the time (epoch ms) at which a step began."""
        return next(int(one["at_ms"]) for one in self.found["steps"] if one["step"] == step)

    def print_steps(self) -> None:
        """Print the duration of each step."""
        last = {"step": "", "at_ms": self.found["ended_ms"]}
        for begun, following in pairwise([*self.found["steps"], last]):
            print(f"  {begun['step']:16}{(following['at_ms'] - begun['at_ms']) / 1000:7.2f} s")
        for moment, line in self.notes:
            print(f"    {moment - self.notes[0][0]:6.2f} {line}")


_DATASTREAM: Final = {
    "name": "bench",
    "source": {"cluster": "east", "topics": "bench-orders-.*"},
    "destination": {"cluster": "west", "name": "*"},
    "owner": "bench",
}
