"""One evaluation run: writes the load on schedule and records the plans of both fleets."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.evaluation.fleets import Fleet
from bench.evaluation.inbound import InboundWatch
from bench.evaluation.rates import TOPICS, Load
from bench.evaluation.records import PlanInForce
from bench.evaluation.site import Site
from stack.traffic.writer import Traffic

WARM_UP_SECONDS: Final = 60.0
"""Time before the measured period, for Pinot to have loads and the candidate to plan with them."""
_STEP_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Course:
    """Result of an evaluation run: start of the measured period (epoch ms), plans in order, observations of
    the instances, and records written."""

    began_ms: int
    plans: list[PlanInForce]
    hosts: list[HostObservation]
    written: int


@dataclass(frozen=True, slots=True)
class HostObservation:
    """Observation of an instance at `second`: its tasks, and the bytes that it received from the source since
    the last observation. `weight`: weight of the instance."""

    second: float
    fleet: str
    instance: str
    weight: float
    tasks: int
    inbound_bytes: int


def run(site: Site, load: Load, report: Callable[[str], None]) -> Course:
    """Write the load and record plans, for the warm-up and the measured period.

    Raises RuntimeError when a process exits or a record is rejected.
    """
    sizes = {name: topic.record_bytes for name, topic in TOPICS.items()}
    traffic, failures = Traffic(site.source_address, sizes), list[BaseException]()
    thread = threading.Thread(target=_write, args=(traffic, failures), name="traffic")
    traffic.set_rates(json.dumps(load.rates(-WARM_UP_SECONDS)))
    thread.start()
    try:
        for fleet in site.fleets:
            fleet.create()
        began, plans, hosts = _watched(site, load, traffic, report)
    finally:
        traffic.stop()
        thread.join()
    if failures:
        raise RuntimeError("writing the traffic failed") from failures[0]
    return Course(round(began * 1000), plans, hosts, traffic.written)


def _write(traffic: Traffic, failures: list[BaseException]) -> None:
    try:
        traffic.run()
    except RuntimeError as error:
        failures.append(error)


def _watched(
    site: Site, load: Load, traffic: Traffic, report: Callable[[str], None]
) -> tuple[float, list[PlanInForce], list[HostObservation]]:
    """Return the start of the measured period (epoch seconds), the plans from then on, and the observations
    of the instances."""
    watches = [PlanWatch(fleet) for fleet in site.fleets]
    inbound, hosts = InboundWatch(site.fleets, site.source_address), list[HostObservation]()
    began, printed = time.time() + WARM_UP_SECONDS, -2
    while (second := time.time() - began) < load.seconds:
        traffic.set_rates(json.dumps(load.rates(second)))
        site.require_alive()
        for watch in watches:
            watch.record(second)
        received = inbound.read()
        hosts += [look for watch in watches for look in watch.hosts(second, received) if second >= 0]
        if int(second // 60) != printed:
            printed = int(second // 60)
            counts = ", ".join(f"{watch.fleet.name} {watch.tasks}" for watch in watches)
            report(f"  second {second:5.0f}: {load.total(second) / 1000:4.0f} KB/s, tasks: {counts}")
        time.sleep(_STEP_SECONDS)
    return began, [plan for watch in watches for plan in watch.plans], hosts


class PlanWatch:
    """Records each new plan of a fleet, and the one in force when the measured period starts."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.plans: list[PlanInForce] = []
        self._homes: dict[str, str] = {}
        self._tasks_of: Counter[str] = Counter()

    @property
    def tasks(self) -> int:
        """Number of tasks with partitions in the latest plan."""
        return len(set(self._homes.values()))

    def record(self, second: float) -> None:
        """Read the current plan; record it unless the measured period has not started (below 0)."""
        plan = self.fleet.plan()
        homes = {partition: task["task"] for task in plan["tasks"] for partition in task["partitions"]}
        moved = sum(self._homes.get(partition, task) != task for partition, task in homes.items())
        self._homes = homes
        self._tasks_of = Counter(task["instance"] for task in plan["tasks"] if task["partitions"])
        if second < 0 or (self.plans and self.plans[-1].epoch == plan["epoch"]):
            return
        tasks = tuple(sorted(task["task"] for task in plan["tasks"]))
        first = not self.plans
        self.plans.append(
            PlanInForce(
                0.0 if first else round(second, 1),
                self.fleet.name,
                plan["epoch"],
                tasks,
                0 if first else moved,
            )
        )

    def hosts(self, second: float, received: Mapping[str, int]) -> list[HostObservation]:
        """Return an observation of each instance. `received`: bytes of each instance since the last
        observation."""
        return [
            HostObservation(
                second, self.fleet.name, name, weight, self._tasks_of[name], received.get(name, 0)
            )
            for name, weight in self.fleet.weights.items()
        ]
