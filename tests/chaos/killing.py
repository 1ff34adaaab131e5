"""Repeated kills of a copy and its brokers, chosen by a seed, with a final check of every record.

A writer numbers its records. `headrace copy` runs meanwhile and is killed with SIGKILL, or frozen while a
second one takes over; brokers are killed and restarted. Finally the copy is completed, and another client
reads both sides: content, order, duplicates, and the offset map of every record.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException, Producer

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import Guarantee
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from stack.kafka import KafkaCluster
from tests.engines import look_all
from tests.fakes.broker.contents import Seen
from tests.kafka_data import counts, make_topic
from tests.patience import PATIENCE_SECONDS

_SHARE_OF_KILLS_AFTER_SOME_COPYING: Final = 0.8
_RECORD: Final = b"payload " * 30


@dataclass
class Loop:
    """One run. `kills`: counts by victim; `finish` returns the findings."""

    source: KafkaCluster
    target: KafkaCluster
    topic: str
    guarantee: Guarantee
    seed: int
    folder: Path
    partitions: int = 4
    records_per_second: int = 1_500
    kills: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    """Number of copies that exited because a broker was down at their start, and were restarted."""
    written: int = 0

    def __post_init__(self) -> None:
        self._numbers = random.Random(self.seed)
        self._copies: list[subprocess.Popen[bytes]] = []
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write, name="writer")
        self._log = (self.folder / f"{self.topic}.log").open("ab")

    def run(self, kills: int) -> None:
        """Start everything and perform this number of kills."""
        for cluster in (self.source, self.target):
            make_topic(cluster.address, self.topic, self.partitions)
        self._writer.start()
        try:
            self._start_copy()
            for _ in range(kills):
                self._go_on()
                self._kill_something()
        finally:
            self._stop.set()
            self._writer.join()
            self.end_copies()
            self._log.close()

    def _go_on(self) -> None:
        """Let the copy run for a random time, usually counted from the first record that arrives."""
        if self._numbers.random() < _SHARE_OF_KILLS_AFTER_SOME_COPYING:
            before = -1
            until = time.monotonic() + PATIENCE_SECONDS
            while before < 0 or self._arrived() <= before:
                before = before if before >= 0 else self._arrived()
                assert time.monotonic() < until, "no more records arrive"
                self._watch_for(0.2)
        self._watch_for(self._numbers.uniform(0.0, 2.5))

    def _watch_for(self, seconds: float) -> None:
        """Wait, restarting copies that have exited, like a supervisor."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)
            if self._copies[-1].poll() is not None:
                self._copies.pop()
                self.restarts += 1
                self._start_copy()

    def _arrived(self) -> int:
        """Return the number of records at the destination, or -1 while the killed broker does not respond."""
        try:
            return counts(self.target.address, [self.topic])[self.topic]
        except KafkaException:
            return -1

    def _kill_something(self) -> None:
        victim = self._numbers.choices(["copy", "frozen copy", "target", "source"], [3, 1, 2, 2])[0]
        self.kills[victim] = self.kills.get(victim, 0) + 1
        if victim == "copy":
            self.end_copies()
            self._start_copy()
        elif victim == "frozen copy":
            self._freeze()
        else:
            node = (self.target if victim == "target" else self.source).nodes[0]
            node.kill()
            time.sleep(self._numbers.uniform(0.0, 1.0))
            node.start()

    def _freeze(self) -> None:
        """Freeze the owner while a new one takes over, then let the old one continue for a while."""
        frozen = self._copies[-1]
        os.killpg(frozen.pid, signal.SIGSTOP)
        self._start_copy()
        time.sleep(self._numbers.uniform(1.5, 4.0))
        os.killpg(frozen.pid, signal.SIGCONT)
        time.sleep(self._numbers.uniform(0.5, 2.0))
        self._end(frozen)
        self._copies.remove(frozen)

    def _start_copy(self) -> None:
        command = [*self._command(), "--workers", "2"]
        self._copies.append(
            subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)
        )

    def _command(self) -> list[str]:
        return [
            sys.executable,
            "-m",
            "headrace",
            "copy",
            "--source",
            self.source.address,
            "--destination",
            self.target.address,
            "--topics",
            self.topic,
            "--state",
            self.topic,
            "--guarantee",
            self.guarantee,
        ]

    def end_copies(self) -> None:
        """Send SIGKILL to every copy and its workers."""
        for copy in self._copies:
            self._end(copy)
        self._copies.clear()

    def _end(self, copy: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):  # it may have exited already
            os.killpg(copy.pid, signal.SIGKILL)
        copy.wait()

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.source.address,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "linger.ms": 20,
                "compression.type": "lz4",
                "log_level": 0,
            }
        )
        pause = 50 / self.records_per_second
        while not self._stop.wait(pause):
            for _ in range(50):
                number = self.written
                self.written += 1
                producer.produce(self.topic, _RECORD, b"%d" % number, number % self.partitions)
            producer.poll(0)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def finish(self) -> Findings:
        """Complete the copy and check every record."""
        subprocess.run(
            [*self._command(), "--until-end"],
            check=True,
            timeout=PATIENCE_SECONDS,
            stdout=subprocess.DEVNULL,
        )
        here = look_all(self.source.address, self.topic, range(self.partitions))
        there = look_all(self.target.address, self.topic, range(self.partitions))
        progress = self._progress()
        found = Findings(self.written, dict(self.kills))
        for number in range(self.partitions):
            found.add(here[number], there[number], progress[TopicPartition(self.topic, number)])
        return found

    def _progress(self) -> dict[TopicPartition, LaneProgress]:
        access = ClusterAccess(endpoints(self.target.address))
        bench = EngineContext(lambda _: access, CopyingOptions(), EngineIdentity("chaos"), SystemClock())
        keys = [
            LaneKey(GroupName(self.topic), TopicPartition(self.topic, number))
            for number in range(self.partitions)
        ]
        try:
            found = bench.run(bench.progress(ClusterRef("target")).load(keys))
        finally:
            bench.close()
        return {key.partition: progress for key, progress in found.items() if progress is not None}


