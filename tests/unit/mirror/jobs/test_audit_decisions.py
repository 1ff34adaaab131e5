"""Pure decisions of continuous audits: stored states, pace, and deletions that retention does not explain."""

from __future__ import annotations

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.threads.audits import AuditQueue, audited_lanes
from mirror.audit.verdicts import Finding, Verdict
from mirror.audit.windows import COUNTED, WindowCounts
from mirror.errors import Unreachable
from mirror.jobs.audits.deletions import deleted_copies, retention_of
from mirror.jobs.audits.pace import ALLOWANCE_SECONDS, COPYING_SHARE, AuditBudget, rest_seconds
from mirror.jobs.audits.record import (
    MOST_FAULTS,
    MOST_WINDOWS,
    LaneAudit,
    OpenWindow,
    WindowFault,
    read_lane_audit,
)
from mirror.jobs.partition_verdict import CopyHistory
from mirror.lane.offset_map import OffsetMap
from mirror.model.datastreams.audit_mode import AUDIT_MODE, AuditMode
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from tests.builders import a_datastream

NUMBERS = st.integers(0, 2**62)
LANES = (TopicPartition("t", 0),)
FAULTS = st.builds(WindowFault, NUMBERS, st.sampled_from(Verdict), NUMBERS, NUMBERS, NUMBERS)
COUNTS = st.builds(WindowCounts, *[NUMBERS] * len(COUNTED))
STATES = st.builds(
    LaneAudit,
    NUMBERS,
    st.none() | NUMBERS,
    st.none() | NUMBERS,
    st.booleans(),
    st.none() | st.builds(CopyHistory, NUMBERS, NUMBERS, st.binary(max_size=16), NUMBERS, NUMBERS),
    st.lists(FAULTS, max_size=3).map(tuple),
    NUMBERS,
    st.lists(st.builds(OpenWindow, NUMBERS, NUMBERS, NUMBERS, COUNTS), max_size=3).map(tuple),
    st.integers(-1, 2**62),
    st.none() | st.tuples(NUMBERS, NUMBERS),
    NUMBERS,
)
TOPIC = {
    "cleanup.policy": "delete",
    "retention.ms": "1000",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}


@given(STATES)
def test_a_stored_state_is_read_as_it_was(state: LaneAudit) -> None:
    assert read_lane_audit(state.write()) == state


@given(
    st.binary(max_size=30)
    | st.recursive(st.none() | NUMBERS | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_an_unreadable_state_starts_again(value: bytes) -> None:
    assert read_lane_audit(value) == LaneAudit()


def test_a_state_of_a_newer_version_starts_again() -> None:
    newer = LaneAudit(position=9).write().replace(b'"format":1', b'"format":2')
    assert read_lane_audit(newer) == LaneAudit()
    assert read_lane_audit(None) == LaneAudit()


def test_differences_of_a_window_add_up_and_are_bounded() -> None:
    finding = Finding(Verdict.MISSING, 7, -1, 0)
    state = LaneAudit()
    for _ in range(2):
        state = state.with_window(0, WindowCounts(missing=2, findings=[finding]), may_repeat=True)
    assert state.faults == (WindowFault(0, Verdict.MISSING, 4, 7, -1),)
    for start_ms in range(1, 100):
        state = state.with_window(start_ms, WindowCounts(foreign=1), may_repeat=True)
    assert (len(state.faults), state.more_faults) == (MOST_FAULTS, 100 - MOST_FAULTS)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=40), st.none() | st.integers(0, 9))
def test_the_rows_of_windows_add_up_in_any_order_of_time(
    parts: list[tuple[int, int]], late_ms: int | None
) -> None:
    state = LaneAudit(late=None if late_ms is None else (late_ms, 1))
    rows: dict[tuple[int, int], int] = {}
    for position, (start_ms, records) in enumerate(parts):
        state = read_lane_audit(state.write())
        state, window = state.with_counts(start_ms, WindowCounts(records=records), (position, position))
        rows[start_ms, window.source if window.is_part else -1] = window.counts.records
        assert len(state.windows) <= MOST_WINDOWS + 1
        assert late_ms != start_ms or window.is_part or window in state.windows
    for start_ms in range(10):
        found = sum(number for (each, _), number in rows.items() if each == start_ms)
        assert found == sum(number for each, number in parts if each == start_ms)


@pytest.mark.parametrize("may_repeat", [False, True])
def test_duplicates_are_a_difference_unless_the_guarantee_allows_them(may_repeat: bool) -> None:
    state = LaneAudit().with_window(0, WindowCounts(duplicated=1), may_repeat=may_repeat)
    assert bool(state.faults) is not may_repeat


def test_a_difference_ends_with_the_records() -> None:
    lost = WindowFault(0, Verdict.MISSING, 1, 7, -1)
    strange = WindowFault(0, Verdict.FOREIGN, 1, -1, 20)
    state = LaneAudit(is_stopped=True, faults=(lost, strange))
    assert state.without_past(7, 20) is state
    assert state.without_past(8, 20).faults == (strange,)
    assert state.without_past(8, 21) == LaneAudit()


@given(st.integers(0, 10**9), st.floats(0, 100), st.floats(0, 10))
def test_an_audit_keeps_its_rate_and_rests_longer_than_it_works(
    read: int, elapsed: float, busy: float
) -> None:
    rest = rest_seconds(read, 1_000_000, elapsed, busy)
    assert rest >= 0
    assert rest + elapsed >= read / 1_000_000 - 1e-6
    assert rest + elapsed >= 4 * busy - 1e-6


