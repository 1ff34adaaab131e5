"""A service on real servers for the screenshots: three datastreams, two weeks of history, and an incident.

The history before the last two hours is generated rows in Pinot: loads of partitions, and latencies of the
datastream `shop`. All other figures on the pages are measured.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from headrace.console.client import RestClient
from headrace.console.durations import HOUR_MS
from headrace.settings import load_settings
from headrace_dev.demo.processes import DemoProcesses
from headrace_dev.demo.scenario import (
    INSTANCES,
    KEPT,
    OBJECTIVE_MS,
    TOPICS,
    Rates,
    shifted_rates,
    usual_rates,
)
from headrace_dev.demo.watch import Watch
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import HeadraceError
from mirror.model.metrics import MirrorMetric
from mirror.model.topics import TopicDescription
from mirror.settings import KafkaCluster
from pinot.client import PinotClient
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS_HOURLY, PartitionMetricHourly
from stack.errors import NotInTime
from stack.process.wait import wait_until
from tests.metrics_data import MetricsWorld, a_measurement, a_rollup

SHOP: Final = "shop"
_DAYS: Final = 14
_PAYMENTS: Final = "payments"
_PAYMENT_RATES: Final = {str(number): 12_000.0 for number in range(4)}
_PARTITIONS: Final = {**TOPICS, _PAYMENTS: len(_PAYMENT_RATES)}
_METRIC_MINUTES: Final = 10
_RECORDS_PER_SECOND: Final = 600
_LIMIT_MS: Final = 2 * OBJECTIVE_MS
"""Latency objective of the incident: only the overload misses it, even on a busy machine."""
_OBJECTIVE: Final = {
    "milliseconds": _LIMIT_MS,
    "percentile": 99,
    "target_percent": 99,
    "window_seconds": 10,
    "period_days": 14,
}
_DATASTREAMS: Final[tuple[tuple[str, str, str, dict[str, Any]], ...]] = (
    (SHOP, "orders|clicks", "team-shop", {"limits": {"min_tasks": 2}, "objectives": [_OBJECTIVE]}),
    ("billing", _PAYMENTS, "team-billing", {"objective": {"milliseconds": 2 * _LIMIT_MS}}),
    ("audit", "audit-log", "team-security", {}),
)
_SETTINGS: Final = {"[monitor]": "close_seconds = 20.0", "[assigner.advice]": "largest_error = 0.001"}
"""A setting of each section. Incidents close soon, because they count only while a run lasts. Plans follow
the measured loads: tasks that the forecast adds before the traffic shifts would prevent the incident."""
_PATIENCE_SECONDS: Final = 300.0
_START_SHARE: Final = 0.25
"""Share of the usual traffic until partitions are placed by load, to avoid an overload."""
_STEADY_SECONDS: Final = 120.0
"""Time without changes before the pictures of the healthy service, for the charts."""


class Scene:
    """The service for the screenshots. `start` first, then `incident`, then `recovery`; each returns when the
    pages show it."""

    def __init__(self, processes: DemoProcesses) -> None:
        self._processes = processes
        self._client: RestClient = processes.client(INSTANCES[0])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def start(self) -> None:
        """Start everything, and place all partitions by known loads."""
        processes = self._processes
        processes.start_stack()
        text = processes.settings_file.read_text()
        for section, setting in _SETTINGS.items():
            text = text.replace(section, f"{section}\n{setting}", 1)
        processes.settings_file.write_text(text)
        processes.make_topics()
        admin = KafkaAdmin(KafkaCluster(bootstrap_servers=processes.addresses["source"]))
        admin.create(TopicDescription(_PAYMENTS, len(_PAYMENT_RATES), settings=KEPT))
        processes.start_pipeline()
        processes.start_sampler()
        self._write_past()
        processes.start_instances()
        reason = "rebalances require an approval during the sale"
        self._client.patch("/v1/monitor", {"acting": False, "reason": reason, "requested_by": "ops"}, "*")
        for name, topics, owner, more in _DATASTREAMS:
            self._create(name, topics, owner, more)
        processes.start_traffic(_scaled(_rates(usual_rates()), _START_SHARE))
        with closing(Watch(load_settings(processes.settings_file))) as watch:
            self._until("Pinot has samples of all partitions", lambda: _has_samples(watch))
        self._rebalance("first loads are known")
        self._until("loads are known", self._is_measured)
        processes.set_traffic(_rates(usual_rates()))
        self._pause(30)
        self._rebalance("the normal traffic is known")
        self._until("all datastreams are healthy", self._is_quiet)

    def incident(self) -> None:
        """Shift traffic to four partitions of `orders`, until an incident has a cause while records wait."""
        self._processes.set_traffic(_rates(shifted_rates()))
        self._until("an incident has a cause while records wait", self._is_late)

    def recovery(self) -> None:
        """Let the monitor relieve the overloaded task, and wait until the service has been healthy for a
        while."""
        body = {"acting": True, "reason": "approved: the shift lasts", "requested_by": "ops"}
        self._client.patch("/v1/monitor", body, "*")
        self._until("the incident is closed", lambda: not self._open_incidents())
        self._pause(_STEADY_SECONDS)
        self._until(
            "history, advice and a healthy state are shown", lambda: self._is_quiet() and self._is_shown()
        )

    def _create(self, name: str, topics: str, owner: str, more: dict[str, Any]) -> None:
        self._client.post(
            "/v1/datastreams",
            {
                "name": name,
                "source": {"cluster": "source", "topics": topics},
                "destination": {"cluster": "destination", "name": "mirror.*"},
                "metadata": {"owner": owner},
                **more,
            },
        )

    def _rebalance(self, reason: str) -> None:
        for name, *_ in _DATASTREAMS:
            self._client.post("/v1/rebalance", {"datastream": name, "full": True, "reason": reason})

    def _write_past(self) -> None:
        """Write loads and latencies of the past weeks to Pinot."""
        settings = load_settings(self._processes.settings_file)
        with closing(PinotClient(settings.pinot)) as client:
            metrics = MetricsWorld(client, self._processes.addresses["destination"])
            now_ms = int(time.time() * 1_000)
            metrics.put(PARTITION_METRICS_HOURLY, [*_past_loads(now_ms)])
            metrics.put(MIRROR_METRICS, [*_past_latencies(now_ms)])

    def _overview(self) -> list[dict[str, Any]]:
        found: dict[str, Any] = self._client.get("/v1/overview")
        return [one for one in found["datastreams"] if found["is_complete"]]

    def _is_measured(self) -> bool:
        """Return whether the load of every partition is known."""
        return all(self._has_loads(name) for name, *_ in _DATASTREAMS)

    def _has_loads(self, name: str) -> bool:
        found = self._client.get(f"/v1/datastreams/{name}/loads")
        return bool(found["provider"] == "pinot" and found["bytes_per_second"] and not found["unknown"])

    def _open_incidents(self) -> list[dict[str, Any]]:
        return [one for one in self._client.get("/v1/incidents") if one["closed_ms"] is None]

    def _is_quiet(self) -> bool:
        """Return whether all partitions are placed and copied in time, without an open incident."""
        shown = self._overview()
        return len(shown) == len(_DATASTREAMS) and all(
            one["incident"] is None
            and one["oldest_ms"] is not None
            and one["oldest_ms"] < _LIMIT_MS / 2
            and one["bytes_per_second"]
            and not (one["unplaced"] or one["not_copied"] or one["overloaded"] or one["states"])
            and one["required_tasks"] is not None
            for one in shown
        )

    def _is_late(self) -> bool:
        shop = next((one for one in self._overview() if one["name"] == SHOP), None)
        if shop is None or shop["incident"] is None:
            return False
        waits = (shop["oldest_ms"] or 0) > 2 * _LIMIT_MS and (shop["lag_records"] or 0) > 0
        return bool(waits and shop["incident"]["cause"] and shop["budget_left"] is not None)

    def _is_shown(self) -> bool:
        """Return whether Pinot has a history and the leader an advice with a forecast."""
        late = self._client.get(f"/v1/datastreams/{SHOP}/latency/history")
        advice = self._client.get("/v1/advice")
        has_forecast = bool(advice["groups"]) and all(one["coming"] for one in advice["groups"])
        return any(late["p99_ms"]) and has_forecast and advice["past_week"] is not None

    def _until(self, condition: str, holds: Callable[[], bool]) -> None:
        """Wait for a condition; a failed request counts as no. Raises NotInTime with the current state."""

        def attempt() -> bool:
            self._processes.require_alive()
            try:
                return holds()
            except HeadraceError:
                return False

        began = time.monotonic()
        try:
            wait_until(attempt, _PATIENCE_SECONDS, condition)
        except NotInTime as error:
            raise NotInTime(f"{error}\n{self._state()}") from error
        print(f"{condition}: {time.monotonic() - began:.0f} s", flush=True)

    def _state(self) -> str:
        """Describe the datastreams and the open incidents with their latest entries."""
        found: dict[str, Any] = self._client.get("/v1/overview")
        lines = [json.dumps(one) for one in found["datastreams"]]
        return "\n".join(lines + [json.dumps(one) for one in self._open_incidents()])

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= until, seconds + 60, "time has passed")


def _rates(demo: Rates) -> Rates:
    return {**demo, _PAYMENTS: dict(_PAYMENT_RATES)}


def _scaled(rates: Rates, share: float) -> Rates:
    return {topic: {number: rate * share for number, rate in found.items()} for topic, found in rates.items()}


def _has_samples(watch: Watch) -> bool:
    """Return whether Pinot has recent samples of all partitions that are written to."""
    found = watch.partition_loads(15)
    rates = _rates(usual_rates())
    return all(found.get(f"{topic}-{number}") for topic in rates for number in rates[topic])


def _past_latencies(now_ms: int) -> Iterator[MirrorMetric]:
    """Yield the metrics of a calm past, one row for every ten minutes."""
    noise = random.Random(7)
    for minutes in range(60 * 24 * _DAYS, 120, -_METRIC_MINUTES):
        milliseconds = int(noise.uniform(15, 60))
        records = 60 * _METRIC_MINUTES * _RECORDS_PER_SECOND
        row = a_measurement(SHOP, "source", 0, now_ms - minutes * 60_000, milliseconds, milliseconds)
        yield replace(
            row,
            task=f"{SHOP}-0",
            topic="orders",
            interval_ms=_METRIC_MINUTES * 60_000,
            records_copied=records,
            bytes_copied=records * 1_000,
            latency_counts=tuple(records if count else 0 for count in row.latency_counts),
        )


def _past_loads(now_ms: int) -> Iterator[PartitionMetricHourly]:
    """Yield hourly loads with a daily cycle whose peak is now. Partitions without traffic carry nothing."""
    noise = random.Random(7)
    this_hour = now_ms // HOUR_MS * HOUR_MS
    for hours in range(24 * _DAYS, 0, -1):
        share = (0.7 + 0.3 * math.cos(hours % 24 * math.pi / 12)) * noise.uniform(0.97, 1.03)
        for topic, rates in _scaled(_rates(usual_rates()), share).items():
            for number in range(_PARTITIONS[topic]):
                rate = rates.get(str(number), 0.0)
                yield a_rollup("source", number, this_hour - hours * HOUR_MS, rate, topic)