@dataclass
class Findings:
    """Comparison of source and destination."""

    written: int
    kills: dict[str, int]
    arrived: int = 0
    lost: int = 0
    repeated: int = 0
    disorder: int = 0
    wrong_map_entries: int = 0
    unbalanced_ledgers: int = 0
    map_runs: int = 0

    def add(self, here: Sequence[Seen], there: Sequence[Seen], progress: LaneProgress) -> None:
        """Add the findings of one partition."""
        self.arrived += len(there)
        newest = {record.key: record.offset for record in there}
        first: dict[bytes | None, int] = {}
        for record in there:
            first.setdefault(record.key, record.offset)
        self.lost += sum(record.key not in newest for record in here)
        self.repeated += len(there) - len(first)
        order = [first[record.key] for record in here if record.key in first]
        self.disorder += sum(one > two for one, two in itertools.pairwise(order))
        contents = {record.offset: record.content for record in there}
        for record in here:
            target = progress.offset_map.forward(record.offset)
            right = target.precision == "exact" and contents.get(target.offset) == record.content
            # A frozen owner may write a second copy of a record; the map may point to either.
            if "frozen copy" not in self.kills:
                right = right and target.offset == newest.get(record.key)
            self.wrong_map_entries += not right
        self.unbalanced_ledgers += not progress.ledger.is_balanced
        self.map_runs += len(progress.offset_map)

    def __str__(self) -> str:
        return (
            f"{sum(self.kills.values())} kills {self.kills}: {self.written} records written,"
            f" {self.arrived} at the destination, {self.lost} lost, {self.repeated} repeated,"
            f" {self.disorder} out of order,"
            f" {self.wrong_map_entries} wrong map entries in {self.map_runs} runs"
        )
