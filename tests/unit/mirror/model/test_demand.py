"""Test the demand of a lane: unknown figures stay unknown, and expired records are no backlog."""

from __future__ import annotations

import pytest

from mirror.errors import InvalidRequest
from mirror.model.capacity.catch_up import CATCH_UP, LONGEST_SECONDS, catch_up_by_group
from mirror.model.datastreams.metadata import checked_metadata
from mirror.model.identifiers import GroupName
from mirror.model.movement.demand import Demand, demand
from mirror.model.movement.history import NO_HISTORY, LaneHistory, LaneSample

COPIED = (5_000.0, 50.0)
LATE_MS = 60_000


def a_history(*points: LaneSample, record_bytes: float | None = 100.0) -> LaneHistory:
    history = NO_HISTORY
    for one in points:
        history = history.after(one, record_bytes=record_bytes)
    return history


def late(at: float, checkpoint: int, end: int, log_start: int = -1) -> LaneSample:
    return LaneSample(at, checkpoint, end, end, LATE_MS, log_start)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param(NO_HISTORY, Demand(COPIED, is_least=True), id="never reported"),
        pytest.param(
            a_history(LaneSample(0, 10, 12, 12, 40), LaneSample(5, 20, 20, 20, 0)),
            Demand(COPIED),
            id="in time",
        ),
        pytest.param(
            a_history(LaneSample(0, 10, 10, 10, None)),
            Demand(COPIED, is_least=True),
            id="source does not answer",
        ),
        pytest.param(
            a_history(late(0, 10, 1_000), record_bytes=None),
            Demand(COPIED, is_least=True),
            id="copied nothing",
        ),
        pytest.param(
            a_history(late(0, 10, 1_010)), Demand(COPIED, (100_000.0, 1_000.0), True), id="one report"
        ),
        pytest.param(
            a_history(late(0, 10, 1_010), late(10, 110, 3_010)),
            Demand((20_000.0, 200.0), (290_000.0, 2_900.0)),
            id="overloaded",
        ),
        pytest.param(
            a_history(late(0, 10, 9_010), late(10, 7_010, 9_010)),
            Demand((0.0, 0.0), (200_000.0, 2_000.0)),
            id="catches up with what nobody adds to",
        ),
        pytest.param(
            a_history(late(0, 10, 9_010), late(10, 10, 9_110, log_start=9_010)),
            Demand((1_000.0, 10.0), (10_000.0, 100.0)),
            id="what retention took does not wait",
        ),
        pytest.param(
            a_history(late(0, 1_000, 9_000), late(10, 0, 700)),
            Demand(COPIED, (70_000.0, 700.0), True),
            id="another log",
        ),
    ],
)
def test_demand_of_a_history(history: LaneHistory, expected: Demand) -> None:
    assert demand(COPIED, history) == expected


@pytest.mark.parametrize(
    "value",
    ["", "59", "-60", "60.0", "1e3", "nan", "inf", "60 s", "٦٠٠", str(LONGEST_SECONDS + 1), "9" * 400],
)
def test_hostile_times_to_catch_up_are_refused(value: str) -> None:
    with pytest.raises(InvalidRequest, match=CATCH_UP):
        checked_metadata({CATCH_UP: value})


def test_the_shortest_time_of_a_group_counts() -> None:
    a, b = GroupName("a"), GroupName("b")
    chosen = [(a, {CATCH_UP: "900"}), (a, {CATCH_UP: "600"}), (b, {}), (b, {CATCH_UP: "damaged"})]
    assert catch_up_by_group(chosen) == {a: 600}
    assert checked_metadata({CATCH_UP: "600"})
