"""Single situations of a canary."""

from __future__ import annotations

import pytest

from mirror.model.identifiers import DatastreamName
from monitor.canary.canary_metrics import CanaryMetrics
from monitor.canary.gate import GateLimits, judge_gate
from monitor.canary.ledger import DUE_SECONDS, OVERTAKEN_SECONDS, CanaryFigures, CanaryLedger

STRICT = GateLimits(2_000, 0, 0.99)


def opened() -> CanaryLedger:
    """A ledger whose first record arrived at second 1."""
    ledger = CanaryLedger()
    write(ledger, 0.0)
    ledger.arrived(0, 1.0)
    return ledger


def write(ledger: CanaryLedger, now: float) -> int:
    index = ledger.attempt(now)
    ledger.acknowledged(index, now)
    return index


def test_records_before_the_first_arrival_are_not_judged() -> None:
    ledger = CanaryLedger()
    for second in range(30):
        write(ledger, float(second))
    assert ledger.figures(30.0).silent_seconds == 30.0
    ledger.arrived(20, 31.0)
    found = ledger.figures(31.0 + 2 * OVERTAKEN_SECONDS)
    assert (found.lost, found.waiting, found.silent_seconds) == (0, 0, None)


def test_a_canary_that_cannot_write_is_unavailable_and_loses_nothing() -> None:
    ledger = opened()
    for second in range(2, 20):
        ledger.failed(ledger.attempt(float(second)), second + 0.5)
    found = ledger.figures(400.0)
    assert (found.lost, found.waiting, found.failed) == (0, 0, 18)
    assert ledger.figures(20.0).produce_availability == 0.0 or found.produce_availability is None
    result = judge_gate(found, STRICT)
    assert [one.limit for one in result.failures] == ["min_availability", "max_delay_ms"]


def test_a_record_is_late_before_it_is_lost() -> None:
    ledger = opened()
    first = write(ledger, 2.0)
    later = write(ledger, 3.0)
    ledger.arrived(later, 3.5)
    waiting = ledger.figures(3.5 + OVERTAKEN_SECONDS - 1)
    assert (waiting.lost, waiting.waiting) == (0, 1)
    assert waiting.slowest_ms == pytest.approx((3.5 + OVERTAKEN_SECONDS - 1 - 2.0) * 1_000)
    lost = ledger.figures(3.5 + OVERTAKEN_SECONDS)
    assert (lost.lost, lost.waiting, lost.lost_seconds) == (1, 0, 0.0)
    ledger.arrived(first, 200.0)
    assert ledger.figures(200.0).lost == 1  # a counter never decreases
    ledger.arrived(first, 201.0)
    assert ledger.figures(201.0).duplicated == 1


def test_nothing_is_lost_while_a_path_is_broken() -> None:
    ledger = opened()
    for second in range(2, 300):
        write(ledger, float(second))
    found = ledger.figures(300.0)
    assert (found.lost, found.waiting, found.consume_availability) == (0, 298, 0.0)
    assert found.oldest_seconds == 298.0
    result = judge_gate(found, STRICT)
    assert {one.limit for one in result.failures} == {"max_delay_ms", "max_lost"}


def test_a_record_may_arrive_before_its_acknowledgement() -> None:
    ledger = opened()
    index = ledger.attempt(2.0)
    ledger.arrived(index, 2.1)
    ledger.acknowledged(index, 2.2)
    found = ledger.figures(2.2 + DUE_SECONDS)
    assert (found.consumed, found.waiting, found.consume_availability) == (2, 0, 1.0)


def test_records_of_others_are_ignored() -> None:
    ledger = opened()
    ledger.arrived(-1, 2.0)
    ledger.arrived(10**12, 2.0)
    assert ledger.figures(2.0).consumed == 1


def test_memory_is_bounded() -> None:
    ledger = opened()
    for number in range(250_000):
        ledger.failed(ledger.attempt(2.0 + number), 2.0 + number)
        if not number % 1_000:
            ledger.advance(2.0 + number)
    ledger.advance(300_000.0)
    assert len(ledger._uncertain) <= 100_000
    ledger.arrived(5, 300_001.0)
    assert ledger.figures(300_001.0).duplicated == 0


def test_a_silent_run_fails_its_gate() -> None:
    assert not judge_gate(CanaryFigures(), STRICT).is_passed
    assert not judge_gate(CanaryFigures(produced=10), STRICT).is_passed
    assert judge_gate(CanaryFigures(produced=10, consumed=10, slowest_ms=1_999.0), STRICT).is_passed


def test_unknown_figures_have_no_series() -> None:
    metrics = CanaryMetrics()
    metrics.show({DatastreamName("a"): CanaryFigures(lost=2)})
    found = {metric.name: [one.value for one in metric.samples] for metric in metrics.collect()}
    assert found["headrace_canary_records_lost"] == [2]
    assert found["headrace_canary_produce_availability_avg"] == []
