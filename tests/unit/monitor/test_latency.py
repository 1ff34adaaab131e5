"""The rules of latency, one by one."""

from __future__ import annotations

import pytest

from mirror.model.datastream import LatencyObjective
from mirror.model.metrics import LATENCY_BUCKETS, latency_bucket
from monitor.latency import Observation, Standing, judge

OBJECTIVE = LatencyObjective(1000, 99.0)


def observed(latencies: dict[float, int], lag_ms: int = 0) -> Observation:
    counts = [0] * LATENCY_BUCKETS
    for latency, count in latencies.items():
        counts[latency_bucket(latency)] += count
    return Observation(sum(latencies.values()), tuple(counts), lag_ms)


def test_rule_1_nothing_was_measured() -> None:
    verdict = judge(OBJECTIVE, None)
    assert verdict.standing is Standing.UNKNOWN
    assert verdict.observed_ms is None


@pytest.mark.parametrize("arrived", [{}, {5.0: 1000}], ids=["nothing arrived", "all that arrived was quick"])
def test_rule_2_what_waits_longer_than_the_objective_will_be_late(arrived: dict[float, int]) -> None:
    verdict = judge(OBJECTIVE, observed(arrived, lag_ms=1001))
    assert verdict.standing is Standing.BREACHED
    assert "waited for 1001 ms" in verdict.sentence
    assert judge(OBJECTIVE, observed(arrived, lag_ms=1000)).standing is Standing.WITHIN


def test_rule_3_the_percentile_exceeds_the_objective() -> None:
    assert judge(OBJECTIVE, observed({5.0: 98, 5000.0: 2})).standing is Standing.BREACHED
    assert judge(OBJECTIVE, observed({5.0: 99, 5000.0: 1})).standing is Standing.WITHIN
    half = LatencyObjective(1000, 50.0)
    assert judge(half, observed({5.0: 60, 5000.0: 40})).standing is Standing.WITHIN
    assert judge(half, observed({5.0: 40, 5000.0: 60})).standing is Standing.BREACHED


def test_rule_4_otherwise_it_is_within() -> None:
    verdict = judge(OBJECTIVE, observed({100.0: 1000}))
    assert verdict.standing is Standing.WITHIN
    assert verdict.observed_ms == pytest.approx(128, rel=0.02)
    quiet = judge(OBJECTIVE, observed({}))
    assert quiet.standing is Standing.WITHIN
    assert quiet.observed_ms is None


def test_a_verdict_says_what_was_wanted() -> None:
    for observation in (None, observed({}), observed({5000.0: 1}), observed({}, lag_ms=5000)):
        assert "p99 within 1000 ms" in judge(OBJECTIVE, observation).sentence


def test_what_lies_beyond_the_last_bucket_is_late_for_any_objective_that_can_be_judged() -> None:
    assert judge(LatencyObjective(200_000), observed({10_000_000.0: 100})).standing is Standing.BREACHED
