"""Quotas: a burst of a second, debts are paid, and another rate counts at once."""

from __future__ import annotations

import pytest

from mirror.lane.flow import TokenBucket


def test_a_take_may_exceed_what_is_left_and_is_paid_for_before_the_next() -> None:
    bucket = TokenBucket(100, 0.0)
    bucket.take(300, 0.0)
    assert bucket.seconds_until_open(0.0) == pytest.approx(2.01)
    assert bucket.seconds_until_open(2.02) == 0.0


def test_nothing_is_saved_beyond_a_second() -> None:
    bucket = TokenBucket(100, 0.0)
    bucket.take(100, 60.0)
    assert bucket.seconds_until_open(60.0) == pytest.approx(0.01)


def test_a_lower_rate_takes_away_what_was_saved_and_slows_the_paying() -> None:
    bucket = TokenBucket(100, 0.0)
    bucket.set_rate(10, 0.0)
    bucket.take(20, 0.0)
    assert bucket.seconds_until_open(0.0) == pytest.approx(1.1)


def test_a_higher_rate_pays_old_debts_sooner() -> None:
    bucket = TokenBucket(10, 0.0)
    bucket.take(110, 0.0)
    bucket.set_rate(100, 0.0)
    assert bucket.seconds_until_open(0.0) == pytest.approx(1.01)
