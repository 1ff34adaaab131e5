"""Test which partitions get their own series, and that the size of a scrape does not grow with the rest."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from api.metrics.collector import InstanceCollector
from api.metrics.partitions import MetricSettings
from mirror.instance.workers.lane_table import LanePhase
from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.topics import TopicDescription
from mirror.worker.protocol import LaneRate
from tests.builders import SOURCE, a_key
from tests.fakes.site import Site


def scraped(site: Site, settings: MetricSettings) -> str:
    registry = CollectorRegistry()
    registry.register(InstanceCollector(site.services.snapshot, site.clock, settings))
    return generate_latest(registry).decode()


def a_site(partitions: int) -> Site:
    """Return a site in which partition n copies n bytes per second and the first five partitions lag."""
    site = Site()
    site.source.topics["t"] = TopicDescription("t", partitions)
    site.create()
    states = site.follower.workers._states
    for number in range(partitions):
        key = a_key(f"t-{number}")
        lag_ms = max(5_000 - 1_000 * number, 0)
        rate = LaneRate(key, SOURCE, float(number), number / 10, lag_ms // 100, lag_ms)
        states[key] = replace(states[key], phase=LanePhase.COPYING, track=LaneTrack(rate=rate))
    site.follower.run_loop()
    return site


def with_series(text: str) -> set[int]:
    return {
        int(one) for one in re.findall(r'^headrace_partition_\w+\{.*partition="(\d+)"', text, re.MULTILINE)
    }


def left_out(text: str) -> float:
    (found,) = re.findall(r"^headrace_partitions_without_series (.*)$", text, re.MULTILINE)
    return float(found)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (MetricSettings(top_partitions=2), {0, 1, 38, 39}),
        (MetricSettings(top_partitions=0), set()),
        (MetricSettings(top_partitions=50), set(range(40))),
        (MetricSettings(every_partition=True, top_partitions=0), set(range(40))),
    ],
)
def test_the_latest_and_the_busiest_have_series_of_their_own(
    settings: MetricSettings, shown: set[int]
) -> None:
    text = scraped(a_site(40), settings)
    assert with_series(text) == shown
    assert left_out(text) == 40 - len(shown)


def test_a_scrape_does_not_grow_with_partitions() -> None:
    lines = [len(scraped(a_site(number), MetricSettings()).splitlines()) for number in (100, 200)]
    assert lines[0] == lines[1]


def test_their_numbers_are_those_of_the_lane() -> None:
    text = scraped(a_site(3), MetricSettings(top_partitions=1))
    labels = '{datastream="orders",partition="0",task="orders-0",topic="t"}'
    plain = text.replace('datastream="orders",task="orders-0",topic="t",partition="0"', labels[1:-1])
    for name, value in (
        ("lag_seconds", 5.0),
        ("lag_records", 50.0),
        ("bytes_per_second", 0.0),
        ("records_per_second", 0.0),
    ):
        assert f"headrace_partition_{name}{labels} {value}\n" in plain


def test_what_is_not_known_has_no_series() -> None:
    site = Site()
    site.create()
    assert with_series(scraped(site, MetricSettings())) == set()
    every = scraped(site, MetricSettings(every_partition=True))
    assert with_series(every) == set()
    assert left_out(every) == 0


def test_dead_workers_are_counted() -> None:
    site = Site()
    site.create()
    text = site.client.get("/metrics").text
    assert 'headrace_workers{state="running"} 1.0\n' in text
    assert "headrace_worker_deaths_total 0.0\n" in text
    assert "process_start_time_seconds " in text
