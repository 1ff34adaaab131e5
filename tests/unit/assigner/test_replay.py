"""Replay of a recorded day."""

from __future__ import annotations

import json
import math

import pytest

from assigner.forecast.outlook import HOUR_MS
from assigner.problem.policy import PlanMode, Policy
from assigner.what_if.document import Fallback
from assigner.what_if.replay import Hourly, hours_from_csv, hours_from_json, replay
from mirror.errors import InvalidRequest
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

HOW = Fallback(TaskCapacity(100, None, 100), policy=Policy(mode=PlanMode.INCREMENTAL))


def a_day(*totals: float) -> Hourly:
    """Return ten equal partitions with these total loads per hour."""
    return {
        hour * HOUR_MS: {TopicPartition("t", n): PartitionLoad(total / 10, 1.0) for n in range(10)}
        for hour, total in enumerate(totals)
    }


def test_tasks_follow_what_lasts_and_stay_for_the_day() -> None:
    hours = replay(a_day(90, 250, 250, 250, 90, 90), 1.0, TaskLimits(), HOW)
    assert [hour.required_tasks for hour in hours] == [1, 3, 3, 3, 1, 1]
    assert [hour.tasks for hour in hours] == [1, 1, 1, 3, 3, 3]
    assert [hour.overloaded_tasks for hour in hours][3:] == [0, 0, 0]
    assert hours[3].moved_bytes_per_second == 150
    assert hours[0].max_over_mean == 1.0


def test_without_patience_tasks_are_given_up_at_once() -> None:
    eager = Fallback(HOW.capacity, policy=Policy(mode=PlanMode.INCREMENTAL, settling=1))
    hours = replay(a_day(250, 90, 250), 1.0, TaskLimits(), eager, patience=0)
    assert [hour.tasks for hour in hours] == [3, 2, 3] or [hour.tasks for hour in hours] == [3, 1, 3]


def test_growth_scales_every_load() -> None:
    assert [hour.required_tasks for hour in replay(a_day(90), 3.0, TaskLimits(), HOW)] == [
        4
    ]  # three of 27 per task
    assert replay(a_day(90), 1.3, TaskLimits(), HOW)[0].bytes_per_second == pytest.approx(117)


def test_limits_hold() -> None:
    hours = replay(a_day(900), 1.0, TaskLimits(max_tasks=4), HOW)
    assert (hours[0].required_tasks, hours[0].tasks) == (10, 4)


@pytest.mark.parametrize("growth", [0.0, -0.0, -1.0, 1e308, float("nan"), float("inf")])
def test_growth_must_make_sense(growth: float) -> None:
    with pytest.raises(InvalidRequest, match="growth"):
        replay(a_day(90), growth, TaskLimits(), HOW)


def test_a_history_without_hours_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="history is empty"):
        replay({}, 1.0, TaskLimits(), HOW)


ROWS = [
    {"hour_ms": HOUR_MS + 5, "topic": "t", "partition": 0, "bytes_per_second": 5, "messages_per_second": 2},
    {"hour_ms": HOUR_MS, "topic": "t", "partition": 1, "bytes_per_second": 6},
]


def test_both_formats_say_the_same() -> None:
    lines = [
        "hour_ms,topic,partition,bytes_per_second,messages_per_second",
        f"{HOUR_MS + 5},t,0,5,2",
        f"{HOUR_MS},t,1,6,",
    ]
    expected = {
        HOUR_MS: {
            TopicPartition("t", 0): PartitionLoad(5.0, 2.0),
            TopicPartition("t", 1): PartitionLoad(6.0),
        }
    }
    assert hours_from_json(json.dumps(ROWS)) == expected
    assert hours_from_csv("\r\n".join(lines)) == expected


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("{}", "list of objects"),
        ("[", "not JSON"),
        (json.dumps([{**ROWS[0], "partition": "x"}]), "entry 0"),
        (json.dumps([ROWS[0], {"hour_ms": 1}]), "entry 1"),
        (json.dumps([ROWS[0], ROWS[0]]), "entry 1 .* repeats partition t-0"),
        ("[" * 100_000, "not JSON"),
        ("1" + "0" * 5_000, "not JSON"),
        (json.dumps([{**ROWS[0], "bytes_per_second": 10**400}]), "entry 0"),
        (json.dumps([{**ROWS[0], "bytes_per_second": math.nan}]), "entry 0"),
        (json.dumps([{**ROWS[0], "bytes_per_second": -1}]), "entry 0"),
        (json.dumps([{**ROWS[0], "messages_per_second": 1e308}]), "entry 0"),
        (json.dumps([{**ROWS[0], "hour_ms": math.inf}]), "entry 0"),
        (json.dumps([{**ROWS[0], "hour_ms": -1}]), "entry 0"),
        (json.dumps([{**ROWS[0], "hour_ms": 10**18}]), "entry 0"),
        (json.dumps([{**ROWS[0], "hour_ms": 10**15}]), "entry 0"),
        (json.dumps([{**ROWS[0], "bytes_per_second": "٣"}]), "entry 0"),
        (json.dumps([{**ROWS[0], "messages_per_second": "1_0"}]), "entry 0"),
        (json.dumps([{**ROWS[0], "partition": 2**31}]), "entry 0"),
        (json.dumps([{**ROWS[0], "partition": True}]), "entry 0"),
        (json.dumps([{**ROWS[0], "topic": ""}]), "entry 0"),
        (json.dumps([{**ROWS[0], "topic": None}]), "entry 0"),
        (json.dumps([None]), "entry 0"),
    ],
)
def test_a_bad_history_names_the_entry(text: str, culprit: str) -> None:
    with pytest.raises(InvalidRequest, match=culprit):
        hours_from_json(text)


def test_a_bad_csv_history_names_the_line() -> None:
    with pytest.raises(InvalidRequest, match="bytes_per_second"):
        hours_from_csv("hour_ms,topic,partition")
    with pytest.raises(InvalidRequest, match="line 2"):
        hours_from_csv("hour_ms,topic,partition,bytes_per_second\nx,t,0,5")
    with pytest.raises(InvalidRequest, match="duplicate column 'topic'"):
        hours_from_csv("hour_ms,topic,topic,partition,bytes_per_second")
    for line in (
        "1,t,٣,5",
        "1,t,0,٣",
        "1,t,0,1_0",
        "1,t,0,1e400",
        "1,t,0",
        "1,t,0,5,6",
        "100000000000001,t,0,5",
        f"1,{'t' * 200_000},0,5",
        f"1,t,0,{'9' * 200_000}",
    ):
        with pytest.raises(InvalidRequest, match=r"line [12]") as refused:
            hours_from_csv(f"hour_ms,topic,partition,bytes_per_second\n{line}")
        assert len(str(refused.value)) < 300
