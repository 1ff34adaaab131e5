"""Determines when records of a datastream were late, from the reports of its lanes. Pure.

The verdict of a window remains bad as long as the window contains late records, even if records arrive in
time again. A record is late from the time at which it exceeds the objective until it arrives. The times are
exact to one report interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.latency import ObjectiveSubject, Source, selects

_NEWER_REPORTS: Final = 3, 2
"""Number of report intervals within which every lane reports again, as numerator and denominator."""
_MOST_KEPT: Final = 500

TimeInterval = tuple[int, int]
"""Time interval: start and end in epoch milliseconds."""


class LateSpan(NamedTuple):
    """Time interval in which late records waited, from the timestamp of the oldest record to `until_ms`
    (epoch ms).

    `age_ms`: upper bound of the latency or age of these records, including the time before a record reached
    the source.
    """

    oldest_ms: int
    until_ms: int
    age_ms: int


class TopicLateness(NamedTuple):
    """Times at which records of a topic were late.

    `recent_age_ms`: upper bound of the latency or age of records in partitions that may still have late
    records (see `is_recent`), 0 if there are none.
    """

    spans: Sequence[LateSpan]
    recent_age_ms: int


def is_recent(late_ms: int, newest_ms: int, interval_ms: int) -> bool:
    """Return whether a partition may still have late records.

    Returns True if a partition's last report is too close to its last report with late records. `late_ms`:
    time of the last report with late records. `newest_ms`: time of the last report. Both times are from the
    same partition, because the clocks of instances may differ.
    """
    numerator, denominator = _NEWER_REPORTS
    return (newest_ms - late_ms) * denominator < numerator * interval_ms


LateTopics = Mapping[Source, Mapping[str, TopicLateness]]
"""Lateness by source and topic. Topics without late records may be missing."""


class Lateness(NamedTuple):
    """Times at which records of a datastream missed its objective.

    `intervals`: disjoint intervals in order; empty if the times are unknown, for example if records were
    already late when they reached the source. `is_over`: every partition has since sent a report without late
    records.
    """

    intervals: tuple[TimeInterval, ...] = ()
    is_over: bool = True


UNMEASURED: Final = Lateness()


def lateness_of(subject: ObjectiveSubject, topics: LateTopics, limit_ms: int) -> Lateness:
    """Return the times at which records of the datastream were later than `limit_ms` milliseconds."""
    found: list[TimeInterval] = []
    is_over = True
    for topic, late in topics.get(subject.source, {}).items():
        if selects(subject.selection, topic):
            spans = [span for span in late.spans if span.age_ms > limit_ms]
            found += [(span.oldest_ms + limit_ms, span.until_ms) for span in spans]
            is_over = is_over and late.recent_age_ms <= limit_ms
    return Lateness(union(found), is_over)


def union(intervals: Iterable[TimeInterval]) -> tuple[TimeInterval, ...]:
    """Merge overlapping time intervals, and return them in order."""
    found: list[TimeInterval] = []
    for first, last in sorted(intervals):
        if last <= first:
            continue
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class BadTime:
    """Time during an incident in which records were late. Overlapping intervals count once.

    `since_ms`: start of the time that `intervals` can cover. Earlier bad time is in `counted_seconds`, or
    belongs to an earlier incident.
    """

    since_ms: int = 0
    counted_seconds: float = 0.0
    intervals: tuple[TimeInterval, ...] = ()

    @property
    def seconds(self) -> float:
        """Total length of the bad time in seconds."""
        return self.counted_seconds + _length(self.intervals)

    def adding(self, intervals: Iterable[TimeInterval]) -> BadTime:
        """Return the bad time with further intervals in which records were late. Their parts before
        `since_ms` are ignored."""
        clipped = [(max(first, self.since_ms), last) for first, last in intervals]
        found = union((*self.intervals, *clipped))
        since_ms, counted = self.since_ms, self.counted_seconds
        if len(found) > _MOST_KEPT:
            old, found = found[: _MOST_KEPT // 2], found[_MOST_KEPT // 2 :]
            since_ms, counted = old[-1][1], counted + _length(old)
        return BadTime(since_ms, counted, found)


def _length(intervals: Iterable[TimeInterval]) -> float:
    return sum(last - first for first, last in intervals) / 1_000
