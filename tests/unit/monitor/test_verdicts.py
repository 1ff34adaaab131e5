"""Test that a datastream with several objectives has the worst status of its objectives."""

from __future__ import annotations

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives import Objective
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.topics import TopicSelection
from monitor.latency import (
    LatencyObservation,
    LatencyVerdict,
    ObjectiveStatus,
    ObjectiveSubject,
    Observations,
    Source,
)
from monitor.objectives.verdicts import judge_all, windows_of

SOURCE = Source("orders", "east")
LOOSE, TIGHT = Objective(4096, 99.5), Objective(128, 99.0, 90.0, window_seconds=300)


def a_subject(
    *objectives: Objective, short: LatencyObjective | None = None, halted: str = ""
) -> ObjectiveSubject:
    return ObjectiveSubject(short, SOURCE, TopicSelection("t"), halted, objectives=objectives)


def seen(arrived: dict[float, int], lag_ms: int = 0, unaged: int = 0) -> Observations:
    counts = [0] * LATENCY_BUCKETS
    for milliseconds, count in arrived.items():
        counts[latency_bucket(milliseconds)] += count
    return {SOURCE: {"t": LatencyObservation(sum(counts), tuple(counts), lag_ms, unaged)}}


def judge(subject: ObjectiveSubject, now: Observations, long: Observations) -> LatencyVerdict:
    return judge_all(subject, {60.0: now, 300.0: long}, 60.0)


def test_the_windows_are_the_monitors_own_and_those_of_objectives() -> None:
    assert windows_of([a_subject(LOOSE), a_subject(TIGHT)], 60.0) == {60.0, 300.0}
    assert windows_of([], 60.0) == {60.0}


def test_each_is_judged_over_its_own_window() -> None:
    fast, slow = seen({1: 100}), seen({1000: 100})
    assert judge(a_subject(LOOSE, TIGHT), fast, fast).standing is ObjectiveStatus.WITHIN
    verdict = judge(a_subject(LOOSE, TIGHT), fast, slow)
    assert (verdict.standing, verdict.limit_ms) == (ObjectiveStatus.BREACHED, 128)
    assert verdict.sentence.startswith("p90 is 955 ms; ")
    assert judge(a_subject(LOOSE, TIGHT), slow, fast).standing is ObjectiveStatus.WITHIN


def test_what_waits_now_counts_for_each_and_what_waited_does_not() -> None:
    assert (
        judge(a_subject(TIGHT), seen({1: 9}, lag_ms=200), seen({1: 9})).standing is ObjectiveStatus.BREACHED
    )
    assert judge(a_subject(TIGHT), seen({1: 9}), seen({1: 9}, lag_ms=200)).standing is ObjectiveStatus.WITHIN
    assert judge(a_subject(TIGHT), seen({1: 9}, unaged=1), seen({1: 9})).standing is ObjectiveStatus.UNKNOWN
    assert judge(a_subject(TIGHT), {}, seen({1: 9})).standing is ObjectiveStatus.UNKNOWN


def test_the_short_form_is_one_of_them_and_all_that_are_as_bad_are_said() -> None:
    late = seen({1000: 9}, lag_ms=5000)
    verdict = judge(a_subject(LOOSE, TIGHT, short=LatencyObjective(64)), late, late)
    assert verdict.standing is ObjectiveStatus.BREACHED
    for wanted in ("p99 within 64 ms", "p99 within 4.096 s", "p90 within 128 ms"):
        assert wanted in verdict.sentence
    halted = judge(a_subject(LOOSE, TIGHT, halted="east is away"), seen({1: 9}), seen({1000: 9}))
    assert (halted.standing, halted.is_halted) == (ObjectiveStatus.BREACHED, True)