@given(st.lists(st.tuples(st.floats(0, 60), st.floats(0, 2)), max_size=40))
def test_an_audit_costs_no_more_than_its_share_of_copying(steps: list[tuple[float, float]]) -> None:
    budget, copied, audited, largest = AuditBudget(longest=inf), 0.0, 0.0, 0.0
    budget.spend("t", LANES, 0.0, 0.0, has_more=False)
    for copying, cost in steps:
        copied += copying
        budget.earn({"a": copied / 2, "b": copied / 2})
        if budget.allows("t", LANES, copied):
            budget.spend("t", LANES, cost, copied, has_more=False)
            audited, largest = audited + cost, max(largest, cost)
        assert audited <= COPYING_SHARE * copied + ALLOWANCE_SECONDS + largest + 1e-6


def test_an_audit_that_is_far_behind_does_not_wait() -> None:
    budget = AuditBudget(longest=100.0)
    assert budget.allows("t", LANES, 0.0)
    budget.spend("t", LANES, 5.0, 0.0, has_more=False)
    assert not budget.allows("t", LANES, 99.0)
    assert budget.allows("t", LANES, 100.0)
    budget.spend("t", LANES, 5.0, 100.0, has_more=True)
    assert budget.allows("t", LANES, 100.0)
    budget.spend("t", LANES, 5.0, 101.0, has_more=False)
    assert not budget.allows("t", LANES, 102.0)


def test_a_lane_of_another_owner_does_not_wait_again() -> None:
    budget = AuditBudget(longest=100.0)
    budget.spend("t", LANES, 5.0, 0.0, has_more=False)
    moved = (*LANES, TopicPartition("t", 1))
    assert budget.allows("t", moved, 1.0)
    budget.spend("t", moved, 5.0, 1.0, has_more=False)
    assert not budget.allows("t", moved, 2.0)
    assert not budget.allows("t", LANES, 2.0)


def test_only_deletions_that_retention_does_not_explain_count() -> None:
    found = OffsetMap()
    found.extend([(0, 0, 10), (12, 10, 5)])
    assert deleted_copies(found, (0, 17), 0, 0) == (0, 0)
    assert deleted_copies(found, (0, 17), 6, 0) == (0, 6)
    assert deleted_copies(found, (0, 17), 12, 4) == (4, 8)
    assert deleted_copies(found, (0, 5), 12, 0) == (0, 5)
    assert deleted_copies(found, (0, 17), 6, 8)[1] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"retention.bytes": "1000"},
        {"message.timestamp.type": "LogAppendTime"},
        {"retention.ms": "soon"},
    ],
)
def test_deletions_are_not_judged_without_a_known_age(change: dict[str, str]) -> None:
    assert retention_of({**TOPIC, **change}) is None


def test_the_age_of_deletions_follows_the_settings() -> None:
    limited, forever = retention_of(TOPIC), retention_of({**TOPIC, "cleanup.policy": "compact"})
    assert limited is not None
    assert forever is not None
    assert (limited.youngest_ms(5_000), forever.youngest_ms(5_000)) == (4_000, None)
    assert retention_of({}) is None


def test_each_lane_is_audited_for_one_datastream_that_wants_it() -> None:
    shared = {"owner": "tests", "system.taskPrefix": "g"}
    streams = [
        a_datastream("off", metadata={**shared, AUDIT_MODE: "off"}),
        a_datastream("one", metadata={**shared, AUDIT_MODE: "full"}),
        a_datastream("two", metadata={**shared, AUDIT_MODE: "counts"}),
    ]
    topic = streams[0].selection.include
    mine, other = (LaneKey(GroupName(name), TopicPartition(topic, 0)) for name in ("g", "another"))
    (found,) = audited_lanes(streams, [mine, other])
    assert (found.name, found.mode, found.places) == ("one", AuditMode.FULL, (mine.partition,))
    assert not audited_lanes(streams, [other])


def test_datastreams_whose_cluster_does_not_respond_delay_only_each_other() -> None:
    """A pass has time for all that respond, and for two that do not."""
    names = [f"{'dead' if number % 2 else 'well'}-{number}" for number in range(10)]
    lanes = [
        lane
        for name in names
        for lane in audited_lanes(
            [a_datastream(name, metadata={AUDIT_MODE: "counts"})],
            [LaneKey(GroupName(a_datastream(name).group), TopicPartition("orders", 0))],
        )
    ]
    assert len(lanes) == len(names)
    queue, tried, passes = AuditQueue(), list[list[str]](), 8
    for _ in range(passes):
        dead, tried = 0, [*tried, []]
        for audited in queue.ordered(lanes):
            if dead == 2 and queue.may_wait(audited.name):
                break
            is_dead = audited.name.startswith("dead")
            dead += is_dead
            tried[-1].append(audited.name)
            queue.note(audited.name, Unreachable("away") if is_dead else None)
    well, away = names[::2], names[1::2]
    assert all(set(well) <= set(each) for each in tried[2:])
    assert {name for each in tried[-3:] for name in each} == set(names)
    assert set(queue.problems) == set(away)
    assert queue.ordered([]) == []
    assert not queue.problems
