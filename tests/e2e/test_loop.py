"""The whole loop with commands on real servers: sampler, Spark job, Pinot, leader, monitor, audit.

All tests share one service, which leaves an overfull task unchanged until a rebalance is requested.

Two partitions with nearly all of the load are in one task, because no loads were known at their placement.
The task cannot carry both; the latency objective is breached, the monitor requests a rebalance, and the
leader separates them based on the loads in Pinot. Then the source is down for a while, which closes no
incident.

The load of another datastream grows until one task cannot carry it, and falls again: the leader adds tasks
without a request, and removes them once no remembered load needs them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from headrace_dev.demo.watch import moves_of, plan_of
from stack.jars.spark import job_environment
from stack.kafka import KafkaCluster, NodePorts
from stack.pinot import PinotServer
from stack.process.managed_process import ManagedProcess
from stack.server import Jvm
from stack.traffic.writer import Traffic
from tests.kafka_data import Record, make_topic, produce
from tests.metrics_data import apply_tables
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair
from tests.traffic import set_rates, traffic

pytestmark = [pytest.mark.servers, pytest.mark.long]

PARTITIONS: Final = 6
TASK_LIMIT: Final = 300_000
"""Maximum bytes per second of a task, which is also the capacity that the planner uses."""
PERCENT: Final = 80
USABLE: Final = TASK_LIMIT * PERCENT // 100
HEAVY: Final = 210_000.0
STILL_HEAVY: Final = 160_000.0
"""Too much for one task together, as HEAVY is; apart, the backlogs drain in two thirds of the time."""
LIGHT: Final = 2_000.0
OBJECTIVE_MS: Final = 5_000
"""Long enough for a busy machine, and soon exceeded by the backlog of an overfull task."""
JUDGEMENTS: Final = 4
"""One more than the good verdicts that close an incident; the monitor judges at least as often meanwhile."""
BUDGET: Final = {
    "milliseconds": OBJECTIVE_MS,
    "target_percent": 99.0,
    "percentile": 0.001,
    "window_seconds": 10,
    "period_days": 1,
}
"""Error budget whose percentile is met whenever that of the short form is, so that it changes no verdict."""
CLOSED: Final = "latency objective met again"
LITTLE: Final = 15_000.0
MUCH: Final = 90_000.0
"""Bytes per second of each partition: with LITTLE all fit into one task, with MUCH they need three."""
REPLAN_SECONDS: Final = 2.0
REMEMBERED_SECONDS: Final = 10.0

SETTINGS: Final = """
[clusters.{source}]
bootstrap_servers = "{source_address}"
[clusters.destination]
bootstrap_servers = "{destination_address}"
[coordination]
cluster = "destination"
topic = "coordination-{source}"
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
replan_interval_seconds = {replan}
scale_in_after_hours = {remembered}
[assigner]
overload_band = 1.0
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
trigger_interval_seconds = 4.0
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
    """Service of one instance with its settings file, and the related commands."""

    def __init__(self, folder: Path, kafka: KafkaPair, pinot: PinotServer) -> None:
        self.source = f"loop-{uuid4().hex[:8]}"
        self.kafka = kafka
        self.folder = folder
        self.config = folder / "headrace.toml"
        self.config.write_text(
            SETTINGS.format(
                source=self.source,
                source_address=kafka.source.address,
                destination_address=kafka.destination.address,
                controller=pinot.controller_address,
                broker=pinot.broker_address,
                folder=folder,
                limit=TASK_LIMIT,
                percent=PERCENT,
                replan=REPLAN_SECONDS,
                remembered=REMEMBERED_SECONDS / 3_600,
            )
        )
        self._environment = {"HEADRACE_CONFIG": str(self.config)}
        self.instance = RunningInstance("one", folder, self._environment)

    def run(self, *arguments: str) -> tuple[int, Any]:
        """Run a command to completion; return its exit code and JSON output, or None without output."""
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
        """Run a command within the context; it must not exit earlier."""
        name = "-".join(arguments[:2])
        command = [sys.executable, "-m", "headrace", *arguments]
        environment = {**self._environment, **(job_environment() if name == "pmp-run" else {})}
        process = ManagedProcess(name, command, environment, self.folder / f"{name}.log", grace_seconds=60)
        process.start()
        try:
            yield process
            assert process.is_alive(), process.log_file.read_text()[-3000:]
        finally:
            process.stop()


