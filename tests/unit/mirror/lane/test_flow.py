"""Test quotas (bursts of a second, debts, changes of the rate) and the sizes of fetches."""

from __future__ import annotations

import pytest

from mirror.lane.flow import HeldTime, TokenBucket
from mirror.lane.parts.read import FetchSize


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


def test_what_is_held_back_counts_when_it_has_passed_and_once() -> None:
    held = HeldTime()
    held.hold(100.0, 110.0)
    assert held.take(104.0) == 4.0
    held.hold(106.0, 108.0)
    assert held.take(109.0) == 5.0
    assert held.take(120.0) == 1.0
    assert held.take(130.0) == 0.0
    held.hold(130.0, 131.0)
    held.hold(140.0, 142.0)
    assert held.take(150.0) == 3.0


@pytest.mark.parametrize(
    ("share", "most", "batch", "spread", "asked"),
    [
        pytest.param(256_000, 1_000_000, 0, 0, 256_000, id="nothing known: the share"),
        pytest.param(900_000, 300_000, 0, 0, 300_000, id="never more than the most"),
        pytest.param(256_000, 1_000_000, 160_000, 0, 320_000, id="whole batches"),
        pytest.param(256_000, 1_000_000, 200_000, 0, 200_000, id="the nearest number of them"),
        pytest.param(256_000, 1_000_000, 160_000, 1_000, 328_000, id="with room for what they differ by"),
        pytest.param(256_000, 1_000_000, 160_000, 90_000, 340_000, id="but not much"),
        pytest.param(340_000, 1_000_000, 160_000, 90_000, 340_000, id="just so many"),
        pytest.param(960_000, 1_000_000, 160_000, 90_000, 850_000, id="one fewer where one more is too much"),
        pytest.param(100_000, 150_000, 1_600_000, 10_000, 1_640_000, id="one at least"),
        pytest.param(256_000, 1_000_000, 16, 1, 256_003, id="small ones hardly matter"),
    ],
)
def test_what_is_asked_for(share: int, most: int, batch: int, spread: int, asked: int) -> None:
    size = FetchSize(most)
    size.batch, size.spread = batch, spread
    assert size.of_share(share) == asked


def test_the_spread_of_equal_sizes_fades_and_that_of_others_is_their_mean_deviation() -> None:
    size = FetchSize(1_000_000)
    for batch in [100_000] * 61:
        size.note_batch(batch)
    assert size.spread == 0
    for batch in [98_000, 102_000] * 30:
        size.batch = 100_000
        size.note_batch(batch)
    assert size.spread == pytest.approx(2_000, abs=4)
