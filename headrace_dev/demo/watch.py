"""Measures the demonstration, from REST, Pinot and the clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from headrace.console.client import RestClient
from headrace.settings import HeadraceSettings
from headrace_dev.demo.claims import LatencyPhase, TaskLoads
from headrace_dev.demo.scenario import DATASTREAM, USABLE
from mirror.adapters.system_clock import SystemClock
from mirror.errors import HeadraceError
from mirror.model.latency import percentile_ms
from pinot.client import PinotClient
from pinot.partitions.load_queries import partition_rates
from pinot.partitions.offending_partitions import offending_partitions
from pinot.queries import LatencyRow, latency_by_datastream, latency_by_task
from pinot.tables import Statistic
from pinot.time_range import TimeRange


class Watch:
    """Takes the measurements of the demonstration, and the time since its start."""

    def __init__(self, settings: HeadraceSettings) -> None:
        self._client = PinotClient(settings.pinot)
        self._clock = SystemClock()
        self._began = time.monotonic()

    def close(self) -> None:
        """Close the connection to Pinot."""
        self._client.close()

    def seconds(self) -> float:
        """Return the seconds since the start of the demonstration."""
        return time.monotonic() - self._began

    def now_ms(self) -> int:
        """Return the wall-clock time in epoch ms."""
        return self._clock.now_ms()

    def latency(self, title: str, since_ms: int, until_ms: int) -> LatencyPhase:
        """Return the latency of the whole datastream in a time range."""
        rows = [
            row
            for row in latency_by_datastream(self._client, TimeRange(since_ms, until_ms))
            if row.datastream == DATASTREAM
        ]
        counts = rows[0].counts if rows else (0,)
        return LatencyPhase(
            title,
            percentile_ms(counts, 50) or 0.0,
            percentile_ms(counts, 99) or 0.0,
            rows[0].records if rows else 0,
        )

    def recent_latency(self, seconds: float) -> LatencyPhase:
        """Return the latency of the whole datastream in the last `seconds`."""
        now = self.now_ms()
        return self.latency("", now - int(seconds * 1000), now)

    def latency_by_task(self, seconds: float) -> list[LatencyRow]:
        """Return the latency of each task in the last `seconds`."""
        return latency_by_task(self._client, TimeRange.up_to(self.now_ms(), int(seconds * 1000)), DATASTREAM)

    def partition_loads(self, seconds: float) -> dict[str, float]:
        """Map each source partition (`topic-number`) to its bytes per second, from samples in Pinot."""
        when = TimeRange.up_to(self.now_ms(), int(seconds * 1000))
        rows = partition_rates(self._client, "source", when, statistic=Statistic.MEAN)
        return {f"{row.topic}-{row.kafka_partition}": row.inflow for row in rows}

    def hot_partitions(self, seconds: float) -> list[dict[str, object]]:
        """Return partitions that use more than half of a task's usable capacity, largest first."""
        when = TimeRange.up_to(self.now_ms(), int(seconds * 1000))
        return [
            {
                "partition": f"{row.topic}-{row.kafka_partition}",
                "bytes_per_second": round(row.bytes_per_second),
                "share_of_usable_capacity": f"{row.share:.0%}",
                "times_the_topic_mean": round(row.skew, 1),
            }
            for row in offending_partitions(self._client, "source", when, USABLE)
        ]

    def sampled(self) -> bool:
        """Return whether Pinot already has loads of partitions."""
        try:
            return any(rate > 0 for rate in self.partition_loads(15).values())
        except HeadraceError:
            return False


def task_loads(title: str, plan: Mapping[str, Any], loads: Mapping[str, float]) -> TaskLoads:
    """Add up the loads of the partitions in each task of the plan."""
    return TaskLoads(
        title,
        {
            task["task"]: sum(loads.get(partition, 0.0) for partition in task["partitions"])
            for task in plan["tasks"]
        },
    )


def plan_of(client: RestClient) -> dict[str, Any]:
    """Return the current plan of the datastream."""
    plan: dict[str, Any] = client.get("/v1/plan")
    return plan


def moves_of(client: RestClient, epoch: int) -> list[dict[str, object]]:
    """Return the partitions that the plan of an epoch moved, with the reasons."""
    return [
        {
            "partition": f"{event['topic']}-{event['kafka_partition']}",
            "from": f"{event['from_task'] or '-'} on {event['from_instance'] or '-'}",
            "to": f"{event['to_task'] or '-'} on {event['to_instance'] or '-'}",
            "why": event["sentence"],
        }
        for event in client.get("/v1/events", limit=2000)
        if event["plan_epoch"] == epoch and event["kind"] == "move"
    ]