class Stream:
    """Datastream of the service that copies a separate topic."""

    def __init__(self, loop: Loop, limits: Mapping[str, int], **more: object) -> None:
        self.loop = loop
        self.name = f"stream-{uuid4().hex[:8]}"
        self.topic = f"load-{self.name}"
        make_topic(loop.kafka.source.address, self.topic, PARTITIONS)
        loop.instance.rest.post(
            "/v1/datastreams",
            {
                "name": self.name,
                "source": {"cluster": loop.source, "topics": self.topic},
                "destination": {"cluster": "destination", "name": "copy.*"},
                "limits": limits,
                "metadata": {"owner": "tests"},
                **more,
            },
        )
        wait_until(lambda: sum(map(len, self.tasks().values())) == PARTITIONS, "everything is planned")

    def tasks(self) -> dict[str, set[int]]:
        """Return the partition numbers of each task in the current plan."""
        return {
            task["task"]: {int(name.rpartition("-")[2]) for name in task["partitions"]}
            for task in plan_of(self.loop.instance.rest)["tasks"]
            if task["datastream"] == self.name
        }

    def together(self, first: int, second: int) -> bool:
        """Return whether one task has both partitions."""
        return any({first, second} <= numbers for numbers in self.tasks().values())

    def loads(self) -> dict[int, float]:
        """Return the bytes per second of each partition that the leader has read from Pinot."""
        answer = self.loop.instance.rest.get(f"/v1/datastreams/{self.name}/loads")
        rates = {one["partition"]: one["bytes_per_second"] for one in answer["partitions"]}
        known = {number: rate for number, rate in rates.items() if rate is not None}
        return known if answer["provider"] == "pinot" else {}

    def printed_loads(self) -> dict[int, float]:
        """Return the loads in Pinot as printed by the command."""
        code, rows = self.loop.run("pmp", "loads", "--cluster", self.loop.source)
        assert code == 0
        return {row["partition"]: row["bytes_in_per_second"] for row in rows if row["topic"] == self.topic}

    def is_judged_halted(self) -> bool:
        """Return whether the monitor reports that copying has stopped; earlier records may also be late."""
        code, found = self.loop.run("monitor", "--once", "--at", self.loop.instance.address)
        return code == 1 and bool(found) and found[self.name]["is_halted"]

    def judgement(self) -> tuple[int, str]:
        """Judge once with the monitor; return its exit code and the status of the datastream."""
        code, found = self.loop.run("monitor", "--once", "--at", self.loop.instance.address)
        return code, found[self.name]["standing"] if found else "no answer"

    def budget_left(self) -> float:
        """Return the remaining error budget; the whole history is available at once."""
        _, found = self.loop.run("monitor", "--once", "--at", self.loop.instance.address)
        (budget,) = found[self.name]["budgets"]
        (burn,) = budget["burns"]
        assert burn["long_rate"] > 0
        left: float = budget["left"]
        return left

    def is_copied(self, written: int) -> None:
        """Wait until `written` source records are accounted for."""
        path = f"/v1/datastreams/{self.name}/progress"
        wait_until(
            lambda: sum(lane["next_offset"] for lane in self.loop.instance.rest.get(path)) == written,
            "every record is accounted for",
            interval_seconds=0.5,
        )

    def audit(self) -> tuple[int, dict[str, Any]]:
        """Return the exit code of the audit and its result for the topic."""
        code, (row,) = self.loop.run("audit", self.name, "--at", self.loop.instance.address)
        return code, row

    def events(self, process: ManagedProcess) -> set[str]:
        """Return the events of this datastream in a log, which also has those of other tests."""
        lines = process.log_file.read_text().splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        return {entry["event"] for entry in entries if entry.get("datastream") == self.name}

    def delete(self) -> None:
        """Delete it, so that it does not affect other tests."""
        self.loop.instance.rest.delete(f"/v1/datastreams/{self.name}")


