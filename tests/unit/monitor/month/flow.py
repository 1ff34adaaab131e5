"""Model of a datastream over a month: records written, capacity, and the resulting backlog and latency.

It runs in steps of 30 seconds. Records wait in a single queue. A record copied without waiting takes longer
the closer the traffic is to the capacity. The written rate contains noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mirror.model.latency import LATENCY_BOUNDS_MS
from mirror.model.metrics import WAIT_SLOT_MS
from mirror.model.movement.exemptions import CatchUpGrace, LatencyExemption

STEP_SECONDS: Final = 30
DAYS: Final = 30
STEPS: Final = DAYS * 86_400 // STEP_SECONDS
PER_MINUTE: Final = 60 // STEP_SECONDS
PER_HOUR: Final = 60 * PER_MINUTE
PER_DAY: Final = 24 * PER_HOUR
OBJECTIVE_MS: Final = 2_000
GRACE_MS: Final = 6 * 3_600_000

_BASE_MS: Final = 15.0
_MOST_FULL: Final = 0.97
_WAIT_SLOT_SECONDS: Final = WAIT_SLOT_MS // 1_000
_P99: Final = 99 ** (1 / 4)
"""Ratio of p99 to the median: the odds of a latency grow with its fourth power."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def daily(rng: np.random.Generator, most: float, least: float, weekend: float = 0.6) -> Floats:
    """Return records per second with a peak in the afternoon, less traffic at weekends, and 20 % noise."""
    hours = np.arange(STEPS) / PER_HOUR
    wave = (1 + np.cos((hours % 24 - 15) / 24 * 2 * np.pi)) / 2
    week = np.where(hours // 24 % 7 >= 5, weekend, 1.0)
    return np.asarray((least + (most - least) * wave) * week * rng.uniform(0.8, 1.2, STEPS))


@dataclass
class Flow:
    """Traffic of a datastream. `written` and `capacity`: records per second. `halted`: steps in which copying
    stops and the service reports it; `unknown`: steps in which the age of the oldest record is also unknown.
    `late_ones`: steps in which one record arrives seconds late without a lasting cause. `silent`: seconds of
    each step in which copying stops for a hand-over. `paused`: steps in which an operator prevents copying,
    including those before its creation."""

    written: Floats
    capacity: Floats
    halted: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))
    unknown: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))
    late_ones: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))
    silent: Floats = field(default_factory=lambda: np.zeros(STEPS))
    paused: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))

    def run(self) -> None:
        """Compute the results. Call it again after a change of the capacity."""
        capacity = np.where(self.halted | self.paused, 0.0, self.capacity)
        growth = (self.written - capacity) * STEP_SECONDS
        total = np.cumsum(growth)
        waiting = total - np.minimum(0.0, np.minimum.accumulate(total))
        self.waiting: Floats = waiting
        came = np.cumsum(self.written) * STEP_SECONDS
        copied = came - waiting
        ends = np.arange(1, STEPS + 1) * float(STEP_SECONDS)
        is_behind = waiting > 1e-6
        age = np.where(is_behind, ends - np.interp(copied, came, ends), 0.0) * 1000
        self.lag_ms: Floats = np.maximum(age, 0.0)
        self.delivered: Floats = np.diff(copied, prepend=0.0).clip(0.0)
        full = np.minimum(self.written / np.maximum(capacity, 1e-9), _MOST_FULL)
        self._median = _BASE_MS / (1 - np.where(is_behind, _MOST_FULL, full))
        before = np.concatenate([[0.0], self.lag_ms[:-1]])
        self._delay = (before + self.lag_ms) / 2
        self._apply_exemptions()
        self._count()

    def _apply_exemptions(self) -> None:
        """Apply exemptions as lanes do, with one look per step."""
        self.counted_lag_ms: Floats = np.where(self.paused, 0.0, self.lag_ms)
        self._is_exempt = self.paused.copy()
        for end in np.flatnonzero(np.diff(self.paused.astype(np.int8)) == -1).tolist():
            until_ms = (end + 1) * STEP_SECONDS * 1_000
            lane = CatchUpGrace(LatencyExemption(until_ms, grace_from_ms=until_ms), GRACE_MS)
            for step in range(end + 1, STEPS):
                now_ms = (step + 1) * STEP_SECONDS * 1_000
                lane.note(round(self.waiting[step]), now_ms)
                self.counted_lag_ms[step] = lane.counted_age(round(self.lag_ms[step]), now_ms)
                self._is_exempt[step] = not lane.counts(now_ms - round(self._delay[step]))
                if self.waiting[step] <= 1e-6 or self.paused[step + 1 : step + 2].any():
                    break

    def _count(self) -> None:
        below = np.rint(self.delivered[:, None] * self._share_within(np.array(LATENCY_BOUNDS_MS)))
        ends = np.rint(self.delivered)[:, None]
        counts = np.diff(np.concatenate([np.zeros_like(ends), below, ends], axis=1), axis=1)
        counts[self.late_ones, 13] += 1
        counts[self._is_exempt] = 0
        self._sums = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
        self.late: Floats = self.delivered * (1 - self._share_within(np.array([float(OBJECTIVE_MS)]))[:, 0])
        stale = np.where(
            self.is_stale, STEP_SECONDS, np.where(self.is_handed_over_late, _WAIT_SLOT_SECONDS, 0)
        )
        self._stale = np.concatenate([[0.0], np.cumsum(stale)])

    def _share_within(self, milliseconds: Floats) -> Floats:
        far = np.maximum(milliseconds[None, :] - self._delay[:, None], 0.0) / self._median[:, None]
        odds = np.square(np.square(far))
        silent_ms = np.maximum(self.silent, 1e-9)[:, None] * 1_000
        waited = np.minimum(milliseconds[None, :] / silent_ms, 1.0)
        share = (self.silent / STEP_SECONDS)[:, None]
        return np.asarray((1 - share) * odds / (1 + odds) + share * waited)

    def fall(self, step: int) -> float:
        """Return the decrease of the backlog per second in the last two steps, 0 unless it shrank in both."""
        before, between, now = self.waiting[step - 2 : step + 1].tolist()
        return float((before - now) / (2 * STEP_SECONDS)) if before > between > now > 0 else 0.0

    def late_ms(self, step: int) -> float:
        """Return the approximate latency of arriving records."""
        return float(self._delay[step] + self._median[step])

    @property
    def is_stale(self) -> Flags:
        """Steps at whose end the oldest waiting record was older than the objective."""
        return (self.counted_lag_ms > OBJECTIVE_MS) & ~self.unknown

    @property
    def is_handed_over_late(self) -> Flags:
        """Steps with a hand-over that made records late."""
        return (self.silent * 1_000 > OBJECTIVE_MS) & ~self._is_exempt

    @property
    def worst_ms(self) -> Floats:
        """Exact maximum of p99 and the age of the oldest waiting record in each step."""
        p99 = np.where(self.delivered > 0, self._delay + self._median * _P99, 0.0)
        return np.maximum(p99, self.lag_ms)

    def counts(self, first: int, end: int) -> tuple[int, ...]:
        """Return the latency histogram of the steps from `first` to before `end`."""
        found: list[Any] = (self._sums[end] - self._sums[first]).astype(int).tolist()
        return tuple(found)

    def stale_seconds(self, first: int, end: int) -> float:
        """Return the seconds of these steps in which the oldest waiting record was too old."""
        return float(self._stale[end] - self._stale[first])
