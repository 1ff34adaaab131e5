"""Records that do not count against a latency objective, because they existed before the lane had to copy
them.

If an operator pauses a datastream, or creates one for topics with records, the records existing at the start
of the lane are late because of that decision. The lane copies in order, so newer records wait behind them.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model import bounds

WHOLE: Final = "*"
"""Key for a resumption of the whole datastream; other keys are topic names. No topic can have this name."""
CHAIN_MS: Final = 3_600_000
"""Maximum time in ms from the end of a pause to the start of the next pause of the same topic for which both
count as one pause (`Resumption.began_ms`)."""
MOST_RESUMPTIONS: Final = 1_000
_UNREAD_MS: Final = 2_000
"""Records produced within this time before a pause are on time, but may still be at the source when the lane
stops."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The last finished pause of a topic or of the whole datastream, in epoch ms. `numbers`: partitions that
    were paused; None means all. `began_ms`: end of the first of several pauses in quick succession."""

    numbers: frozenset[int] | None
    since_ms: int
    until_ms: int
    began_ms: int

    def __post_init__(self) -> None:
        for name in ("since_ms", "until_ms", "began_ms"):
            bounds.integer(f"{name} of a resumption", getattr(self, name), 0, bounds.LARGEST_MS)

    def covers(self, number: int) -> bool:
        """Return whether the partition was paused."""
        return self.numbers is None or number in self.numbers


class Excuse(NamedTuple):
    """Records of a lane that do not count, by timestamp (epoch ms): before `before_ms`, and from `since_ms`
    to before `until_ms`. From `patience_ms` on, for a limited time, the records that wait behind them do not
    count either."""

    before_ms: int = 0
    since_ms: int = 0
    until_ms: int = 0
    patience_ms: int = 0

    @property
    def name(self) -> int:
        """Number that identifies the excuse. Later excuses of a lane have higher numbers; 0 means no
        excuse."""
        return max(self.before_ms, self.until_ms)

    def as_of(self, now_ms: int) -> Excuse:
        """Return the excuse with times in the future replaced by the current time, since a definition may
        contain any timestamp."""
        return Excuse(*(min(moment, now_ms) for moment in self))

    def covers(self, timestamp: int) -> bool:
        """Return whether the excuse applies to a record with this timestamp."""
        return timestamp < self.before_ms or self.since_ms <= timestamp < self.until_ms


NO_EXCUSE: Final = Excuse()


def excuse_of(before_ms: int, resumptions: Mapping[str, Resumption], topic: str, number: int) -> Excuse:
    """Return the excuse of a partition. `before_ms`: time of the creation or last restart of the
    datastream."""
    found = [
        resumption
        for resumption in (resumptions.get(WHOLE), resumptions.get(topic))
        if resumption is not None and resumption.covers(number) and resumption.until_ms > before_ms
    ]
    if not found:
        return Excuse(before_ms, patience_ms=before_ms) if before_ms else NO_EXCUSE
    last = max(found, key=lambda resumption: resumption.until_ms)
    since_ms = max(last.since_ms - _UNREAD_MS, 0)
    return Excuse(before_ms, since_ms, last.until_ms, max(before_ms, last.began_ms))


def with_resumption(
    present: Mapping[str, Resumption],
    topic: str,
    numbers: frozenset[int] | None,
    since_ms: int,
    now_ms: int,
) -> dict[str, Resumption]:
    """Return the resumptions with one added, limited to the latest `MOST_RESUMPTIONS`."""
    before = present.get(topic)
    is_chained = before is not None and since_ms - before.until_ms < CHAIN_MS
    began_ms = before.began_ms if before is not None and is_chained else now_ms
    found = {**present, topic: Resumption(numbers, since_ms, now_ms, began_ms)}
    if len(found) > MOST_RESUMPTIONS:
        del found[min(found, key=lambda name: found[name].until_ms)]
    return found


class ExcusedLane:
    """State of a lane's excuse until the lane has caught up once. `patience_ms`: time allowed for catching
    up, in ms. The time allowed also ends if the backlog has not shrunk for `_PROGRESS_MS`. Afterwards,
    records behind the records of the excuse count again, but the records of the excuse still do not."""

    __slots__ = ("_is_patient", "_least", "_least_ms", "_patience_ms", "end", "excuse")

    def __init__(self, excuse: Excuse, patience_ms: int) -> None:
        self.excuse = excuse
        self.end = -1
        """Source offset; the lane has caught up when all earlier records are delivered. -1 if unknown."""
        self._patience_ms = patience_ms
        self._is_patient = True
        self._least = self._least_ms = -1

    @classmethod
    def of(cls, excuse: Excuse, patience_ms: int, now_ms: int) -> ExcusedLane | None:
        """Return the state of a lane that starts at `now_ms` (epoch ms), None without an excuse."""
        return cls(excuse.as_of(now_ms), patience_ms) if excuse.name else None

    def counts(self, timestamp: int) -> bool:
        """Return whether a record that is delivered now counts against objectives. Records produced before a
        pause count, because the lane ran at that time."""
        excuse = self.excuse
        if not self._is_patient:
            return not excuse.covers(timestamp)
        return excuse.before_ms <= timestamp < excuse.since_ms

    def counted_age(self, age_ms: int | None, now_ms: int) -> int | None:
        """Return an upper bound in ms for the age of the oldest waiting record that counts; None if `age_ms`
        is None. `age_ms`: age of the oldest waiting record."""
        if age_ms is None:
            return None
        timestamp = now_ms - age_ms
        if self.counts(timestamp):
            return age_ms
        return 0 if self._is_patient else min(age_ms, max(now_ms - self.excuse.name, 0))

    def note(self, waiting: int, now_ms: int) -> None:
        """Record the number of waiting offsets."""
        if self._least < 0 or waiting < self._least:
            self._least, self._least_ms = waiting, now_ms
        has_time = now_ms - self.excuse.patience_ms <= self._patience_ms
        if not has_time or now_ms - self._least_ms > _PROGRESS_MS:
            self._is_patient = False


_PROGRESS_MS: Final = 120_000
"""If the backlog of a lane has not shrunk for this time, the lane is not considered to be catching up."""
