"""Estimates when records were appended to the source log. Pure.

Record timestamps are event times, or come from clocks of producers, which may be wrong. Fetch responses limit
the possible append times. If a request was sent at time S, and its response arrived at time R with the end
offset E, then records from offset E on were appended after S, and records below E before R, both by our
clock. A timestamp outside these bounds is replaced by the nearest bound.

While a lane is behind and does not fetch, the bounds are far apart. If the clock of the producer is ahead,
the largest error that was measured with close bounds is subtracted from its timestamps. The result is at most
`NARROW_MS` later than the append. A clock that is behind needs no correction, because it only makes records
look older.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

TOLERANCE_MS: Final = 1_000
"""Maximum clock error in ms that counts as correct."""
NARROW_MS: Final = 2_000
"""Maximum distance of the bounds in ms at which a timestamp between them proves that the clock is correct."""
HOLD_SECONDS: Final = 60.0
"""Minimum validity of a learned clock error in seconds. The error expires after two consecutive periods of
this length in which the lane is on time and no timestamp confirms the error."""
_STEP_SECONDS: Final = 0.25
"""Minimum seconds between two stored end offsets, except the latest."""
_MOST_MARKS: Final = 12
_JUMP_MS: Final = 500
"""Difference between wall clock and monotonic clock in ms that shows a changed clock or a suspended
machine."""


class AppendSpan(NamedTuple):
    """Bounds of the time at which records were appended to the log: after `since_ms` (-1 if unknown), and not
    after `until_ms` (epoch ms)."""

    since_ms: int
    until_ms: int

    @property
    def is_narrow(self) -> bool:
        """True if the bounds of the append time are close together."""
        return self.since_ms >= 0 and self.until_ms - self.since_ms <= NARROW_MS


UNKNOWN_SPAN: Final = AppendSpan(-1, 2**63)


class _EndMark:
    """An observed end offset of the log. Later records were appended after `requested_at`, earlier records
    before `answered_at`."""

    __slots__ = ("answered_at", "end", "requested_at")

    def __init__(self, end: int, requested_at: float, answered_at: float) -> None:
        self.end = end
        self.requested_at = requested_at
        self.answered_at = answered_at


class AppendTimes:
    """Estimates append times of one lane's records, and clock errors of their producers."""

    __slots__ = ("_ahead_next", "_behind_next", "_marks", "_turned", "_zero_ms", "ahead_ms", "behind_ms")

    def __init__(self) -> None:
        self._marks: list[_EndMark] = []
        self._zero_ms = 0.0
        """Wall-clock time, in epoch ms, at which the monotonic clock was 0."""
        self.ahead_ms = self.behind_ms = 0
        """Largest errors of clocks that are ahead (positive) and behind (negative), 0 if there are none."""
        self._ahead_next = self._behind_next = 0
        """Largest errors in the current period of `HOLD_SECONDS`, which started at `_turned` (seconds)."""
        self._turned = -inf

    @property
    def offset_ms(self) -> int:
        """Largest clock error in ms: positive if ahead, negative if behind, 0 if all clocks are correct."""
        return self.ahead_ms if self.ahead_ms >= -self.behind_ms else self.behind_ms

    @property
    def is_off(self) -> bool:
        """True if the clock of a producer is wrong."""
        return self.ahead_ms > 0 or self.behind_ms < 0

    def quiet(self, requested_at: float) -> None:
        """Note that the log had no further records at `requested_at` (monotonic seconds)."""
        if self._marks and requested_at > self._marks[-1].requested_at:
            self._marks[-1].requested_at = requested_at

    def record_end(self, end: int, requested_at: float, now: float, now_ms: int, kept: int) -> None:
        """Add the end offset of the log from a response.

        `requested_at`, `now`: times of the request and of the response (monotonic seconds). `now_ms`: `now`
        in epoch ms. `kept`: first offset for which bounds are still needed.

        An end offset below the last one is ignored, because a new leader may be behind. All bounds are
        dropped after a jump of the wall clock.
        """
        marks, before_ms = self._marks, self._zero_ms
        self._zero_ms = now_ms - now * 1000
        if marks and abs(self._zero_ms - before_ms) > _JUMP_MS:
            marks.clear()
            return
        if not marks:
            marks.append(_EndMark(end, requested_at, now))
            return
        last = marks[-1]
        if end <= last.end:
            if end == last.end and requested_at > last.requested_at:
                last.requested_at = requested_at
            return
        while len(marks) > 1 and marks[1].end <= kept:
            del marks[0]
        if len(marks) > 1 and last.end > kept and now - marks[-2].answered_at < _STEP_SECONDS:
            last.end, last.requested_at, last.answered_at = end, requested_at, now
            return
        marks.append(_EndMark(end, requested_at, now))
        if len(marks) > _MOST_MARKS:
            self._thin()

    def _thin(self) -> None:
        """Drop one stored end offset: that with the smallest time between its neighbours. Keeps the first and
        last."""
        marks = self._marks
        places = range(1, len(marks) - 1)
        del marks[min(places, key=lambda place: marks[place + 1].answered_at - marks[place - 1].requested_at)]

    def span(self, first: int, last: int) -> AppendSpan:
        """Return the bounds of the append time for records at the offsets from `first` to `last`."""
        marks = self._marks
        after = len(marks)
        while after and marks[after - 1].end > first:
            after -= 1
        upto = after
        while upto < len(marks) and marks[upto].end <= last:
            upto += 1
        since_ms = int(self._zero_ms + marks[after - 1].requested_at * 1000) if after else -1
        if upto == len(marks):
            return AppendSpan(since_ms, UNKNOWN_SPAN.until_ms)
        return AppendSpan(since_ms, int(self._zero_ms + marks[upto].answered_at * 1000))

    def appended_ms(self, timestamp: int, span: AppendSpan) -> int:
        """Return the estimated append time of a record (epoch ms), within the bounds. A negative timestamp
        (unknown), and a timestamp up to `TOLERANCE_MS` before the bounds, are returned unchanged."""
        since_ms, until_ms = span
        if timestamp < 0:
            return timestamp
        if self.ahead_ms and since_ms >= 0 and until_ms - since_ms > NARROW_MS:
            timestamp -= self.ahead_ms
        if timestamp > until_ms:
            return until_ms
        return since_ms if timestamp < since_ms - TOLERANCE_MS else timestamp

    def learn(self, timestamp: int, span: AppendSpan, now: float) -> None:
        """Update the clock errors of producers from the timestamps of a batch. `timestamp`: newest timestamp
        of the batch. `span`: bounds of its append time. `now`: monotonic seconds."""
        if timestamp < 0:
            return
        if now - self._turned >= HOLD_SECONDS and span.is_narrow:  # wide bounds do not prove that it is right
            self.ahead_ms, self._ahead_next = self._ahead_next, 0
            self.behind_ms, self._behind_next = self._behind_next, 0
            self._turned = now
        ahead_ms, behind_ms = timestamp - span.until_ms, timestamp - span.since_ms
        if ahead_ms > TOLERANCE_MS:
            self._ahead_next = max(self._ahead_next, ahead_ms)
            self.ahead_ms = max(self.ahead_ms, ahead_ms)
        elif behind_ms < -TOLERANCE_MS and span.since_ms >= 0:
            self._behind_next = min(self._behind_next, behind_ms)
            self.behind_ms = min(self.behind_ms, behind_ms)
