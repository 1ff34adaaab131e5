"""A service in memory with a hot partition and a known past and future, for the walkthrough."""

from __future__ import annotations

from typing import Final

from api.services import LatencyHistoryQuery, LoadHistoryQuery
from assigner.planner import LoadPlanner
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.instance.loads.advice_store import AdviceStore
from mirror.model.capacity.advice import Advice, GroupNeed, HourNeed, Hours, PastNeed
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.topics import TopicDescription, TopicPartition
from pinot.history.points import HOUR_MS, LatencyHistory, LatencyStep, LoadHour, begun, step_for
from tests.builders import SOURCE
from tests.fakes.site import LoadHours, Site

HOT: Final = "orders-0"
LOADS: Final = {"orders": (62.0, 6.0, 5.0, 7.0), "clicks": (12.0, 10.0, 8.0)}
"""Load of each partition, by topic."""
USABLE: Final = 80
HOT_HOURS: Final = 5


class Shop(Site):
    """One datastream `shop` of two topics; `orders-0` has been hot for five hours."""

    def __init__(self, name: str = "one") -> None:
        super().__init__(name=name, planner=LoadPlanner(), usable=USABLE)
        self.source.topics |= {name: TopicDescription(name, len(loads)) for name, loads in LOADS.items()}
        self.create("shop", source={"cluster": "source", "topics": "orders|clicks"})
        rates = {
            TopicPartition(topic, number): (load, 1.0)
            for topic, loads in LOADS.items()
            for number, load in enumerate(loads)
        }
        MeasuredLoads(self.session).publish(
            InstanceName("measurer"), InstanceMeasurements({SOURCE: rates}), self.clock.now_ms()
        )
        self.client.post("/v1/rebalance", json={"datastream": "shop"}).raise_for_status()
        self.tick()
        self.load_history = self._loads
        self.latency_history = self._latencies
        AdviceStore(self.session).put(an_advice(self.clock.now_ms()))

    def _loads(self, asked: LoadHistoryQuery) -> LoadHours:
        """Return loads that are high in the last hours and low before."""
        hours = list(begun(asked.when, HOUR_MS))
        quiet = len(hours) - HOT_HOURS
        found: dict[TopicPartition | None, list[LoadHour]] = {}
        for place in asked.places:
            high = LOADS[place.topic][place.partition]
            loads = [high / 4] * quiet + [high] * HOT_HOURS
            found[place] = [LoadHour(hour, hour, *[one] * 3) for hour, one in zip(hours, loads, strict=True)]
        return found

    def _latencies(self, asked: LatencyHistoryQuery) -> LatencyHistory:
        step = step_for(asked.when, asked.points)
        counts = [0] * LATENCY_BUCKETS
        counts[latency_bucket(90)] = 100
        values = (100, 50, (1_000.0, 500.0, 100.0, 2_000.0), 120, tuple(counts), 10_000)
        return LatencyHistory(step, [LatencyStep(begin, *values) for begin in begun(asked.when, step)])


def an_advice(now_ms: int) -> Advice:
    """Return advice: two tasks exist, three are needed, fewer at night."""
    hour = now_ms // HOUR_MS * HOUR_MS + HOUR_MS
    coming = tuple(
        HourNeed(hour + at * HOUR_MS, need, need + 1) for at, need in enumerate((3, 3, 4, 3, 2, 2, 1, 1))
    )
    return Advice(
        computed_ms=now_ms,
        tasks=2,
        instances=1,
        required_tasks=3,
        required_instances=2,
        why="",
        sentence="2 tasks on 1 instance; 3 tasks on 2 instances are needed now",
        rises=coming[2],
        peak=coming[2],
        peak_instances=2,
        sums=Hours(8, 16, 19, 8, 11),
        past_day=PastNeed(24, 48, 96, 61),
        past_week=PastNeed(150, 300, 600, 210),
        groups=(GroupNeed(GroupName("shop"), 2, 3, coming, "", 40, 0.95, 0.08),),
    )
