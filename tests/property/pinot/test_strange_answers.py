"""Any response in place of Pinot's gives a result or a Headrace error, never another exception."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import AnalyticsError, HeadraceError
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition, TopicSelection
from monitor.adapters.pinot_measurements import PinotMeasurements
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import ObjectiveSubject, Source
from monitor.objectives.late_times import lateness_of
from monitor.objectives.verdicts import judge_all
from pinot import queries
from pinot.client import PinotClient
from pinot.history.hourly_loads import partition_hours, topics_hours
from pinot.history.latency import latency_steps
from pinot.partitions import load_queries, offending_partitions, rollups
from pinot.partitions.pages import Grain
from pinot.time_range import TimeRange
from pmp.loads.provider import PinotLoadProvider
from pmp.settings import PmpSettings
from tests.fakes.clock import ManualClock
from tests.fakes.pinot_wire import answer_of, answering, columns_of

NOW_MS: Final = 1_795_000_000_000
WHEN: Final = TimeRange.up_to(NOW_MS, 3_600_000)
PLACES: Final = (TopicPartition("t", 0),)
SUBJECT: Final = ObjectiveSubject(
    LatencyObjective(1_000, 99.0), Source("g", "c"), TopicSelection("t"), objectives=(Objective(1_000, 99.0),)
)


def judged(client: PinotClient) -> object:
    found = PinotMeasurements(client, ManualClock(NOW_MS)).observe(60.0, 5, ())
    return judge_all(SUBJECT, {60.0: found, float(SUBJECT.objectives[0].window_seconds): found}, 60.0)


def past(client: PinotClient) -> object:
    return PinotMeasurements(client, ManualClock(NOW_MS)).past(
        TimeRangePiece(NOW_MS - 60_000, NOW_MS), [1_000, 2_000]
    )


def late(client: PinotClient) -> object:
    found = PinotMeasurements(client, ManualClock(NOW_MS)).late([SUBJECT.source], NOW_MS - 60_000, 1_000)
    return lateness_of(SUBJECT, found, 1_000)


def loads(client: PinotClient) -> object:
    return PinotLoadProvider(client, PmpSettings(), ManualClock(NOW_MS)).loads(ClusterRef("c"), PLACES)


QUESTIONS: Final[Sequence[Callable[[PinotClient], object]]] = (
    lambda client: client.ask("select n from t limit 1"),
    lambda client: queries.latency_by_partition(client, WHEN),
    lambda client: queries.lag_by_partition(client, WHEN),
    lambda client: queries.placement_events(client, WHEN),
    lambda client: queries.incidents(client, WHEN),
    lambda client: queries.mirror_rates(client, "c", WHEN, ["t"], 1_000.0),
    lambda client: load_queries.partition_rates(client, "c", WHEN),
    lambda client: load_queries.partition_rates(client, "c", WHEN, grain=Grain.HOURS),
    lambda client: load_queries.topic_rates(client, "c", WHEN),
    lambda client: load_queries.top_movers(client, "c", WHEN),
    lambda client: load_queries.freshness(client, WHEN),
    lambda client: load_queries.newest_sample(client, "c", WHEN),
    lambda client: offending_partitions.offending_partitions(client, "c", WHEN, 10.0),
    lambda client: rollups.sampled_hours(client, WHEN),
    lambda client: rollups.rolled_up_hours(client, WHEN),
    lambda client: list(rollups.hour_pages(client, rollups.Hour("c", NOW_MS))),
    lambda client: latency_steps(client, GroupName("g"), WHEN, 10),
    lambda client: partition_hours(client, "c", WHEN, PLACES),
    lambda client: topics_hours(client, "c", WHEN, ["t"]),
    judged,
    past,
    late,
    loads,
)
BODIES: Final = (
    b"",
    b"<html>not here</html>",
    b"\xff\0",
    b"null",
    b"7",
    b"[]",
    b"[" * 10_000,
    b"{}",
    b'{"numServersQueried": "many"}',
    b'{"exceptions": 5}',
    b'{"exceptions": [5]}',
    b'{"exceptions": [{"errorCode": "x"}]}',
    b'{"resultTable": 5, "numServersQueried": 1, "numServersResponded": 1, "exceptions": []}',
    b'{"resultTable": {"rows": 7}, "numServersQueried": 1, "numServersResponded": 1, "exceptions": []}',
)
values: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, "", "t", "\ud800", [], {}, 0, 1, -1, 1.5, NOW_MS, 2**63, 10**400, float("nan"), float("inf")]
)
"""Values for any column; most are valid in some columns only."""


class Wire:
    """Server with one body for every query, or with rows of the requested width."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.rows: Sequence[Sequence[Any]] = ()

    def answer(self, sql: str) -> bytes:
        if self.body is not None:
            return self.body
        width = columns_of(sql)
        return answer_of([[row[number % len(row)] for number in range(width)] for row in self.rows], sql)


@pytest.fixture(scope="module")
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="module")
def client(wire: Wire) -> Iterator[PinotClient]:
    with answering(wire.answer, attempts=1) as broker, closing(PinotClient(broker)) as made:
        yield made


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:40].decode("utf-8", "replace"))
def test_what_is_no_answer_of_pinot_is_said_to_be_none(wire: Wire, client: PinotClient, body: bytes) -> None:
    wire.body = body
    with pytest.raises(AnalyticsError) as found:
        client.ask("select n from t limit 1")
    assert "Pinot" in found.value.message


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
@given(rows=st.lists(st.lists(values, min_size=1, max_size=40), max_size=3))
def test_rows_may_hold_anything(wire: Wire, client: PinotClient, number: int, rows: list[list[Any]]) -> None:
    wire.body, wire.rows = None, rows
    with contextlib.suppress(HeadraceError):
        QUESTIONS[number](client)
