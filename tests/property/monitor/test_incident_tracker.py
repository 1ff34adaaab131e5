"""Records of incidents over any history of findings, with restarts in between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import DamagedState
from mirror.model.bounds import LARGEST_MS
from mirror.model.identifiers import DatastreamName
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus
from monitor.records.record import (
    BudgetCost,
    DeliveryCost,
    IncidentRecord,
    Phase,
    RebalanceGain,
    TimelineEntry,
    record_from_json,
    record_to_json,
)
from monitor.records.tracker import IncidentTracker, resumed

ORDERS: Final = DatastreamName("orders")
findings = st.builds(
    lambda standing, is_open, act, worst: Evaluation(
        LatencyVerdict(standing, worst, standing.value),
        Incident(is_open=is_open),
        act,
        "east",
        decision=act,
        has_acted=act.endswith("asked for"),
    ),
    st.sampled_from(ObjectiveStatus),
    st.booleans(),
    st.sampled_from(["", "rebalance asked for", "it would not help"]),
    st.none() | st.floats(0, 1e9),
)
histories = st.lists(findings | st.none() | st.just("restart"), max_size=60)
printable = st.characters(exclude_categories=("C", "Z"))
names = st.text(printable, min_size=1, max_size=200)
records = st.builds(
    IncidentRecord,
    names,
    names,
    st.text(),
    st.integers(0, LARGEST_MS),
    st.none() | st.integers(0, LARGEST_MS),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.builds(TimelineEntry, st.integers(0, LARGEST_MS), st.sampled_from(Phase), st.text())).map(
        tuple
    ),
    st.integers(0, LARGEST_MS),
    st.booleans(),
    st.lists(st.text()).map(tuple),
    st.text(),
    st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False, allow_infinity=False)),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.integers(0, LARGEST_MS),
    st.lists(st.builds(BudgetCost, st.text(), st.none() | st.floats(0, 1), st.none() | st.floats(0, 1))).map(
        tuple
    ),
    st.none() | st.builds(RebalanceGain, st.integers(0, LARGEST_MS), *[st.none() | st.floats(0, 1e9)] * 3),
    st.none()
    | st.lists(st.builds(DeliveryCost, st.text(), st.integers(0, LARGEST_MS), st.floats(0, 1e9))).map(tuple),
)


def play(history: Sequence[Evaluation | str | None]) -> dict[str, IncidentRecord]:
    """Return the stored records at the end. None in the history: an evaluation without verdict."""
    tracker, stored, number = IncidentTracker(), dict[str, IncidentRecord](), 0
    for finding in history:
        if isinstance(finding, str):
            tracker = IncidentTracker()
            tracker.restore(stored.values())
            continue
        number += 1
        changed = tracker.judged({} if finding is None else {ORDERS: finding}, 1_000 * number)
        for one in changed:
            assert one != stored.get(one.id), "an unchanged record was written"
            stored[one.id] = one
    return stored


@given(histories)
def test_a_timeline_tells_one_story(history: list[Evaluation | str | None]) -> None:
    found = sorted(play(history).values(), key=lambda one: one.opened_ms)
    for one in found:
        phases = [entry.phase for entry in one.timeline]
        assert phases[0] is Phase.DETECTED
        assert phases.count(Phase.DETECTED) == 1
        assert one.is_open == (phases[-1] is not Phase.CLOSED)
        assert phases.count(Phase.CLOSED) == (not one.is_open)
        changes = [entry for entry in one.timeline if entry.phase in (Phase.RECOVERED, Phase.RELAPSED)]
        assert len({entry.phase for entry in changes}) == len(changes), "a repeated phase has several entries"
        how_often = {entry.phase: entry.times for entry in changes}
        assert 0 <= how_often.get(Phase.RECOVERED, 0) - how_often.get(Phase.RELAPSED, 0) <= 1
        times = [entry.time_ms for entry in one.timeline]
        assert times == sorted(times)
        assert one.opened_ms == times[0]
    assert all(one.closed_ms is not None and one.closed_ms <= two.opened_ms for one, two in pairwise(found))


@given(histories)
def test_a_restart_changes_nothing(history: list[Evaluation | str | None]) -> None:
    def told(history: list[Evaluation | str | None]) -> dict[str, IncidentRecord]:
        """Return the records without costs, which are written every minute."""
        return {
            key: replace(one, bad_seconds=0.0, unknown_seconds=0.0, judged_ms=0)
            for key, one in play(history).items()
        }

    assert told(history) == told([one for one in history if one != "restart"])


@given(findings, findings)
def test_what_was_found_before_the_former_records_were_known_is_appended(
    one: Evaluation, two: Evaluation
) -> None:
    former = IncidentRecord("orders-1", ORDERS, "east", 1).noted(1, Phase.DETECTED, "late")
    tracker = IncidentTracker()
    own = {each.id for each in tracker.judged({ORDERS: one}, 5_000) if each.is_open}
    restored = tracker.restore([former])
    assert restored.replaced == own
    (going_on,) = restored.records
    assert going_on.id == former.id
    assert going_on.timeline[0] == former.timeline[0]
    for each in tracker.judged({ORDERS: two}, 6_000):
        assert each.id == former.id


@given(records)
def test_a_record_comes_back_as_it_was(record: IncidentRecord) -> None:
    assert record_from_json(record_to_json(record)) == record


@given(st.binary() | st.sampled_from([b"{}", b"[]", b"null", b'{"timeline": 1}', b'{"timeline": [1]}']))
def test_what_is_no_record_is_said_to_be_none(value: bytes) -> None:
    with pytest.raises(DamagedState):
        record_from_json(value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "\ud800"),
        ("datastream", "a\nb"),
        ("worst_ms", float("nan")),
        ("bad_seconds", float("inf")),
        ("evidence", {"late_partitions": float("nan")}),
        ("left_out", 10**30),
        ("deliveries", [{"objective": "p99", "records": 10**30, "late": 0.0}]),
        ("gain", {"acted_ms": 1, "left": float("-inf"), "predicted": None, "lasted": None}),
    ],
)
def test_what_no_topic_or_answer_can_hold_makes_a_record_none(field: str, value: object) -> None:
    stored = json.loads(record_to_json(IncidentRecord("orders-1", "orders", "east", 1)))
    assert record_from_json(json.dumps(stored).encode())
    with pytest.raises(DamagedState):
        record_from_json(json.dumps(stored | {field: value}).encode())


def test_a_long_timeline_keeps_its_beginning_and_its_end() -> None:
    record = IncidentRecord("x", "orders", "east", 0).noted(0, Phase.DETECTED, "late")
    for number in range(1, 1_000):
        record = record.noted(number, Phase.ACTED, str(number))
    assert len(record.timeline) == 100
    assert record.left_out == 900
    assert [record.timeline[0].time_ms, record.timeline[-1].time_ms] == [0, 999]


def test_the_cool_down_goes_on_after_a_restart() -> None:
    record = IncidentRecord("x", "orders", "east", 10_000).noted(40_000, Phase.ACTED, "asked for")
    assert resumed(record, 50_000, 7.0) == Incident(is_open=True, opened_at=-33.0, helped_at=-3.0)
