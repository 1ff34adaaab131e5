"""Test the rules of latency, one by one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.topics import TopicSelection
from monitor import latency
from monitor.latency import (
    LatencyObservation,
    LatencyVerdict,
    ObjectiveStatus,
    ObjectiveSubject,
    Source,
    observed,
)

OBJECTIVE = LatencyObjective(1000, 99.0)
SOURCE = Source("orders", "east")


def a_subject(objective: LatencyObjective = OBJECTIVE, topics: str = ".*", **more: Any) -> ObjectiveSubject:
    return ObjectiveSubject(objective, SOURCE, TopicSelection(topics), **more)


def judge(objective: LatencyObjective, observation: LatencyObservation | None, **more: Any) -> LatencyVerdict:
    return latency.judge(a_subject(objective, **more), observation)


def seen(latencies: dict[float, int], lag_ms: int = 0, unaged: int = 0) -> LatencyObservation:
    counts = [0] * LATENCY_BUCKETS
    for late, count in latencies.items():
        counts[latency_bucket(late)] += count
    return LatencyObservation(sum(latencies.values()), tuple(counts), lag_ms, unaged)


def test_rule_4_nothing_was_measured() -> None:
    verdict = judge(OBJECTIVE, None)
    assert verdict.standing is ObjectiveStatus.UNKNOWN
    assert verdict.observed_ms is None


@pytest.mark.parametrize("arrived", [{}, {5.0: 1000}], ids=["nothing arrived", "all that arrived was quick"])
def test_rule_1_what_waits_longer_than_the_objective_will_be_late(arrived: dict[float, int]) -> None:
    verdict = judge(OBJECTIVE, seen(arrived, lag_ms=1001))
    assert verdict.standing is ObjectiveStatus.BREACHED
    assert " 1 s" in verdict.sentence
    assert judge(OBJECTIVE, seen(arrived, lag_ms=1000)).standing is ObjectiveStatus.WITHIN


def test_rule_2_the_percentile_exceeds_the_objective() -> None:
    assert judge(OBJECTIVE, seen({5.0: 98, 5000.0: 2})).standing is ObjectiveStatus.BREACHED
    assert judge(OBJECTIVE, seen({5.0: 99, 5000.0: 1})).standing is ObjectiveStatus.WITHIN
    half = LatencyObjective(1000, 50.0)
    assert judge(half, seen({5.0: 60, 5000.0: 40})).standing is ObjectiveStatus.WITHIN
    assert judge(half, seen({5.0: 40, 5000.0: 60})).standing is ObjectiveStatus.BREACHED


def test_rule_2_one_late_record_is_no_percentile() -> None:
    """A single record of a quiet datastream would determine every percentile."""
    assert judge(OBJECTIVE, seen({5000.0: 1})).standing is ObjectiveStatus.WITHIN
    assert judge(OBJECTIVE, seen({5.0: 20, 5000.0: 1})).standing is ObjectiveStatus.WITHIN
    assert judge(OBJECTIVE, seen({5000.0: 2})).standing is ObjectiveStatus.BREACHED
    assert judge(OBJECTIVE, seen({}, lag_ms=5000)).standing is ObjectiveStatus.BREACHED


def test_rule_5_otherwise_it_is_within() -> None:
    verdict = judge(OBJECTIVE, seen({100.0: 1000}))
    assert verdict.standing is ObjectiveStatus.WITHIN
    assert verdict.observed_ms == pytest.approx(128, rel=0.02)
    quiet = judge(OBJECTIVE, seen({}))
    assert quiet.standing is ObjectiveStatus.WITHIN
    assert quiet.observed_ms is None


def test_rule_3_what_is_not_copied_is_never_within_and_is_named() -> None:
    for observation in (None, seen({}), seen({5.0: 1000}), seen({}, unaged=1)):
        verdict = judge(OBJECTIVE, observation, halted="t-0: no right")
        assert verdict.standing is ObjectiveStatus.HALTED
        assert verdict.is_halted
        assert ": t-0: no right" in verdict.sentence
    late = judge(OBJECTIVE, seen({}, lag_ms=5000), halted="source away")
    assert (late.standing, late.is_halted) == (ObjectiveStatus.BREACHED, True)
    assert "source away" in late.sentence


def test_rule_4_records_that_wait_for_an_unknown_time_are_no_good_news() -> None:
    verdict = judge(OBJECTIVE, seen({5.0: 1000}, unaged=2))
    assert verdict.standing is ObjectiveStatus.UNKNOWN
    assert "2 partitions" in verdict.sentence


def test_what_the_service_remarks_is_said_of_what_is_late_or_unknown() -> None:
    quota = "t-0 copies as fast as a quota lets it"
    for observation in (None, seen({}, lag_ms=5000), seen({5000.0: 10})):
        verdict = judge(OBJECTIVE, observation, remark=quota)
        assert quota in verdict.sentence
        assert not verdict.is_halted
    assert quota not in judge(OBJECTIVE, seen({5.0: 1000}), remark=quota).sentence


def test_what_a_person_paused_is_not_judged_and_said() -> None:
    verdict = judge(OBJECTIVE, seen({5.0: 1000}), paused="t")
    assert verdict.standing is ObjectiveStatus.WITHIN
    assert re.search(r"\bpaused\b.*: t$", verdict.sentence)


def test_datastreams_that_share_tasks_are_judged_by_their_own_topics() -> None:
    found = {
        SOURCE: {"fast-a": seen({5.0: 10}), "fast-b": seen({9.0: 5}, 3), "slow": seen({5000.0: 7}, unaged=1)},
        Source("orders", "west"): {"fast-a": seen({9000.0: 99})},
        Source("others", "east"): {"fast-a": seen({9000.0: 99})},
    }
    fast = observed(a_subject(topics="fast-.*"), found)
    assert fast == seen({5.0: 10, 9.0: 5}, 3)
    assert observed(a_subject(topics="slow"), found) == seen({5000.0: 7}, unaged=1)
    assert observed(a_subject(topics="neither"), found) is None
    assert observed(a_subject(), {}) is None


def test_a_verdict_says_what_was_wanted() -> None:
    for observation in (None, seen({}), seen({5000.0: 1}), seen({}, lag_ms=5000)):
        assert "p99 within 1 s" in judge(OBJECTIVE, observation).sentence


def test_what_lies_beyond_the_last_bucket_is_late_for_any_objective_that_can_be_judged() -> None:
    assert judge(LatencyObjective(200_000), seen({10_000_000.0: 100})).standing is ObjectiveStatus.BREACHED