@contextmanager
def stream_traffic(stream: Stream) -> Iterator[tuple[Traffic, Callable[[Mapping[int, float]], None]]]:
    """Write to all partitions within the context.

    The yielded function sets the bytes per second of each partition, `LIGHT` if not given.
    """
    with traffic(stream.loop.kafka.source.address) as writing:

        def set_stream_rates(rates: Mapping[int, float]) -> None:
            all_rates = {number: rates.get(number, LIGHT) for number in range(PARTITIONS)}
            set_rates(writing, {stream.topic: all_rates})

        yield writing, set_stream_rates


@pytest.fixture(scope="module")
def source_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Start a source for these tests, one of which kills it. Records of any timestamp are retained."""
    folder = tmp_path_factory.mktemp("loop-source")
    jvm, properties = Jvm(heap_mib=512, quick_start=True), {"log.retention.ms": -1}
    cluster = KafkaCluster("source", folder, [NodePorts.free()], jvm=jvm, properties=properties)
    cluster.start()
    yield cluster
    cluster.kill()
    cluster.wipe()


@pytest.fixture(scope="module")
def loop(
    tmp_path_factory: pytest.TempPathFactory,
    source_kafka: KafkaCluster,
    destination_kafka: KafkaCluster,
    pinot_server: PinotServer,
) -> Iterator[Loop]:
    pair = KafkaPair(source_kafka, destination_kafka)
    made = Loop(tmp_path_factory.mktemp("loop"), pair, pinot_server)
    apply_tables(pinot_server, destination_kafka.address)
    with made.held("pmp", "sampler", "--cluster", made.source), made.held("pmp", "run"):
        made.instance.start()
        yield made
        made.instance.stop()


@pytest.mark.parametrize("source_dies", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_breach_is_ended_by_a_rebalance_by_the_loads_in_pinot(loop: Loop, source_dies: bool) -> None:
    stream = Stream(
        loop, {"min_tasks": 2, "max_tasks": 2}, objective={"milliseconds": OBJECTIVE_MS}, objectives=[BUDGET]
    )
    (first, second, *_), _ = map(sorted, stream.tasks().values())
    source = loop.kafka.source
    with ExitStack() as running:
        writing, set_stream_rates = running.enter_context(stream_traffic(stream))
        # Half of it fits, so that no backlog grows while the loads are unknown.
        set_stream_rates({first: HEAVY / 2, second: HEAVY / 2})
        wait_until(lambda: stream.loads().get(first, 0.0) > LIGHT, "the leader has loads from Pinot")
        set_stream_rates({first: HEAVY, second: HEAVY})
        _loads_are_known(stream, {first, second})
        monitor = running.enter_context(loop.held("monitor", "--at", loop.instance.address))
        _heavy_partitions_are_separated(stream, first, second)
        set_stream_rates({first: STILL_HEAVY, second: STILL_HEAVY})
        assert "latency objective breached" in stream.events(monitor)
        if source_dies:
            source.kill()
            set_stream_rates({})
            for _ in range(JUDGEMENTS):
                wait_until(stream.is_judged_halted, "a judgement reports that copying has stopped")
            assert CLOSED not in stream.events(monitor), "the incident was closed although no records flow"
            source.start()
        wait_until(lambda: CLOSED in stream.events(monitor), "the incident is closed")
        wait_until(lambda: stream.judgement() == (0, "within"), "a judgement reports the recovery")
        assert stream.budget_left() < 1, "late records and the outage have not used the budget"
    _audit(stream, writing.written)
    stream.delete()


def _loads_are_known(stream: Stream, heavy: set[int]) -> None:
    """Wait until the leader has the rate of each partition; nothing has been moved yet."""

    def are_known() -> bool:
        loads = stream.loads()
        return all(loads.get(number, 0.0) > HEAVY * 0.8 for number in heavy)

    wait_until(are_known, "the leader has the loads of the heavy partitions")
    loads = stream.printed_loads()
    assert set(loads) == set(range(PARTITIONS))
    assert all((rate > HEAVY / 2) == (number in heavy) for number, rate in loads.items()), loads
    assert stream.together(*heavy)
    wait_until(lambda: stream.judgement() == (1, "breached"), "the records of the overfull task are late")


def _heavy_partitions_are_separated(stream: Stream, first: int, second: int) -> None:
    rest = stream.loop.instance.rest
    wait_until(lambda: not stream.together(first, second), "the heavy partitions are separated")
    plan = plan_of(rest)
    assert "monitor" in plan["reason"]
    heavy = {f"{stream.topic}-{first}", f"{stream.topic}-{second}"}
    move = next(one for one in moves_of(rest, plan["epoch"]) if one["partition"] in heavy)
    fullness = re.search(r"([\d.]+) % -> ([\d.]+) %", str(move["why"]))
    assert fullness is not None, move
    before, after = (float(number) * USABLE / 100 for number in fullness.groups())
    # The mirror cannot measure more than its own limit, so this rate is from Pinot.
    assert before > TASK_LIMIT
    assert LIGHT < after < USABLE


def _audit(stream: Stream, written: int) -> None:
    """Audit twice: complete at first, then with a foreign record once the copy has progressed past it."""
    stream.is_copied(written)
    code, row = stream.audit()
    assert (code, row["topic"], row["complete"]) == (0, stream.topic, True)
    assert (row["source_records"], row["destination_records"]) == (written, written)
    kafka = stream.loop.kafka
    produce(
        kafka.destination.address,
        f"copy.{stream.topic}",
        [Record(0, b"k", b"stranger", (), 1_700_000_000_000)],
    )
    after = Record(0, b"k", b"after", (), 1_700_000_000_000)
    produce(kafka.source.address, stream.topic, [after])
    stream.is_copied(written + 1)
    code, row = stream.audit()
    assert (code, row["missing"], row["foreign"], row["complete"]) == (1, 0, 1, False)


@pytest.mark.deep
def test_tasks_are_added_as_the_load_grows_and_given_up_as_it_falls(loop: Loop) -> None:
    stream = Stream(loop, {"min_tasks": 1, "max_tasks": 4})
    everywhere = range(PARTITIONS)
    with stream_traffic(stream) as (writing, set_stream_rates):
        set_stream_rates(dict.fromkeys(everywhere, LITTLE))
        assert len(stream.tasks()) == 1
        wait_until(lambda: min(stream.loads().values(), default=0.0) > LITTLE / 2, "the loads are known")
        assert len(stream.tasks()) == 1
        set_stream_rates(dict.fromkeys(everywhere, MUCH))
        wait_until(lambda: _is_spread(stream), "enough tasks for the load")
        assert "loads changed" in plan_of(loop.instance.rest)["reason"]
        wait_until(lambda: _carriers(stream) == set(stream.tasks()), "every task copies")
        set_stream_rates(dict.fromkeys(everywhere, LITTLE))
        wait_until(lambda: len(stream.tasks()) == 1, "one task, as the remembered load needs no more")
    stream.is_copied(writing.written)
    code, row = stream.audit()
    assert (code, row["missing"], row["duplicates"], row["foreign"]) == (0, 0, 0, 0)
    stream.delete()


def _is_spread(stream: Stream) -> bool:
    """Return whether the loads in Pinot exceed one task and fit into those of the plan.

    The result is independent of the write rate of a busy machine.
    """
    loads, tasks = stream.loads(), stream.tasks()
    carried = [sum(loads.get(number, inf) for number in numbers) for numbers in tasks.values()]
    return sum(carried) > USABLE and all(0 < load <= USABLE for load in carried)


def _carriers(stream: Stream) -> set[str]:
    """Return the tasks with copying lanes only."""
    lanes = [one for one in stream.loop.instance.lanes() if one["task"] in stream.tasks()]
    return {one["task"] for one in lanes} - {one["task"] for one in lanes if one["phase"] != "copying"}
