"""Test that timestamp offsets have series only for topics with wrong timestamps."""

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

OFFSETS_MS = {"t-0": -60_000, "t-1": 2_000, "t-2": 0, "u-0": 7_500, "v-0": 0}


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (MetricSettings(), {"t": -60.0, "u": 7.5}),
        (MetricSettings(top_partitions=1), {"t": -60.0}),
        (MetricSettings(top_partitions=0), {}),
        (MetricSettings(every_partition=True, top_partitions=0), {"t": -60.0, "u": 7.5}),
    ],
)
def test_a_topic_shows_its_largest_offset(settings: MetricSettings, shown: dict[str, float]) -> None:
    site = Site()
    for topic, partitions in (("t", 3), ("u", 1), ("v", 1)):
        site.source.topics[topic] = TopicDescription(topic, partitions)
    site.create(source={"cluster": "source", "topics": "t|u|v"})
    states = site.follower.workers._states
    for name, offset_ms in OFFSETS_MS.items():
        rate = LaneRate(a_key(name), SOURCE, 1.0, 1.0, 0, 0, offset_ms=offset_ms)
        states[a_key(name)] = replace(
            states[a_key(name)], phase=LanePhase.COPYING, track=LaneTrack(rate=rate)
        )
    site.follower.run_loop()
    registry = CollectorRegistry()
    registry.register(InstanceCollector(site.services.snapshot, site.clock, settings))
    text = generate_latest(registry).decode()
    found = re.findall(r'^headrace_timestamp_offset_seconds\{.*topic="(\w)"\} (.*)$', text, re.MULTILINE)
    assert {topic: float(value) for topic, value in found} == shown
