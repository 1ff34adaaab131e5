"""The whole loop as commands on real servers: sampler, Spark job, Pinot, leader, monitor, audit.

Two partitions that carry nearly everything lie in one task, because nothing was known of the load when they
were placed. The task cannot bear both; the latency objective is breached, the monitor asks for a rebalance,
and the leader separates them by the loads that Pinot has of them. Then the source dies for a while, which
closes no incident.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from headrace.demo.watch import moves_of, plan_of
from stack.kafka import KafkaCluster
from stack.pinot import PinotServer
from stack.process.managed_process import ManagedProcess
from stack.traffic.writer import Traffic
from stack.zookeeper import ZooKeeperServer
from tests.kafka_data import Record, make_topic, produce
from tests.metrics_data import apply_tables
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair, NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long]

PARTITIONS: Final = 6
TASK_LIMIT: Final = 300_000
"""Bytes a second that a task may copy, which is also the capacity that placement counts with."""
PERCENT: Final = 80
USABLE: Final = TASK_LIMIT * PERCENT // 100
HEAVY: Final = 210_000.0
LIGHT: Final = 2_000.0
OBJECTIVE_MS: Final = 1_500
JUDGEMENTS: Final = 4
"""One more than the good verdicts that close an incident; the monitor judges at least as often meanwhile."""
BUDGET: Final = {
    "milliseconds": OBJECTIVE_MS,
    "target_percent": 99.0,
    "percentile": 0.001,
    "window_seconds": 10,
    "period_days": 1,
}
"""Its percentile is met wherever that of the short form is, so that it changes no verdict."""
CLOSED: Final = "latency objective met again"

SETTINGS: Final = """
[clusters.{source}]
bootstrap_servers = "{source_address}"
[clusters.destination]
bootstrap_servers = "{destination_address}"
[zookeeper]
servers = "{zookeeper}"
root = "/{source}"
[mirror]
progress_topic = "progress-{source}"
[mirror.worker]
processes = 1
metrics_interval_seconds = 1.0
checkpoint_interval_seconds = 1.0
task_bytes_per_second_limit = {limit}
[mirror.leader]
load_provider = "pinot"
task_capacity_bytes_per_second = {limit}
task_utilisation_percent = {percent}
discovery_interval_seconds = 0.5
[pinot]
controller = "{controller}"
broker = "{broker}"
[pmp.clusters.{source}]
sampled_by = "sampler"
samples_topic = "__samples-{source}"
execution_topic = "__execution-{source}"
[pmp.sampler]
interval_seconds = 2.0
[pmp.job]
checkpoint_folder = "{folder}/checkpoint"
quick_start = true
[pmp.rollup]
enabled = false
[pmp.provider]
window_seconds = 15.0
statistic = "mean"
refresh_seconds = 1.0
[monitor]
enabled = false
interval_seconds = 1.0
window_seconds = 6.0
cooldown_seconds = 10.0
close_seconds = 3.0
burn_rates = ["1 over 5 m"]
[logging]
format = "json"
"""


class Loop:
    """A service of one instance with its settings file, and the commands that belong to it."""

    def __init__(
        self, folder: Path, kafka: KafkaPair, zookeeper: ZooKeeperServer, pinot: PinotServer
    ) -> None:
        self.source = f"loop-{uuid4().hex[:8]}"
        self.topic = f"load-{self.source}"
        self.folder = folder
        self.config = folder / "headrace.toml"
        self.config.write_text(
            SETTINGS.format(
                source=self.source,
                source_address=kafka.source.address,
                destination_address=kafka.destination.address,
                zookeeper=zookeeper.address,
                controller=pinot.controller_address,
                broker=pinot.broker_address,
                folder=folder,
                limit=TASK_LIMIT,
                percent=PERCENT,
            )
        )
        self._environment = {"HEADRACE_CONFIG": str(self.config)}
        self.instance = RunningInstance("one", folder, self._environment)

    def run(self, *arguments: str) -> tuple[int, Any]:
        """A command to its end: its exit code and the JSON that it prints; None where it prints nothing."""
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *arguments, "--json"],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout) if done.stdout else None

    @contextmanager
    def held(self, *arguments: str) -> Iterator[ManagedProcess]:
        """A command that runs until the block ends; it must not have ended before."""
        name = "-".join(arguments[:2])
        command = [sys.executable, "-m", "headrace", *arguments]
        process = ManagedProcess(
            name, command, self._environment, self.folder / f"{name}.log", grace_seconds=60
        )
        process.start()
        try:
            yield process
            assert process.is_alive(), process.log_file.read_text()[-3000:]
        finally:
            process.stop()

    def events(self, process: ManagedProcess) -> set[str]:
        """What the lines of its log say."""
        lines = process.log_file.read_text().splitlines()
        return {json.loads(line)["event"] for line in lines if line.startswith("{")}

    def tasks(self) -> dict[str, set[int]]:
        """Numbers of the partitions of each task by the plan in force."""
        return {
            task["task"]: {int(name.rpartition("-")[2]) for name in task["partitions"]}
            for task in plan_of(self.instance.rest)["tasks"]
        }

    def together(self, first: int, second: int) -> bool:
        """Whether one task has both partitions."""
        return any({first, second} <= numbers for numbers in self.tasks().values())

    def loads(self) -> dict[int, float]:
        """Bytes a second of each partition, as the provider gives them to the planner; at first of none."""
        code, rows = self.run("pmp", "loads", "--cluster", self.source)
        assert (code == 0) == (rows is not None)
        return {
            row["partition"]: row["bytes_in_per_second"] for row in rows or () if row["topic"] == self.topic
        }

    def is_judged_halted(self) -> bool:
        """Whether the monitor says that something is not copied; what waited before may be late besides."""
        code, found = self.run("monitor", "--once", "--at", self.instance.address)
        return code == 1 and bool(found) and found[self.source]["is_halted"]

    def judgement(self) -> tuple[int, str]:
        """Exit code of the monitor that judges once, and where the datastream stands."""
        code, found = self.run("monitor", "--once", "--at", self.instance.address)
        return code, found[self.source]["standing"] if found else "no answer"

    def budget_left(self) -> float:
        """What is left of the error budget. All of the past is known at once."""
        _, found = self.run("monitor", "--once", "--at", self.instance.address)
        (budget,) = found[self.source]["budgets"]
        (burn,) = budget["burns"]
        assert burn["long_rate"] > 0
        left: float = budget["left"]
        return left


@contextmanager
def traffic(address: str, topic: str) -> Iterator[tuple[Traffic, Callable[[float, set[int]], None]]]:
    """Writes to all partitions until the block ends; the function sets the rate of the heavy ones."""
    writing = Traffic(address)
    thread = threading.Thread(target=writing.run, name="traffic")

    def set_rates(heavy: float, numbers: set[int]) -> None:
        rates = {str(number): heavy if number in numbers else LIGHT for number in range(PARTITIONS)}
        writing.set_rates(json.dumps({topic: rates}))

    thread.start()
    try:
        yield writing, set_rates
    finally:
        writing.stop()
        thread.join(PATIENCE_SECONDS)


@pytest.fixture
def kafka_pair(new_kafka: NewKafka, destination_kafka: KafkaCluster) -> KafkaPair:
    """The source belongs to this test, which kills it."""
    return KafkaPair(new_kafka("source"), destination_kafka)


@pytest.fixture
def loop(
    tmp_path: Path, kafka_pair: KafkaPair, zookeeper_server: ZooKeeperServer, pinot_server: PinotServer
) -> Iterator[Loop]:
    made = Loop(tmp_path, kafka_pair, zookeeper_server, pinot_server)
    apply_tables(pinot_server, kafka_pair.destination.address)
    yield made
    made.instance.stop()


def test_a_breach_is_ended_by_a_rebalance_by_the_loads_in_pinot(loop: Loop, kafka_pair: KafkaPair) -> None:
    make_topic(kafka_pair.source.address, loop.topic, PARTITIONS)
    with ExitStack() as running:
        running.enter_context(loop.held("pmp", "sampler", "--cluster", loop.source))
        running.enter_context(loop.held("pmp", "run"))
        loop.instance.start()
        first, second = _place_by_count(loop)
        writing, set_rates = running.enter_context(traffic(kafka_pair.source.address, loop.topic))
        set_rates(HEAVY, {first, second})
        _loads_are_known(loop, {first, second})
        monitor = running.enter_context(loop.held("monitor", "--at", loop.instance.address))
        _heavy_partitions_are_separated(loop, first, second)
        assert "latency objective breached" in loop.events(monitor)
        kafka_pair.source.kill()
        set_rates(LIGHT, set())
        for _ in range(JUDGEMENTS):
            wait_until(loop.is_judged_halted, "nothing is copied of a dead source, and a judgement says so")
        assert CLOSED not in loop.events(monitor), "an incident does not close because nothing flows"
        kafka_pair.source.start()
        wait_until(lambda: CLOSED in loop.events(monitor), "the incident is closed")
        wait_until(lambda: loop.judgement() == (0, "within"), "a judgement says so, too")
        assert loop.budget_left() < 1, "what was late, and the silence, have used up a part of it"
    _audit(loop, kafka_pair, writing.written)


def _place_by_count(loop: Loop) -> tuple[int, int]:
    """A datastream of two tasks, planned while nothing is known; two partitions of the same task."""
    loop.instance.rest.post(
        "/v1/datastreams",
        {
            "name": loop.source,
            "source": {"cluster": loop.source, "topics": loop.topic},
            "destination": {"cluster": "destination", "name": "copy.*"},
            "limits": {"min_tasks": 2, "max_tasks": 2},
            "objective": {"milliseconds": OBJECTIVE_MS},
            "objectives": [BUDGET],
            "metadata": {"owner": "tests"},
        },
    )
    wait_until(lambda: sum(map(len, loop.tasks().values())) == PARTITIONS, "everything is planned")
    (first, second, *_), _ = map(sorted, loop.tasks().values())
    return first, second


def _loads_are_known(loop: Loop, heavy: set[int]) -> None:
    """Until Pinot has each partition's own rate; nobody has moved anything yet."""

    def known() -> dict[int, float] | None:
        loads = loop.loads()
        return loads if all(loads.get(number, 0.0) > HEAVY * 0.8 for number in heavy) else None

    loads = wait_until(known, "Pinot has the loads of the heavy partitions", interval_seconds=1.0)
    assert loads is not None
    assert set(loads) == set(range(PARTITIONS))
    assert all(loads[number] < HEAVY / 10 for number in set(loads) - heavy), loads
    assert loop.together(*heavy)
    wait_until(lambda: loop.judgement() == (1, "breached"), "what one task cannot bear is late")


