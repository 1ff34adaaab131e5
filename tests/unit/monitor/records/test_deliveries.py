"""Test the number of records late in an incident: counted once, after its end, unknown if not measured."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Unreachable
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives import Objective
from mirror.model.topics import TopicSelection
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import ObjectiveSubject, Source
from monitor.objectives.past import Place, TopicLatencySums
from monitor.records.deliveries import DeliveryCounts, deliveries_of
from monitor.records.record import (
    BudgetCost,
    DeliveryCost,
    IncidentRecord,
    record_from_json,
    record_to_json,
)
from tests.fakes.clock import ManualClock

SOURCE: Final = Source("orders", "east")
MINUTE_MS: Final = 60_000
ORDERS: Final = ObjectiveSubject(
    LatencyObjective(1_000), SOURCE, TopicSelection("a|b"), objectives=(Objective(2_000, 99.5),)
)
SHORT, LONG = "p99 within 1 s", "99.5 % within 2 s over 30 d"


def sums(places: Sequence[Place]) -> TopicLatencySums:
    """Return ten records per topic: three later than one second, and one of these later than two."""
    late = {1_000: [3.0] * len(places), 2_000: [1.0] * len(places)}
    return TopicLatencySums(places, [10] * len(places), late, {})


class Stored:
    """Fake Pinot that records the queries."""

    def __init__(self) -> None:
        self.places: list[Place] = [(*SOURCE, "a"), (*SOURCE, "other"), ("clicks", "east", "a")]
        self.is_away = False
        self.asked: list[tuple[TimeRangePiece, frozenset[int], frozenset[Source]]] = []

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        if self.is_away:
            raise Unreachable("away")
        self.asked.append((piece, frozenset(milliseconds), frozenset(together)))
        return sums(self.places)


class Site:
    def __init__(self, days: int = 14) -> None:
        self.clock, self.stored = ManualClock(), Stored()
        self.counts = DeliveryCounts(self.stored, self.clock, days)
        now_ms = self.clock.now_ms()
        self.over = IncidentRecord("orders-1", "orders", "east", now_ms - MINUTE_MS, closed_ms=now_ms)


@pytest.fixture
def site() -> Site:
    return Site()


def test_it_is_counted_once_when_all_of_it_is_stored(site: Site) -> None:
    site.counts.add(site.over, ORDERS)
    site.clock.advance(29.0)
    assert not site.counts.is_due
    assert site.counts.counted() is None
    site.clock.advance(1.0)
    assert site.counts.is_due
    found = site.counts.counted()
    assert found is not None
    assert found.deliveries is not None
    assert set(found.deliveries) == {DeliveryCost(SHORT, 10, 3.0), DeliveryCost(LONG, 10, 1.0)}
    piece = TimeRangePiece(site.over.opened_ms, site.over.closed_ms or 0)
    assert site.stored.asked == [(piece, frozenset({1_000, 2_000}), frozenset())]
    assert not site.counts.is_due
    site.counts.add(found, ORDERS)
    assert not site.counts.is_due, "already counted"


def test_records_of_a_datastream_that_shared_the_group_then_are_not_counted(site: Site) -> None:
    """The other datastream may have been deleted, or the selection changed, since the incident."""
    site.counts.add(site.over, replace(ORDERS, is_alone=True))
    site.clock.advance(30.0)
    found = site.counts.counted()
    assert found is not None
    assert found.deliveries is not None
    assert {one.records for one in found.deliveries} == {10}
    assert site.stored.asked[0][2] == frozenset(), "Pinot adds up no topics"


def test_what_lasts_or_has_no_objective_is_not_counted(site: Site) -> None:
    site.counts.add(replace(site.over, closed_ms=None), ORDERS)
    site.counts.add(site.over, None)
    site.counts.add(site.over, replace(ORDERS, objective=None, objectives=()))
    site.clock.advance(60.0)
    assert not site.counts.is_due


def test_nothing_that_was_measured_is_unknown_and_not_none(site: Site) -> None:
    site.stored.places = [("clicks", "east", "a")]
    site.counts.add(site.over, ORDERS)
    site.clock.advance(30.0)
    found = site.counts.counted()
    assert found is not None
    assert found.deliveries is None
    assert not site.counts.is_due


def test_what_is_not_kept_any_more_is_unknown_and_not_asked_for() -> None:
    site = Site(days=1)
    begun_ms = site.over.opened_ms - 24 * 3_600_000
    site.counts.add(replace(site.over, opened_ms=begun_ms), ORDERS)
    site.clock.advance(30.0)
    found = site.counts.counted()
    assert found is not None
    assert found.deliveries is None
    assert site.stored.asked == []


def test_while_pinot_is_away_it_waits_for_an_hour(site: Site) -> None:
    site.stored.is_away = True
    site.counts.add(site.over, ORDERS)
    site.clock.advance(30.0)
    assert site.counts.counted() is None
    assert not site.counts.is_due, "no immediate retry"
    site.clock.advance(60.0)
    assert site.counts.is_due
    site.clock.advance(3_600.0)
    given_up = site.counts.counted()
    assert given_up is not None
    assert given_up.deliveries is None
    assert not site.counts.is_due
    site.stored.is_away = False
    site.counts.add(site.over, ORDERS)
    assert not site.counts.is_due, "too long ago"


topics = st.sampled_from(["a", "b", "other"])
places = st.lists(
    st.tuples(st.sampled_from(["orders", "clicks"]), st.sampled_from(["east", "west"]), topics), unique=True
)


@given(places)
def test_only_topics_of_the_datastream_count(found: list[Place]) -> None:
    own = [one for one in found if one[:2] == SOURCE and one[2] != "other"]
    counted = deliveries_of(ORDERS, sums(found))
    if not own:
        assert counted is None
        return
    assert counted is not None
    assert {one.objective: (one.records, one.late) for one in counted} == {
        SHORT: (10 * len(own), 3.0 * len(own)),
        LONG: (10 * len(own), 1.0 * len(own)),
    }


def test_names_stored_with_milliseconds_are_those_of_today() -> None:
    costs = (BudgetCost("99.5 % within 2000 ms over 30 d", 0.5, 0.25),)
    deliveries = (DeliveryCost("p99 within 800 ms", 10, 1.0),)
    stored = IncidentRecord("orders-1", "orders", "east", 1, costs=costs, deliveries=deliveries)
    found = record_from_json(record_to_json(stored))
    assert [one.objective for one in found.costs] == [LONG]
    assert found.deliveries == deliveries
