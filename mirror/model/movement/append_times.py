"""Times at which records were appended to the source log, as far as its responses bound them. Pure.

Timestamps come from the clocks of producers, which may be wrong, or are event times. A response with end
offset E to a request sent at S proves that records from E on were appended after S, by our clock, and records
before E until the response arrived. So a timestamp before these bounds means that the producer's clock is
behind (or that its records are older than their append); one after them means that it is ahead. In both cases
the bound replaces the timestamp.

While a lane is behind and does not fetch, the bounds are far apart. Then the largest offset of a clock ahead,
learned from narrow bounds, is subtracted: the result is never later than the append by more than `NARROW_MS`.
A clock behind needs no such estimate, because it only makes records look older.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

TOLERANCE_MS: Final = 1_000
"""Offset below which a clock counts as right."""
NARROW_MS: Final = 2_000
"""Distance of bounds up to which a timestamp between them shows that the clock is right."""
HOLD_SECONDS: Final = 60.0
"""Minimum validity of a learned offset. It ends with the second such period in which no timestamp confirms it
while the lane is in time."""
_STEP_SECONDS: Final = 0.25
"""Minimum distance between marks except the last."""
_MOST_MARKS: Final = 12
_JUMP_MS: Final = 500
"""Change between the two clocks from which on one was set, or the machine was suspended."""


class AppendSpan(NamedTuple):
    """Bounds of the append time of records, in epoch ms: after `since_ms` (-1 if unknown), and up to
    `until_ms`."""

    since_ms: int
    until_ms: int

    @property
    def is_narrow(self) -> bool:
        """Return whether the bounds are close to each other."""
        return self.since_ms >= 0 and self.until_ms - self.since_ms <= NARROW_MS


UNKNOWN_SPAN: Final = AppendSpan(-1, 2**63)


class _EndMark:
    """End of the source log: not passed at `requested_at`, reached at `answered_at` (monotonic seconds)."""

    __slots__ = ("requested_at", "end", "answered_at")

    def __init__(self, end: int, asked: float, heard: float) -> None:
        self.end = end
        self.requested_at = asked
        self.answered_at = heard


class AppendTimes:
    """Bounds of append times for one lane, and the offset of its producers' clocks."""

    __slots__ = (
        "_ahead_next",
        "_behind_next",
        "_first",
        "_marks",
        "_next",
        "_span",
        "_turned",
        "_zero_ms",
        "ahead_ms",
        "behind_ms",
    )

    def __init__(self) -> None:
        self._marks: list[_EndMark] = []
        self._zero_ms = 0.0
        """Wall time at which the monotonic clock was 0, in epoch ms."""
        self._first = self._next = 0
        """Offsets of `_span`; equal if it has to be determined."""
        self._span = UNKNOWN_SPAN
        self.ahead_ms = self.behind_ms = 0
        """Largest offset of a clock ahead, and of one behind (negative); 0 if there is none."""
        self._ahead_next = self._behind_next = 0
        """The same of the present period of `HOLD_SECONDS`, which began at `_turned` (monotonic seconds)."""
        self._turned = -inf

    @property
    def offset_ms(self) -> int:
        """Offset of the clock that is most wrong: positive if ahead, negative if behind, 0 if all are
        right."""
        return self.ahead_ms if self.ahead_ms >= -self.behind_ms else self.behind_ms

    @property
    def is_off(self) -> bool:
        """Return whether a clock is wrong."""
        return self.ahead_ms > 0 or self.behind_ms < 0

    def quiet(self, asked: float) -> None:
        """Record that the log had no further records at that time, in monotonic seconds."""
        if self._marks and asked > self._marks[-1].requested_at:
            self._marks[-1].requested_at = asked
            self._next = self._first

    def record_end(self, end: int, asked: float, now: float, now_ms: int, kept: int) -> None:
        """Record an end of the log, according to a response at `now` to a request sent at `requested_at` (monotonic
        seconds). `now_ms`: the same time in epoch ms. `kept`: first offset of interest.

        Ignores an end before the last one: a new leader may know less, and a log that was cut off begins
        another life of the lane. Drops all bounds after a jump of a clock, because it is unknown on which
        side of it the request was sent.
        """
        marks, before_ms = self._marks, self._zero_ms
        self._zero_ms = now_ms - now * 1000
        self._next = self._first
        if marks and abs(self._zero_ms - before_ms) > _JUMP_MS:
            marks.clear()
            return
        if not marks:
            marks.append(_EndMark(end, asked, now))
            return
        last = marks[-1]
        if end <= last.end:
            if end == last.end and asked > last.requested_at:
                last.requested_at = asked
            return
        while len(marks) > 1 and marks[1].end <= kept:
            del marks[0]
        if len(marks) > 1 and last.end > kept and now - marks[-2].answered_at < _STEP_SECONDS:
            last.end, last.requested_at, last.answered_at = end, asked, now
            return
        marks.append(_EndMark(end, asked, now))
        if len(marks) > _MOST_MARKS:
            self._thin()

    def _thin(self) -> None:
        """Drop the inner mark whose neighbours are closest in time."""
        marks = self._marks
        places = range(1, len(marks) - 1)
        del marks[min(places, key=lambda one: marks[one + 1].answered_at - marks[one - 1].requested_at)]

    def span(self, first: int, last: int) -> AppendSpan:
        """Return the bounds for records at the offsets from `first` to `last`."""
        if self._first <= first and last < self._next:
            return self._span
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
        found = AppendSpan(since_ms, int(self._zero_ms + marks[upto].answered_at * 1000))
        if upto == after:
            self._first = marks[after - 1].end if after else 0
            self._next, self._span = marks[after].end, found
        return found

    def appended_ms(self, timestamp: int, span: AppendSpan) -> int:
        """Return the append time that the timestamp and these bounds suggest, in epoch ms; a negative
        timestamp (none) is returned unchanged.

        A timestamp that is up to `TOLERANCE_MS` before the bounds is unchanged, too.
        """
        since_ms, until_ms = span
        if timestamp < 0:
            return timestamp
        if self.ahead_ms and since_ms >= 0 and until_ms - since_ms > NARROW_MS:
            timestamp -= self.ahead_ms
        if timestamp > until_ms:
            return until_ms
        return since_ms if timestamp < since_ms - TOLERANCE_MS else timestamp

    def learn(self, timestamp: int, span: AppendSpan, now: float) -> None:
        """Learn from the newest timestamp of a batch that was appended within these bounds. `now`: monotonic
        seconds."""
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