def _heavy_partitions_are_separated(loop: Loop, first: int, second: int) -> None:
    wait_until(lambda: not loop.together(first, second), "the heavy partitions are separated")
    plan = plan_of(loop.instance.rest)
    assert "monitor asked: latency breach" in plan["reason"]
    heavy = {f"{loop.topic}-{first}", f"{loop.topic}-{second}"}
    move = next(one for one in moves_of(loop.instance.rest, plan["epoch"]) if one["partition"] in heavy)
    fullness = re.search(r"([\d.]+) % -> ([\d.]+) %", str(move["why"]))
    assert fullness is not None, move
    before, after = (float(number) * USABLE / 100 for number in fullness.groups())
    # The mirror itself cannot have measured more than its limit lets it copy: this is what Pinot says.
    assert before > TASK_LIMIT
    assert LIGHT < after < USABLE


def _audit(loop: Loop, kafka_pair: KafkaPair, written: int) -> None:
    """Complete at first; what does not belong there is found once the copy has gone past it."""
    _is_copied(loop, written)
    command = ("audit", loop.source, "--at", loop.instance.address)
    code, (row,) = loop.run(*command)
    assert (code, row["topic"], row["complete"]) == (0, loop.topic, True)
    assert (row["source_records"], row["destination_records"]) == (written, written)
    produce(
        kafka_pair.destination.address,
        f"copy.{loop.topic}",
        [Record(0, b"k", b"stranger", (), 1_700_000_000_000)],
    )
    after = Record(0, b"k", b"after", (), 1_700_000_000_000)
    produce(kafka_pair.source.address, loop.topic, [after])
    _is_copied(loop, written + 1)
    code, (row,) = loop.run(*command)
    assert (code, row["missing"], row["foreign"], row["complete"]) == (1, 0, 1, False)


def _is_copied(loop: Loop, written: int) -> None:
    path = f"/v1/datastreams/{loop.source}/progress"
    wait_until(
        lambda: sum(lane["next_offset"] for lane in loop.instance.rest.get(path)) == written,
        "every record is accounted for",
        interval_seconds=0.5,
    )
