"""A simulated month: task counts of the service compared with a static peak and the last day's maximum.

Decides hour by hour like the leader: the observations of a day, the forecast of the next hours, consent
before a task is removed, quiet hours. The shapes are those published for clouds and caches: days and weeks
with bursts, popularity by Zipf's law (Twitter's caches, Azure's and Huawei's functions; no public trace has
the load of Kafka partitions). Slack is the share of usable task-hours without load, as in K. Rzadca et al.,
"Autopilot: workload autoscaling at Google", EuroSys 2020, which has 23 %.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.advice.settings import AdviceSettings
from assigner.forecast.rules import DAY, WEEK
from assigner.forecast.seasonal import SeasonalForecast
from assigner.planner import LoadPlanner
from assigner.problem.policy import Policy
from bench.placement.loads import CAPACITY, USABLE, Floats
from bench.placement.week import Score
from mirror.instance.loads.expectation import HOUR_MS, Expectation, with_expected
from mirror.instance.loads.observations import LoadMemory
from mirror.model.capacity.quiet_window import QuietTerms, quiet_window
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.load import LoadReport, LoadSource, PartitionLoad, TaskLimits
from mirror.model.plan import PlanningRequest
from mirror.model.topics import TopicPartition

Ints = npt.NDArray[np.int64]

_GROUP: Final = GroupName("month")
_SOURCE: Final = LoadSource(ClusterRef("simulated:9092"))
_LARGEST_SHARE: Final = 0.5
"""Largest share of a task that a partition fills; partitions that fit no task are out of scope."""
_TOPIC: Final = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """Load shape of a month. `learned`: days before the planned ones. `swing`: daily variation in either
    direction.

    `weekend`: load of a Saturday relative to a weekday. `bursts`: per topic and day, one to three hours long.
    """

    partitions: int = 200
    tasks: int = 20
    learned: int = 14
    days: int = 28
    swing: float = 0.25
    weekend: float = 0.8
    noise: float = 0.05
    bursts: float = 0.05
    skew: float = 1.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Way:
    """Policy for removing tasks. `kept_hours`: `mirror.leader.scale_in_after_hours`.

    The other fields are settings of `assigner.advice`.
    """

    name: str
    kept_hours: float
    quiet_hours: int
    consent_hours: int


HOLDING: Final = Way("holding", 24.0, 4, 6)
"""The default: tasks needed during a day stay through its nights."""
FOLLOWING: Final = Way("following", 1.0, 0, 4)
"""Removes tasks as soon as the forecast of a few hours consents."""


@dataclass(frozen=True, slots=True)
class MonthScore:
    """Figures of the planned days. `slack`, `above`: shares of task-hours.

    `reversals`: times that the number of tasks rose and fell within a day. `needs`: hours that needed more
    tasks than the day before; `announced`: hours among these that the forecast a day earlier predicted;
    `false`: share of the remaining hours for which it predicted more tasks. `saved_static`, `saved_daily`:
    task-hours saved against the month's peak and against the last day's maximum. `moved`: share of all bytes
    per hour.
    """

    tasks: tuple[int, int]
    slack: float
    above: float
    reversals: int
    needs: int
    announced: int
    false: float
    saved_static: float
    saved_daily: float
    moved: float


def month(shape: Shape) -> Floats:
    """Return bytes/s of each partition, float64[hours, partitions], the learned days first."""
    random = np.random.default_rng(shape.seed)
    hours = np.arange((shape.learned + shape.days) * DAY)
    topics = -(-shape.partitions // _TOPIC)
    popularity = np.arange(1, topics + 1) ** -shape.skew
    phase = random.uniform(-2, 2, topics)
    daily = 1 + shape.swing * np.sin((hours[:, None] - 9 + phase) / DAY * 2 * np.pi)
    weekly = np.where(hours // DAY % 7 >= 5, shape.weekend, 1.0)[:, None]
    burst = np.ones((len(hours), topics))
    for topic in range(topics):
        for start in np.flatnonzero(random.random(len(hours)) < shape.bursts / DAY).tolist():
            burst[start : start + random.integers(1, 4), topic] = random.uniform(1.3, 2.0)
    of_topic = np.arange(shape.partitions) // _TOPIC
    share = popularity[of_topic] * random.lognormal(0, 0.5, shape.partitions)
    rates = (daily * weekly * burst)[:, of_topic] * share
    rates = rates * random.lognormal(0, shape.noise, rates.shape)
    total = shape.tasks * USABLE
    rates *= total / rates.sum(axis=1).mean()
    return np.asarray(np.minimum(rates, _LARGEST_SHARE * USABLE), np.float64)


class Month:
    """One datastream planned by the leader's decisions, without servers."""

    def __init__(
        self, rates: Floats, learned: int, policy: Policy, advice: AdviceSettings, kept_hours: float
    ) -> None:
        self._rates, self._first = rates, learned * DAY
        self._totals = rates.sum(axis=1)
        self._planner, self._advice = LoadPlanner(policy), advice
        self._names = tuple(
            TopicPartition(f"topic-{number // _TOPIC:03}", number % _TOPIC)
            for number in range(rates.shape[1])
        )
        self._memory = LoadMemory(kept_hours * 3_600.0)
        self._current: dict[TopicPartition, TaskName] = {}

    def run(self) -> MonthScore:
        """Plan all hours after the learned days."""
        tasks, used, above, moved = [], [], 0, []
        for hour in range(self._first, len(self._rates)):
            before = dict(self._current)
            self._plan(hour)
            rates = dict(zip(self._names, self._rates[hour].tolist(), strict=True))
            loads: dict[TaskName, float] = {}
            for name, task in self._current.items():
                loads[task] = loads.get(task, 0.0) + rates[name]
            tasks.append(len(loads))
            used.append(sum(loads.values()))
            above += sum(load > CAPACITY.bytes_per_second for load in loads.values())
            left = (rates[name] for name, task in before.items() if self._current[name] != task)
            moved.append(sum(left) / used[-1])
        needs, announced, false = self._announced()
        needed = self._needed()
        static = int(needed[self._first :].max()) * len(tasks)
        daily = sum(
            int(needed[at // DAY * DAY - DAY : at // DAY * DAY].max())
            for at in range(self._first, len(needed))
        )
        return MonthScore(
            (min(tasks), max(tasks)),
            1 - sum(used) / (sum(tasks) * USABLE),
            above / sum(tasks),
            Score(tasks=tasks).reversals,
            needs,
            announced,
            false,
            1 - sum(tasks) / static,
            1 - sum(tasks) / daily,
            float(np.mean(moved[1:])),
        )

    def _plan(self, hour: int) -> None:
        now_ms = hour * HOUR_MS
        report = LoadReport(self._loads(self._rates[hour]), "simulated", now_ms)
        recent = self._memory.before(_SOURCE, hour * 3_600.0)
        expectation = self._expectation(hour)
        counted, earlier = with_expected(report, recent, expectation, now_ms)
        stays = expectation.to_stay_for(_GROUP, now_ms)
        request = PlanningRequest(
            _GROUP,
            self._names,
            counted.loads,
            CAPACITY,
            TaskLimits(),
            self._current,
            recent=(*stays, *earlier),
            calm=self._quiet(hour),
        )
        answer = self._planner.plan(request)
        self._current = {name: task for task, held in answer.tasks.items() for name in held}
        self._memory.note(_SOURCE, report, hour * 3_600.0)

    def _loads(self, rates: Floats) -> Mapping[TopicPartition, PartitionLoad]:
        return {name: PartitionLoad(rate) for name, rate in zip(self._names, rates.tolist(), strict=True)}

    def _expectation(self, hour: int) -> Expectation:
        """Return the forecast made before this hour for it and the next hours."""
        advice = self._advice
        ahead = max(advice.imminent_hours, advice.consent_hours)
        high = SeasonalForecast(self._totals[:hour], ahead, advice.certainty).interval().high
        hours, totals = {}, {}
        for number in range(ahead):
            totals[(hour + number) * HOUR_MS] = float(high[number])
            shape = np.maximum(self._rates[hour + number - DAY], self._rates[hour + number - WEEK])
            hours[(hour + number) * HOUR_MS] = self._loads(shape * high[number] / shape.sum())
        return Expectation(hours, advice.imminent_hours, advice.consent_hours, totals={_GROUP: totals})

    def _quiet(self, hour: int) -> str:
        """Return the reason to wait for quiet hours, judged at midnight, or an empty string."""
        known = hour // DAY * DAY
        lately = range(max(0, known - self._advice.history_days * DAY), known)
        totals = {at * HOUR_MS: float(self._totals[at]) for at in lately}
        window = quiet_window(totals, QuietTerms(self._advice.quiet_hours, self._advice.quiet_contrast))
        waits = window is not None and not window.contains(hour * HOUR_MS)
        return f"its quiet hours are {window.text}" if window is not None and waits else ""

    def _needed(self) -> Ints:
        """Return the number of tasks that the total load of each hour needs."""
        return np.asarray(np.ceil(self._totals / USABLE), np.int64)

    def _announced(self) -> tuple[int, int, float]:
        """Return hours that need more tasks than the day before, those predicted, and the false share.

        The prediction is made a day earlier. The false share is the share of the remaining hours for which it
        predicted more.
        """
        needed, needs, announced, false = self._needed(), 0, 0, 0
        for hour in range(self._first, len(needed)):
            most = needed[hour - DAY : hour].max()
            high = (
                SeasonalForecast(self._totals[: hour - DAY + 1], DAY, self._advice.certainty)
                .interval()
                .high[-1]
            )
            forecast = int(np.ceil(high / USABLE))
            if needed[hour] > most:
                needs += 1
                announced += int(forecast >= needed[hour])
            else:
                false += int(forecast > most)
        return needs, announced, false / (len(needed) - self._first - needs)


def simulate(shape: Shape, way: Way = HOLDING) -> MonthScore:
    """Simulate with the default policy of a service, but without the solver, which takes seconds per plan."""
    policy = Policy(overload_band=0.1, exact_cells=0, effort=0.2)
    advice = AdviceSettings(quiet_hours=way.quiet_hours, consent_hours=way.consent_hours)
    return Month(month(shape), shape.learned, policy, advice, way.kept_hours).run()


def row(name: str, score: MonthScore) -> str:
    """Return one table row."""
    share = 100 * score.announced / score.needs if score.needs else 100.0
    return (
        f"{name:34} {score.tasks[0]:4}-{score.tasks[1]:<4} {100 * score.slack:6.1f}% "
        f"{100 * score.above:9.3f}% "
        f"{score.reversals:9} {score.needs:5} {share:8.1f}% {100 * score.false:6.1f}% "
        f"{100 * score.saved_static:7.1f}% "
        f"{100 * score.saved_daily:7.1f}% {100 * score.moved:6.2f}%"
    )


def main() -> None:
    """Columns: tasks, slack of task-hours, task-hours above full capacity, reversals of the task count
    within a day, hours that needed more than the day before and the share predicted a day ahead, the share of
    the other hours predicted as such (false), task-hours saved against the month's peak and against the last
    day's maximum, bytes moved per hour.

    Environment: DAYS (28) and SEEDS (1,2,3).
    """
    print((main.__doc__ or "") + "\n")
    days = int(os.environ.get("DAYS", "28"))
    print(
        f"{'load':34} {'tasks':>9} {'slack':>7} {'> capacity':>8} {'reversals':>9} {'needs':>5} "
        f"{'announced':>9} {'false':>7} {'static':>8} {'daily':>8} {'moved':>7}"
    )
    for seed in (int(one) for one in os.environ.get("SEEDS", "1,2,3").split(",")):
        for name, swing, bursts in (
            ("days +-25 %", 0.25, 0.05),
            ("days +-50 %", 0.5, 0.05),
            ("no days, bursts", 0.0, 0.2),
        ):
            shape = Shape(days=days, swing=swing, bursts=bursts, seed=seed)
            for way in (HOLDING, FOLLOWING):
                print(row(f"{name}, seed {seed}, {way.name}", simulate(shape, way)), flush=True)
