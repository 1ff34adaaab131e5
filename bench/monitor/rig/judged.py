"""Instance that monitors its own latency, with Pinot and an alert receiver."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from bench.coordination.rig.service import SESSION_SECONDS, started
from bench.monitor.rig.arrivals import Arrivals
from stack.pinot import PinotPorts, PinotServer
from stack.process.wait import wait_until
from stack.server import Jvm
from stack.traffic.writer import Traffic
from tests.fakes.alert_receivers import CheckingAlertmanager
from tests.kafka_data import make_topic
from tests.metrics_data import apply_tables
from tests.running import RunningInstance

PARTITIONS: Final = 6
LIMIT: Final = 300_000
"""Quota of a task in bytes per second."""
OBJECTIVE_MS: Final = 1_500
LIGHT: Final = 2_000.0
_PATIENCE_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 0.1
_SOON: Final = {"log.retention.check.interval.ms": 500, "log.initial.task.delay.ms": 500}
"""Frequent retention checks; the default is every five minutes."""


class Judged:
    """A service with one datastream of two tasks, and its traffic."""

    def __init__(
        self,
        instance: RunningInstance,
        called: CheckingAlertmanager,
        traffic: Traffic,
        arrivals: Arrivals,
        source: Consumer,
        name: str,
    ) -> None:
        self.instance = instance
        self.arrivals = arrivals
        self.name = name
        self._source = source
        self._called = called
        self._traffic = traffic

    def write(self, rates: Mapping[int, float]) -> float:
        """Set the bytes per second of these partitions, and a low rate for all others; return the time."""
        wanted = {str(number): rates.get(number, LIGHT) for number in range(PARTITIONS)}
        self._traffic.set_rates(json.dumps({self.name: wanted}))
        return time.monotonic()

    def tasks(self) -> list[set[int]]:
        """Return the planned partitions of each task."""
        return [{int(name.rpartition("-")[2]) for name in names} for names in self._plan().values()]

    def is_in_force(self, first: int, second: int) -> bool:
        """Return whether the two partitions are in different tasks and every lane copies as planned."""
        if any({first, second} <= task for task in self.tasks()):
            return False
        plan, lanes = self._plan(), self.instance.lanes()
        return len(lanes) == PARTITIONS and all(
            lane["phase"] == "copying" and lane["partition"] in plan.get(lane["task"], ()) for lane in lanes
        )

    def _plan(self) -> dict[str, list[str]]:
        return {task["task"]: task["partitions"] for task in self.instance.rest.get("/v1/plan")["tasks"]}

    def is_late(self) -> bool:
        """Return whether p99 of the records of the last five seconds is above the objective."""
        return self.arrivals.p99_ms(5.0) > OBJECTIVE_MS

    def has_logged(self, text: str) -> bool:
        """Return whether the log of the instance contains the text."""
        return text in self.instance.log_file.read_text()

    def is_called(self, alert: str, *, resolved: bool = False) -> bool:
        """Return whether the alert was sent; with `resolved`, whether it was last sent as resolved."""
        states = [
            one["endsAt"] <= _now()
            for request in self._called.requests
            for one in request.document
            if one["labels"]["alertname"] == alert
        ]
        return bool(states) and (states[-1] if resolved else True)

    def has_lost(self, partition: int) -> bool:
        """Return whether the source has deleted records after the stored checkpoint."""
        place = TopicPartition(self.name, partition)
        begin, _ = self._source.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)
        rows = self.instance.rest.get(f"/v1/datastreams/{self.name}/progress")
        return any(row["partition"] == partition and (row["next_offset"] or 0) < begin for row in rows)

    def until(self, is_so: Callable[[], bool], label: str) -> float:
        """Wait for the condition, and return the time at which it became true."""
        wait_until(is_so, _PATIENCE_SECONDS, label, interval_seconds=_LOOK_SECONDS)
        return time.monotonic()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".999Z"


@contextmanager
def judged(settings: Mapping[str, str], objectives: list[dict[str, Any]], **topic: str) -> Iterator[Judged]:
    """Run the service with default settings except those given, for the context.

    `topic`: settings of the source topic, with underscores for dots.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pinot = PinotServer("pinot", folder / "pinot", PinotPorts.free(), jvm=Jvm(heap_mib=1024))
        pinot.start()
        stack.callback(pinot.kill)
        called = stack.enter_context(CheckingAlertmanager())
        site = started(stack, (), {}, _SOON)
        source, target, name = site.pair.source.address, site.pair.target.address, f"load-{uuid4().hex[:8]}"
        apply_tables(pinot, target)
        make_topic(source, name, PARTITIONS, **topic)
        environment = {
            **site.store.environment(SESSION_SECONDS),
            "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": source,
            "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": target,
            "HEADRACE_PINOT__CONTROLLER": pinot.controller_address,
            "HEADRACE_PINOT__BROKER": pinot.broker_address,
            "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
            "HEADRACE_MIRROR__WORKER__TASK_BYTES_PER_SECOND_LIMIT": str(LIMIT),
            "HEADRACE_MIRROR__LEADER__TASK_CAPACITY_BYTES_PER_SECOND": str(LIMIT),
            "HEADRACE_MONITOR__ENABLED": "true",
            "HEADRACE_MONITOR__ALERTS__ALERTMANAGERS__HERE__URL": called.url,
            **settings,
        }
        instance = RunningInstance("one", folder, environment)
        stack.callback(instance.stop)
        instance.start()
        _create(instance, name, objectives)
        traffic = Traffic(source)
        thread = threading.Thread(target=traffic.run, name="traffic")
        stack.callback(thread.join)
        stack.callback(traffic.stop)
        thread.start()
        arrivals = stack.enter_context(Arrivals(target, f"copy.{name}", PARTITIONS))
        looking = Consumer({"bootstrap.servers": source, "group.id": uuid4().hex})
        stack.callback(looking.close)
        yield Judged(instance, called, traffic, arrivals, looking, name)


def _create(instance: RunningInstance, name: str, objectives: list[dict[str, Any]]) -> None:
    instance.rest.post(
        "/v1/datastreams",
        {
            "name": name,
            "source": {"cluster": "source", "topics": name},
            "destination": {"cluster": "destination", "name": "copy.*"},
            "limits": {"min_tasks": 2, "max_tasks": 2},
            "objective": {"milliseconds": OBJECTIVE_MS},
            "objectives": objectives,
            "metadata": {"owner": "bench"},
        },
    )

    def copies() -> bool:
        lanes = instance.lanes()
        return len(lanes) == PARTITIONS and all(lane["phase"] == "copying" for lane in lanes)

    wait_until(copies, 120.0, "every lane copies")
