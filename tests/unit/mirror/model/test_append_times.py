"""Test the bounds of append times, and timestamp offsets that are learned and forgotten."""

from __future__ import annotations

import pytest

from mirror.model.movement.append_times import HOLD_SECONDS, UNKNOWN_SPAN, AppendSpan, AppendTimes

ZERO_MS = 1_700_000_000_000


def heard(times: AppendTimes, end: int, asked: float, now: float, kept: int = 0) -> None:
    """Record a response; the monotonic clock was 0 at `ZERO_MS`."""
    times.record_end(end, asked, now, ZERO_MS + int(now * 1000), kept)


def span(since: float | None, until: float) -> AppendSpan:
    since_ms = -1 if since is None else ZERO_MS + int(since * 1000)
    return AppendSpan(since_ms, ZERO_MS + int(until * 1000))


def test_a_record_was_appended_between_two_responses() -> None:
    times = AppendTimes()
    heard(times, 10, 1.0, 1.5)
    heard(times, 20, 1.5, 2.0)
    assert times.span(3, 9) == span(None, 1.5), "the backlog has no lower bound"
    assert times.span(10, 19) == span(1.0, 2.0)
    assert times.span(5, 15) == span(None, 2.0)
    assert times.span(15, 25) == AppendSpan(ZERO_MS + 1_000, UNKNOWN_SPAN.until_ms)
    assert times.span(12, 12) == times.span(13, 18)


def test_silence_of_the_source_moves_the_lower_bound() -> None:
    times = AppendTimes()
    heard(times, 10, 1.0, 1.5)
    times.quiet(60.0)
    times.quiet(30.0)
    heard(times, 11, 60.5, 61.0)
    assert times.span(10, 10) == span(60.0, 61.0)
    AppendTimes().quiet(1.0)


def test_a_leader_that_knows_less_moves_no_bound() -> None:
    times = AppendTimes()
    heard(times, 10, 1.0, 1.5)
    heard(times, 7, 5.0, 5.5)
    heard(times, 12, 6.0, 6.5)
    assert times.span(7, 9) == span(None, 1.5)
    assert times.span(10, 11) == span(1.0, 6.5)


@pytest.mark.parametrize("jump_ms", [60_000, -60_000])
def test_a_clock_that_is_set_or_a_suspended_machine_ends_the_bounds(jump_ms: int) -> None:
    """Records produced while the machine was suspended are late, whatever the clocks show."""
    times = AppendTimes()
    times.record_end(10, 1.0, 1.5, ZERO_MS + 1_500, 0)
    times.record_end(11, 1.5, 2.0, ZERO_MS + 2_000 + jump_ms, 0)
    assert times.span(10, 10) == UNKNOWN_SPAN
    times.record_end(12, 2.0, 2.5, ZERO_MS + 2_500 + jump_ms, 0)
    times.record_end(13, 2.5, 3.0, ZERO_MS + 3_000 + jump_ms, 0)
    assert times.span(12, 12) == AppendSpan(ZERO_MS + 2_000 + jump_ms, ZERO_MS + 3_000 + jump_ms)


def test_a_long_backlog_keeps_few_marks_that_are_true() -> None:
    times, kept = AppendTimes(), 100
    heard(times, kept, 0.0, 0.5, kept)
    for second in range(1, 2_000):
        heard(times, kept + second, second, second + 0.5, kept)
    assert len(times._marks) <= 12
    for second in range(1, 1_999):
        since_ms, until_ms = times.span(kept + second, kept + second)
        assert since_ms <= ZERO_MS + (second + 1) * 1_000 + 500
        assert until_ms >= ZERO_MS + second * 1_000
    heard(times, 5_000, 3_000, 3_000.5, 4_000)
    assert times.span(4_500, 4_500).is_narrow is False


@pytest.mark.parametrize("offset_ms", [-60_000, 60_000])
def test_an_offset_ends_after_two_periods_of_right_timestamps(offset_ms: int) -> None:
    times, bounds = AppendTimes(), span(1.0, 2.0)
    times.learn(ZERO_MS + 1_500 + offset_ms, bounds, 2.0)
    assert times.offset_ms == pytest.approx(offset_ms, abs=500)
    for second in range(int(HOLD_SECONDS)):
        times.learn(ZERO_MS + 1_500, bounds, 3.0 + second)
    assert times.is_off, "another producer may have sent these"
    for second in range(int(2 * HOLD_SECONDS)):
        times.learn(ZERO_MS + 1_500, bounds, 63.0 + second)
    assert not times.is_off
    assert times.offset_ms == 0


def test_wide_bounds_end_no_offset() -> None:
    times = AppendTimes()
    times.learn(ZERO_MS + 62_000, span(1.0, 2.0), 2.0)
    for second in range(600):
        times.learn(ZERO_MS + 100_000, span(3.0, 900.0), 3.0 + second)
    assert times.offset_ms == 60_000
    assert times.appended_ms(ZERO_MS + 160_000, span(3.0, 900.0)) == ZERO_MS + 100_000


def test_the_largest_offset_counts() -> None:
    times, bounds = AppendTimes(), span(1.0, 2.0)
    for offset_ms in (5_000, -90_000, 30_000, 0):
        times.learn(ZERO_MS + 1_500 + offset_ms, bounds, 2.0)
    assert times.offset_ms == pytest.approx(-90_000, abs=500)
    assert times.ahead_ms == pytest.approx(30_000, abs=500)
