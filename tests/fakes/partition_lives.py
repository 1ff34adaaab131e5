"""Numeric model of a source partition and its lane: the reports of the lane over time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from mirror.model.movement.history import NO_HISTORY, LaneHistory, LaneSample, Retention

EVERY_SECONDS: Final = 5.0
_CLOCK_SKEW_MS: Final = 1_000


class PartitionLife:
    """Source partition and lane, starting with `backlog` records that arrived one per second.

    `skew_ms`: by how much timestamps are older than the arrival of records. Rates are in records per second.
    """

    def __init__(self, backlog: int = 0, *, skew_ms: int = 0, age_is_known: bool = True) -> None:
        self.now = 1_000_000.0
        self.skew_ms = skew_ms
        self.age_is_known = age_is_known
        self.base = self.checkpoint = 1_000_000
        self.end = self.base + backlog
        self.hidden: int | None = None
        """First offset of an open transaction."""
        self.hidden_ms: int | None = None
        """Age of its first record, if that was read."""
        self.log_start = -1
        self.life = 0
        self.source_answers = True
        self.history: LaneHistory = NO_HISTORY
        self._ends = [float(self.base + number) for number in range(backlog + 1)]
        self._times = [self.now - backlog + number for number in range(backlog + 1)]
        self._heard_at: float | None = None
        self._said = False

    @property
    def readable_end(self) -> int:
        """Offset up to which the lane can read."""
        return int(self.end) if self.hidden is None else min(self.hidden, int(self.end))

    def run(
        self,
        seconds: float,
        inflow: float = 0.0,
        copied: float | None = None,
        *,
        every: float = EVERY_SECONDS,
        noise: Callable[[], float] = lambda: 1.0,
        reports: bool = True,
    ) -> PartitionLife:
        """Advance time. `copied`: copy rate, or None for a lane that keeps up with any inflow."""
        until, next_report = self.now + seconds, self.now + every
        position = float(self.checkpoint)
        end = float(self.end)
        while self.now < until - 1e-9:
            self.now += 1.0
            end += inflow * noise()
            self._ends.append(end)
            self._times.append(self.now)
            self.end = int(end)
            position = (
                float(self.readable_end)
                if copied is None
                else min(position + copied * noise(), float(self.readable_end))
            )
            self.checkpoint = int(position)
            if self.now >= next_report - 1e-9:
                next_report += every
                if reports:
                    self.report()
        return self

    def report(self) -> None:
        """Report the position of the lane, unless it is idle and nothing has changed."""
        before = self.history.newest
        is_idle = self.checkpoint == int(self.end) and self.source_answers
        if not (is_idle and before is not None and before.is_caught_up and before.end == int(self.end)):
            place = (self.checkpoint, self.readable_end, int(self.end))
            waypoint = LaneSample(self.now, *place, self.lag_ms(), self.log_start, self.hidden_ms, self.life)
            self.history = self.history.after(waypoint, self._heard_at)
        self._heard_at = self.now

    def lag_ms(self) -> int | None:
        """Return the lag as the lane measures it, by timestamps."""
        if self.checkpoint >= self.readable_end:
            return 0 if self.source_answers else None
        age = self.age_seconds() * 1000 + self.skew_ms
        return max(int(age), 0) if self.age_is_known and age > -_CLOCK_SKEW_MS else None

    def age_seconds(self) -> float:
        """Return the real waiting time of the oldest waiting record."""
        arrived = bisect_right(self._ends, float(self.checkpoint))
        return self.now - self._times[min(arrived, len(self._times) - 1)]

    def rewind(self, offsets: int) -> PartitionLife:
        """Move the checkpoint back."""
        self.checkpoint -= offsets
        self.report()
        return self

    def of_another_log(self) -> PartitionLife:
        """Replace the topic with an empty one, with which the lane continues."""
        self.life += 1
        self.base = self.checkpoint = self.end = 0
        self._ends, self._times = [0.0], [self.now]
        self.report()
        return self

    def history_at(self, now: float) -> LaneHistory:
        """Return the history shifted to end at this time."""
        shift, before = now - self.now, self.history
        return before._replace(
            waypoints=tuple(one._replace(at=one.at + shift) for one in before.waypoints),
            late_since=_moved(before.late_since, shift),
            stuck_since=_moved(before.stuck_since, shift),
            held_since=_moved(before.held_since, shift),
            unheard_since=_moved(before.unheard_since, shift),
        )

    def keeping(self, retention: Retention, record_bytes: float | None = 100.0) -> PartitionLife:
        """Set the retention and record size of the source."""
        self.history = self.history._replace(retention=retention, record_bytes=record_bytes)
        return self


def _moved(moment: float | None, seconds: float) -> float | None:
    return None if moment is None else moment + seconds
