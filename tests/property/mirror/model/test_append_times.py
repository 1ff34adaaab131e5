"""Latency of the mirror is measured correctly, whatever the clocks of producers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.model.movement.append_times import (
    NARROW_MS,
    TOLERANCE_MS,
    UNKNOWN_SPAN,
    AppendSpan,
    AppendTimes,
)
from tests.examples import examples

ZERO_MS: Final = 1_700_000_000_000
STEP_MS: Final = 100
SLACK_MS: Final = TOLERANCE_MS + NARROW_MS + STEP_MS

clocks = st.lists(
    st.sampled_from([0, 0, -60_000, 60_000, -500, 500, -2_500, 2_500, -(3 * 86_400_000), 10**15])
    | st.integers(-200_000, 200_000),
    min_size=1,
    max_size=3,
)
stalls = st.lists(st.tuples(st.integers(0, 900), st.booleans()), max_size=4)


@dataclass
class Run:
    """A source log, and a lane that reads it. Times in ms since `ZERO_MS`."""

    offsets: list[int]
    seed: int
    now: int = 0
    appended: list[tuple[int, int]] = field(default_factory=list)
    """Append time and timestamp of each record."""
    times: AppendTimes = field(default_factory=AppendTimes)
    read: int = 0
    held: list[tuple[int, AppendSpan]] = field(default_factory=list)
    """Records not acknowledged yet, with their bounds."""
    worst: list[int] = field(default_factory=list)
    """By how much records counted as too young."""
    excess: list[int] = field(default_factory=list)
    """By how much records counted as too old."""

    def append(self) -> None:
        """Advance, and append with each clock now and then."""
        self.now += STEP_MS
        for number, offset in enumerate(self.offsets):
            if (self.now // STEP_MS + number * 3 + self.seed) % 7 == 0:
                self.appended.append((self.now, ZERO_MS + self.now + offset))

    def poll(self, asked: int, most: int = 1_000) -> None:
        """Take a response to a request that was sent at `asked`."""
        end, seconds = len(self.appended), self.now / 1000
        kept = self.held[0][0] if self.held else self.read
        self.times.record_end(end, asked / 1000, seconds, ZERO_MS + self.now, kept)
        upto = min(end, self.read + most)
        self.held += [(one, self.times.span(one, one)) for one in range(self.read, upto)]
        self.read = upto

    def acknowledge(self) -> None:
        """Deliver everything that was read."""
        for number, span in self.held:
            at, stamp = self.appended[number]
            self.times.learn(stamp, span, self.now / 1000)
            wrong = self.times.appended_ms(stamp, span) - (ZERO_MS + at)
            self.worst.append(wrong)
            self.excess.append(-wrong)
        self.held = []

    def in_time(self, steps: int) -> None:
        """Copy for a while without falling behind."""
        asked = self.now
        for step in range(steps):
            self.append()
            if step % 3 == 2:
                self.poll(asked)
                self.acknowledge()
                asked = self.now

    def stall(self, steps: int, *, is_polling: bool) -> None:
        """Deliver nothing, with or without updates of the source's end; then catch up."""
        asked = self.now
        for step in range(steps):
            self.append()
            if is_polling and step % 3 == 2:
                self.poll(asked, most=2)
                asked = self.now
        while self.read < len(self.appended):
            self.poll(self.now, most=50)
            self.append()
        self.acknowledge()


@settings(max_examples=examples(300))
@given(clocks, stalls, st.integers(0, 6))
def test_lateness_is_counted_and_only_lateness(
    offsets: list[int], pauses: list[tuple[int, bool]], seed: int
) -> None:
    run = Run(offsets, seed)
    run.in_time(60)
    run.worst.clear()
    run.excess.clear()
    for steps, is_polling in pauses:
        run.stall(steps, is_polling=is_polling)
        assert max(run.worst, default=0) <= SLACK_MS, "a record counts as younger than it is"
        run.in_time(15)
        run.worst.clear()
        run.excess.clear()
        run.in_time(30)
        assert max(run.excess, default=0) <= SLACK_MS, "a record of a lane in time counts as late"
        assert max(run.worst, default=0) <= SLACK_MS


@given(st.integers(-(2**63), 2**63), st.integers(0, 2**53), st.integers(0, 10**9))
def test_a_correction_stays_within_the_bounds(stamp: int, since_ms: int, width: int) -> None:
    times, span = AppendTimes(), AppendSpan(since_ms, since_ms + width)
    times.learn(stamp, span, 0.0)
    found = times.appended_ms(stamp, span)
    assert found == stamp if stamp < 0 else since_ms - TOLERANCE_MS <= found <= since_ms + width
    assert times.appended_ms(stamp, UNKNOWN_SPAN) == min(stamp, UNKNOWN_SPAN.until_ms)


@given(st.integers(-(10**12), 10**12))
def test_an_offset_beyond_the_tolerance_is_learned_and_has_its_sign(offset_ms: int) -> None:
    times = AppendTimes()
    times.record_end(0, 1.0, 1.5, ZERO_MS + 1_500, 0)
    times.record_end(1, 1.5, 2.0, ZERO_MS + 2_000, 0)
    times.learn(ZERO_MS + 1_750 + offset_ms, times.span(0, 0), 2.0)
    if abs(offset_ms) > TOLERANCE_MS + 1_000 and offset_ms > -ZERO_MS:
        assert abs(times.offset_ms - offset_ms) <= 1_000
    elif abs(offset_ms) < TOLERANCE_MS:
        assert times.offset_ms == 0
