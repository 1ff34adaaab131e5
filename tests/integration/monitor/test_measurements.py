"""What the monitor reads of Pinot: datastreams that share tasks, lanes that have said nothing of late."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import pytest

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.metrics import LATENCY_BUCKETS
from mirror.model.topics import TopicSelection
from mirror.settings import KafkaCluster
from monitor.adapters.pinot_measurements import PinotMeasurements
from monitor.adapters.topic_measurements import TopicMeasurements
from monitor.burn.pieces import Piece
from monitor.burn.tally import late_records
from monitor.latency import Observation, Source, Standing, Subject, judge, observed
from pinot.client import PinotClient
from pinot.tables import MIRROR_METRICS
from stack.pinot import PinotServer
from tests.fakes.clock import ManualClock
from tests.metrics_data import (
    ROWS_WRITTEN_MS,
    MetricsWorld,
    a_measurement,
    apply_tables,
    fresh_name,
    pinot_settings,
)
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers


def test_each_datastream_of_a_group_is_judged_by_its_own_topics(
    pinot_server: PinotServer, kafka_pair: KafkaPair
) -> None:
    apply_tables(pinot_server, kafka_pair.destination.address)
    with closing(PinotClient(pinot_settings(pinot_server))) as client:
        _judge_rows(client, kafka_pair.destination.address)


def _judge_rows(client: PinotClient, address: str) -> None:
    world = MetricsWorld(client, address)
    clock = ManualClock()
    clock.advance((ROWS_WRITTEN_MS - clock.now_ms()) / 1000 + 30)
    group, cluster, now_ms = fresh_name("group"), fresh_name("source"), clock.now_ms()
    fast, slow = (a_measurement(group, cluster, 0, now_ms - 5_000, late, 0) for late in (3, 5_000))
    nothing = (0,) * LATENCY_BUCKETS
    stuck = replace(slow, topic="stuck", records_copied=0, lag_records=7, lag_ms=None, latency_counts=nothing)
    before = replace(fast, time_ms=now_ms - 30_000)
    rows = [
        replace(fast, topic="fast"),
        replace(slow, topic="slow"),
        stuck,
        replace(before, topic="done"),
        replace(before, topic="silent", lag_records=7, lag_ms=300),
        *(
            replace(fast, topic="waiting", kafka_partition=number, time_ms=now_ms - ago_ms, lag_ms=age_ms)
            for number, ago_ms, age_ms in (
                (0, 5_000, 4_000),
                (1, 6_000, 4_000),
                (0, 35_000, 4_000),
                (0, 45_000, 500),
                (1, 55_000, None),
            )
        ),
    ]
    world.put(MIRROR_METRICS, rows)
    source = Source(group, cluster)
    found = PinotMeasurements(client, clock).observe(60.0)
    servers = KafkaCluster(bootstrap_servers=address)
    with closing(TopicMeasurements(servers, MIRROR_METRICS.topic, clock)) as written:
        assert written.observe(60.0)[source] == found[source]
    assert found[source]["stuck"] == Observation(0, nothing, 0, unaged=1)
    subjects = {name: Subject(LatencyObjective(1000), source, TopicSelection(name)) for name in found[source]}
    standings = {name: judge(one, observed(one, found)).standing for name, one in subjects.items()}
    assert standings == {
        "fast": Standing.WITHIN,
        "slow": Standing.BREACHED,
        "stuck": Standing.UNKNOWN,
        "done": Standing.WITHIN,
        "silent": Standing.UNKNOWN,
        "waiting": Standing.BREACHED,
    }
    ages = [1_000, 5_000, *range(100_000, 100_020)]
    _assert_the_same_with_what_is_late_alone(PinotMeasurements(client, clock), source, subjects, standings)
    past = PinotMeasurements(client, clock).past(Piece(now_ms - 60_000, now_ms), ages)
    numbers = {place[2]: number for number, place in enumerate(past.places) if place[:2] == source}
    assert past.records[numbers["slow"]] == sum(slow.latency_counts)
    assert {topic: {age: past.late[age][number] for age in ages} for topic, number in numbers.items()} == {
        topic: {age: pytest.approx(late_records(found[source][topic].counts, age)) for age in ages}
        for topic in numbers
    }
    stale = {
        age: {place: one for place, one in past.stale_seconds[age].items() if place[:2] == source}
        for age in ages
    }
    assert stale == {1_000: {(*source, "waiting"): 20.0}, **{age: {} for age in ages[1:]}}
    none = PinotMeasurements(client, clock).past(Piece(now_ms - 1_000, now_ms), ages)
    assert source not in {place[:2] for place in none.places}


def _assert_the_same_with_what_is_late_alone(
    stored: PinotMeasurements,
    source: Source,
    subjects: Mapping[str, Subject],
    standings: Mapping[str, Standing],
) -> None:
    """Ages that are late for nobody stay at Pinot, and change no verdict."""
    whole, late = stored.observe(60.0), stored.observe(60.0, 1_000)
    assert {name: judge(one, observed(one, late)).standing for name, one in subjects.items()} == standings
    for name, one in whole[source].items():
        # That of a lane which has fallen silent is read, whatever it is.
        assert late[source][name].lag_ms == one.lag_ms or max(one.lag_ms, late[source][name].lag_ms) <= 1_000
    assert {name: one.unaged for name, one in late[source].items()} == {
        name: one.unaged for name, one in whole[source].items()
    }
