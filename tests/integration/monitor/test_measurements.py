"""Measurements read from Pinot: datastreams that share tasks, and lanes without recent reports."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import pytest

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.topics import EVERY_TOPIC, TopicSelection
from mirror.settings import KafkaCluster
from monitor.adapters.pinot_measurements import PinotMeasurements
from monitor.adapters.topic_measurements import TopicMeasurements
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.tally import late_records
from monitor.latency import LatencyObservation, ObjectiveStatus, ObjectiveSubject, Source, judge, observed
from monitor.objectives.late_times import LateSpan
from monitor.objectives.past import TopicLatencySums
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

pytestmark = [pytest.mark.servers, pytest.mark.deep]


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
        _assert_the_same_past(written, PinotMeasurements(client, clock), source, now_ms)
        _assert_the_same_late_records(written, PinotMeasurements(client, clock), source, now_ms)
    assert found[source]["stuck"] == LatencyObservation(0, nothing, 0, unaged=1)
    subjects = {
        name: ObjectiveSubject(LatencyObjective(1000), source, TopicSelection(name)) for name in found[source]
    }
    standings = {name: judge(one, observed(one, found)).standing for name, one in subjects.items()}
    assert standings == {
        "fast": ObjectiveStatus.WITHIN,
        "slow": ObjectiveStatus.BREACHED,
        "stuck": ObjectiveStatus.UNKNOWN,
        "done": ObjectiveStatus.WITHIN,
        "silent": ObjectiveStatus.UNKNOWN,
        "waiting": ObjectiveStatus.BREACHED,
    }
    ages = [1_000, 5_000, *range(100_000, 100_020)]
    _assert_the_same_with_what_is_late_alone(PinotMeasurements(client, clock), source, subjects, standings)
    past = PinotMeasurements(client, clock).past(TimeRangePiece(now_ms - 60_000, now_ms), ages)
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
    _assert_the_same_where_pinot_adds_up_topics(PinotMeasurements(client, clock), source, past, now_ms)
    none = PinotMeasurements(client, clock).past(TimeRangePiece(now_ms - 1_000, now_ms), ages)
    assert source not in {place[:2] for place in none.places}


def _assert_the_same_late_records(
    written: TopicMeasurements, stored: PinotMeasurements, source: Source, now_ms: int
) -> None:
    """Neither has an earlier report that bounds the age of late records better than their bucket."""
    one, other = (place.late([source], now_ms - 60_000, 1_000)[source] for place in (written, stored))
    assert one.keys() == other.keys() == {"slow", "waiting"}
    for topic, late in one.items():
        assert late._replace(spans=sorted(late.spans)) == other[topic]._replace(
            spans=sorted(other[topic].spans)
        )
    assert [*one["slow"].spans] == [LateSpan(now_ms - 5_000 - 8_192, now_ms - 5_000, 8_192)]
    assert (one["waiting"].recent_age_ms, len(one["waiting"].spans)) == (4_000, 3)
    assert stored.late([Source("of nobody", "c")], now_ms - 60_000, 1_000) == {}


def _assert_the_same_past(
    written: TopicMeasurements, stored: PinotMeasurements, source: Source, now_ms: int
) -> None:
    """Compare the past of whole minutes too, since the monitor queries these."""
    minutes = [
        TimeRangePiece(at - 60_000, at) for at in range(now_ms // 60_000 * 60_000, now_ms - 120_000, -60_000)
    ]
    for piece in (TimeRangePiece(now_ms - 60_000, now_ms), *minutes):
        one, other = (place.past(piece, [1_000, 5_000]) for place in (written, stored))
        known = [
            {
                place: (found.records[at], [pytest.approx(late[at]) for late in found.late.values()])
                for at, place in enumerate(found.places)
                if place[:2] == source
            }
            for found in (one, other)
        ]
        assert known[0] == known[1]
        assert [
            {place: waited for place, waited in stale.items() if place[:2] == source}
            for stale in one.stale_seconds.values()
        ] == [
            {place: waited for place, waited in stale.items() if place[:2] == source}
            for stale in other.stale_seconds.values()
        ]


def _assert_the_same_where_pinot_adds_up_topics(
    stored: PinotMeasurements, source: Source, past: TopicLatencySums, now_ms: int
) -> None:
    """Compare also while other sources are read by topic."""
    every, other = (
        ObjectiveSubject(LatencyObjective(1000), source, TopicSelection(".*")),
        Source("nobody", "else"),
    )
    apart = stored.observe(60.0)
    for together in ([source], [source, other]):
        found = stored.observe(60.0, 0, together)
        assert set(found[source]) == {EVERY_TOPIC}
        assert observed(every, found) == observed(every, apart)
        assert {one: found[one] for one in found if one != source} == {
            one: apart[one] for one in apart if one != source
        }
    assert stored.observe(60.0, 0, [other]) == apart
    summed = stored.past(TimeRangePiece(now_ms - 60_000, now_ms), sorted(past.late), [source])
    (number,) = [number for number, place in enumerate(summed.places) if place[:2] == source]
    own = [number for number, place in enumerate(past.places) if place[:2] == source]
    assert summed.places[number] == (*source, EVERY_TOPIC)
    assert summed.records[number] == sum(past.records[one] for one in own)
    for age, late in past.late.items():
        assert summed.late[age][number] == pytest.approx(sum(late[one] for one in own))
    assert summed.stale_seconds == past.stale_seconds


def _assert_the_same_with_what_is_late_alone(
    stored: PinotMeasurements,
    source: Source,
    subjects: Mapping[str, ObjectiveSubject],
    standings: Mapping[str, ObjectiveStatus],
) -> None:
    """Check that ages below every objective are not read from Pinot, and change no verdict."""
    whole, late = stored.observe(60.0), stored.observe(60.0, 1_000)
    assert {name: judge(one, observed(one, late)).standing for name, one in subjects.items()} == standings
    for name, one in whole[source].items():
        # The age of a lane without recent reports is always read.
        assert late[source][name].lag_ms == one.lag_ms or max(one.lag_ms, late[source][name].lag_ms) <= 1_000
    assert {name: one.unaged for name, one in late[source].items()} == {
        name: one.unaged for name, one in whole[source].items()
    }
