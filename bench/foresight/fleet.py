"""Time and memory of the sizing advice for 500 datastreams of 400 partitions with 28 days of hourly loads.

The advice is computed by the service's own code in three steps, each of which is stored: the current need,
the forecast, and the need of past hours. A second computation follows an hour later. The history comes from
memory, not from Pinot, where a query of the sums of a datastream returns at most 672 rows, and the mean loads
of all partitions come in pages of 25,000. `DATASTREAMS`, `PARTITIONS` and `DAYS` set other numbers.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Final, cast

import numpy as np

from api.services import Services
from assigner.advice.settings import AdviceSettings
from assigner.forecast.rules import DAY, WEEK
from assigner.problem.loads import UNKNOWN_LOAD
from assigner.problem.policy import Policy
from assigner.what_if.document import Fallback
from headrace.foresight.history import HOUR_MS, PastHours
from headrace.foresight.sizing_advisor import History, Means, SizingAdvisor
from headrace.foresight.sums import PastSums, SumQuery
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.expectation import ExpectedLoads
from mirror.model.capacity.advice import Advice
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, Epoch, InstanceName, TaskName
from mirror.model.load import LoadSums, PartitionLoad, TaskCapacity
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition
from tests.builders import a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.node_store import FakeZooKeeper

_TOPICS: Final = 10
_CAPACITY: Final = TaskCapacity(10_000_000)
_TASKS: Final = 4
"""Tasks that the mean load of a datastream fills."""
_NOW_MS: Final = 1_700_000_000_000


class Fleet:
    """Datastreams with a daily and a weekly cycle, their plan, and their history in memory."""

    def __init__(self, datastreams: int, partitions: int, days: int) -> None:
        random = np.random.default_rng(1)
        self.clock = ManualClock(_NOW_MS)
        self.datastreams = [
            a_datastream(f"ds{number:03}", f"ds{number:03}-.*") for number in range(datastreams)
        ]
        self.names = {
            datastream.group: _partitions(datastream.name, partitions) for datastream in self.datastreams
        }
        self.hours = (days + 1) * DAY
        self.first_ms = (_NOW_MS // HOUR_MS - days * DAY) * HOUR_MS
        hours = np.arange(self.hours)
        self._loads: dict[str, tuple[np.ndarray[tuple[int], np.dtype[np.float64]], list[float]]] = {}
        for datastream in self.datastreams:
            shares = random.pareto(1.5, partitions) + 0.1
            day = 1 + 0.5 * np.sin((hours - random.uniform(0, DAY)) / DAY * 2 * np.pi)
            week = np.where(hours % WEEK >= 5 * DAY, random.uniform(0.3, 1.5), 1.0)
            total = _TASKS * _CAPACITY.usable_bytes_per_second * day * week
            noise = random.lognormal(0, 0.05, len(hours))
            self._loads[datastream.name] = total * noise, (shares / shares.sum()).tolist()

    def services(self) -> Services:
        """Return the part of a leader's state that the sizing advice reads."""
        now_ms = self.clock.now_ms()
        assessment = Assessment(
            *(now_ms, now_ms, _TASKS, 0, 0, 0, 0, 0, 0, 0, (), ()),
            required_tasks=_TASKS,
            task_lower_bound=_TASKS,
            max_load=0,
            max_load_lower_bound=0,
            moved_lower_bound=0,
            moves_left=0,
            cut_short=0,
            stage="",
            reasons=(),
        )
        plan = Plan(Epoch(1), tuple(self._tasks()), now_ms, "")
        found = SimpleNamespace(
            clock=self.clock,
            status=SimpleNamespace(datastreams=self.datastreams),
            plan=lambda: plan,
            assessments=lambda: dict.fromkeys(self.names, assessment),
            live=lambda: [SimpleNamespace(name="one", is_leaving=False)],
        )
        return cast(Services, found)

    def _tasks(self) -> list[TaskPlacement]:
        return [
            TaskPlacement(
                TaskName(f"{group}-{number}"), group, InstanceName("one"), frozenset(names[number::_TASKS])
            )
            for group, names in self.names.items()
            for number in range(_TASKS)
        ]

    def sums(self, _: ClusterRef, query: SumQuery, since_ms: int, until_ms: int) -> Mapping[int, LoadSums]:
        """Return the hourly load sums of a datastream."""
        totals, shares = self._loads[min(query.topics).partition("-")[0]]
        room = query.capacity.usable_bytes_per_second
        heaviest = sorted(shares, reverse=True)
        first, last = ((at - self.first_ms) // HOUR_MS for at in (since_ms, until_ms))
        found = {}
        for hour in range(max(first, 0), min(last, self.hours)):
            total = float(totals[hour])
            alone = next(place for place, one in enumerate(heaviest) if one * total <= room)
            heavy = next(place for place, one in enumerate(heaviest) if one * total <= room / 2) - alone
            rest = total * (1 - sum(heaviest[:alone]))
            found[self.first_ms + hour * HOUR_MS] = LoadSums(len(shares), total, alone, rest, 0.0, heavy)
        return found

    def loads(self, _: ClusterRef, since_ms: int, until_ms: int) -> Mapping[TopicPartition, PartitionLoad]:
        """Return the mean loads of all partitions in bytes per second."""
        first, last = ((at - self.first_ms) // HOUR_MS for at in (since_ms, until_ms))
        found = {}
        for group, names in self.names.items():
            totals, shares = self._loads[group]
            mean = float(totals[first:last].mean())
            found.update(
                {name: PartitionLoad(mean * share) for name, share in zip(names, shares, strict=True)}
            )
        return found


def _partitions(datastream: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(f"{datastream}-{number % _TOPICS}", number // _TOPICS) for number in range(count)]


def _how(_: Sequence[Datastream]) -> Fallback:
    return Fallback(_CAPACITY, UNKNOWN_LOAD, Policy())


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _advise(advisor: SizingAdvisor) -> Advice:
    """Compute the sizing advice once, and print when each of its steps was stored."""
    began, processor = time.perf_counter(), time.process_time()

    def line(label: str) -> None:
        wall, spent = time.perf_counter() - began, time.process_time() - processor
        print(f"| {label} | {wall:.1f} s | {spent:.1f} s | {_peak_mib():.0f} MiB |", flush=True)

    print("| stored | after | processor time | peak memory |\n|---|---|---|---|")
    advisor.present()
    line("current requirement (first response)")
    advice = advisor.forecast()
    line("forecast")
    while advisor.has_past_left:
        advice = advisor.past() or advice
    line("requirement of all past hours")
    return advice


def main() -> None:
    """Print the time until each step was stored, and the peak resident memory of the process."""
    datastreams, partitions, days = (
        int(os.environ.get(name, default))
        for name, default in (("DATASTREAMS", "500"), ("PARTITIONS", "400"), ("DAYS", "28"))
    )
    before = _peak_mib()
    fleet = Fleet(datastreams, partitions, days)
    services = fleet.services()
    session = FakeZooKeeper().session()
    settings = AdviceSettings(tasks_per_instance=10, history_days=days)
    history = History(PastSums(fleet.sums, days), PastHours(fleet.loads))
    store = AdviceStore(session)
    advisor = SizingAdvisor(Means(services, store, ExpectedLoads(), settings, _how, history))
    print(
        f"{datastreams} datastreams of {partitions} partitions, {days} days of hourly history from memory; "
        f"peak memory {before:.0f} MiB after the imports, {_peak_mib():.0f} MiB with plan and history\n"
    )
    advice = _advise(advisor)
    print(f"\n{advice.sentence}\npast week: {advice.past_week}")
    fleet.clock.advance(3600)
    print("\nAn hour later:\n")
    _advise(advisor)
