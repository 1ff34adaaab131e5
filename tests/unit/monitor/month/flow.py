"""A month of one datastream: what is written to its topics, what can be copied, and what follows from that.

In steps of 30 seconds. Records wait in one queue; one that is copied at once takes longer the nearer the
traffic is to what can be copied. Noise is in what is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mirror.model.metrics import LATENCY_BOUNDS_MS
from mirror.model.movement.excuses import Excuse, ExcusedLane

STEP_SECONDS: Final = 30
DAYS: Final = 30
STEPS: Final = DAYS * 86_400 // STEP_SECONDS
PER_MINUTE: Final = 60 // STEP_SECONDS
PER_HOUR: Final = 60 * PER_MINUTE
PER_DAY: Final = 24 * PER_HOUR
OBJECTIVE_MS: Final = 2_000
PATIENCE_MS: Final = 6 * 3_600_000

_BASE_MS: Final = 15.0
_MOST_FULL: Final = 0.97
_P99: Final = 99 ** (1 / 4)
"""Of the median: the odds of a time grow with its fourth power."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def daily(rng: np.random.Generator, most: float, least: float, weekend: float = 0.6) -> Floats:
    """Records a second with a peak in the afternoon, less at weekends, and 20 % of noise."""
    hours = np.arange(STEPS) / PER_HOUR
    wave = (1 + np.cos((hours % 24 - 15) / 24 * 2 * np.pi)) / 2
    week = np.where(hours // 24 % 7 >= 5, weekend, 1.0)
    return np.asarray((least + (most - least) * wave) * week * rng.uniform(0.8, 1.2, STEPS))


@dataclass
class Flow:
    """`written` and `capacity`: records a second. `halted`: steps in which nothing is copied, and the service
    says so; `is_unknown`: also how old the oldest record is, is not known then. `late_ones`: steps in which
    one record arrives seconds late, for no cause that lasts. `paused`: steps in which a person keeps it from
    copying, also before it was created."""

    written: Floats
    capacity: Floats
    halted: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))
    unknown: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))
    late_ones: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))
    paused: Flags = field(default_factory=lambda: np.zeros(STEPS, bool))

    def run(self) -> None:
        """All that follows. Call it again when what can be copied has changed."""
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
        self._excuse()
        self._count()

    def _excuse(self) -> None:
        """As lanes do, of which each step is one look."""
        self.counted_lag_ms: Floats = np.where(self.paused, 0.0, self.lag_ms)
        self._excused = self.paused.copy()
        for end in np.flatnonzero(np.diff(self.paused.astype(np.int8)) == -1).tolist():
            until_ms = (end + 1) * STEP_SECONDS * 1_000
            lane = ExcusedLane(Excuse(until_ms, patience_ms=until_ms), PATIENCE_MS)
            for step in range(end + 1, STEPS):
                now_ms = (step + 1) * STEP_SECONDS * 1_000
                lane.note(round(self.waiting[step]), now_ms)
                self.counted_lag_ms[step] = lane.counted_age(round(self.lag_ms[step]), now_ms)
                self._excused[step] = not lane.counts(now_ms - round(self._delay[step]))
                if self.waiting[step] <= 1e-6 or self.paused[step + 1 : step + 2].any():
                    break

    def _count(self) -> None:
        bounds = np.array(LATENCY_BOUNDS_MS)
        below = np.rint(self.delivered[:, None] * self._share_within(bounds))
        ends = np.rint(self.delivered)[:, None]
        counts = np.diff(np.concatenate([np.zeros_like(ends), below, ends], axis=1), axis=1)
        counts[self.late_ones, 13] += 1
        counts[self._excused] = 0
        self._sums = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
        self.late: Floats = self.delivered * (1 - self._share_within(np.array([float(OBJECTIVE_MS)]))[:, 0])
        self._stale = np.concatenate([[0.0], np.cumsum(self.is_stale)]) * STEP_SECONDS

    def _share_within(self, milliseconds: Floats) -> Floats:
        far = np.maximum(milliseconds[None, :] - self._delay[:, None], 0.0) / self._median[:, None]
        odds = np.square(np.square(far))
        return np.asarray(odds / (1 + odds))

    def fall(self, step: int) -> float:
        """By how many a second what waits has become less in each of the last two steps; 0 where it has
        not."""
        before, between, now = self.waiting[step - 2 : step + 1].tolist()
        return float((before - now) / (2 * STEP_SECONDS)) if before > between > now > 0 else 0.0

    def late_ms(self, step: int) -> float:
        """How long what arrives takes, about."""
        return float(self._delay[step] + self._median[step])

    @property
    def is_stale(self) -> Flags:
        """Whether the oldest waiting record was older than the objective at the end of a step."""
        return (self.counted_lag_ms > OBJECTIVE_MS) & ~self.unknown

    @property
    def worst_ms(self) -> Floats:
        """The greater of p99 and the oldest waiting record's age, of each step, exactly."""
        p99 = np.where(self.delivered > 0, self._delay + self._median * _P99, 0.0)
        return np.maximum(p99, self.lag_ms)

    def counts(self, first: int, end: int) -> tuple[int, ...]:
        """The histogram of steps from `first` to before `end`."""
        found: list[Any] = (self._sums[end] - self._sums[first]).astype(int).tolist()
        return tuple(found)

    def stale_seconds(self, first: int, end: int) -> float:
        """Of these steps, in which the oldest waiting record was too old."""
        return float(self._stale[end] - self._stale[first])
