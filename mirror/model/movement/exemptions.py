"""Records that are exempt from a latency objective. Pure.

If an operator pauses a datastream, or creates one for topics with records, the existing records are late
because of this decision, and do not count. A lane copies in order. Newer records wait until the existing
records are copied, so they do not count for a limited time either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model import bounds

WHOLE: Final = "*"
"""Key for a resumption of the whole datastream. Other keys are topic names."""
CHAIN_MS: Final = 3_600_000
"""Maximum time in ms between the end of a pause and the start of the next, for which both count as one
pause."""
MOST_RESUMPTIONS: Final = 1_000
_UNREAD_MS: Final = 2_000
"""Time in ms before a pause: records that were produced in this time may still be uncopied when the lane
stops."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The end of a pause of a topic or of the whole datastream. Times are in epoch ms.

    `numbers`: paused partitions, None for all. `began_ms`: end of the first of several pauses in quick
    succession.
    """

    numbers: frozenset[int] | None
    since_ms: int
    until_ms: int
    began_ms: int

    def __post_init__(self) -> None:
        for name in ("since_ms", "until_ms", "began_ms"):
            bounds.integer(f"{name} of a resumption", getattr(self, name), 0, bounds.LARGEST_MS)

    def covers(self, number: int) -> bool:
        """Return whether the pause that ended included the partition."""
        return self.numbers is None or number in self.numbers


class LatencyExemption(NamedTuple):
    """Timestamp ranges (epoch ms) of a lane's records that are exempt from latency objectives.

    The exemption covers the records before `before_ms`, and the records from `since_ms` to before `until_ms`.
    Later records wait behind exempt records, and do not count for a limited time from `grace_from_ms` on.
    """

    before_ms: int = 0
    since_ms: int = 0
    until_ms: int = 0
    grace_from_ms: int = 0

    @property
    def end_ms(self) -> int:
        """Number that identifies the exemption: a later exemption of a lane has a higher one. 0 means no
        exemption."""
        return max(self.before_ms, self.until_ms)

    def as_of(self, now_ms: int) -> LatencyExemption:
        """Return the exemption with times in the future replaced by the current time.

        A definition may contain any timestamp.
        """
        return LatencyExemption(*(min(moment, now_ms) for moment in self))

    def covers(self, timestamp: int) -> bool:
        """Return whether a record with this timestamp is exempt."""
        return timestamp < self.before_ms or self.since_ms <= timestamp < self.until_ms


NO_EXEMPTION: Final = LatencyExemption()


def exemption_of(
    before_ms: int, resumptions: Mapping[str, Resumption], topic: str, number: int
) -> LatencyExemption:
    """Return the timestamp ranges of a partition's exempt records.

    `before_ms`: time of the creation or last restart of the datastream.
    """
    found = [
        resumption
        for resumption in (resumptions.get(WHOLE), resumptions.get(topic))
        if resumption is not None and resumption.covers(number) and resumption.until_ms > before_ms
    ]
    if not found:
        return LatencyExemption(before_ms, grace_from_ms=before_ms) if before_ms else NO_EXEMPTION
    last = max(found, key=lambda resumption: resumption.until_ms)
    since_ms = max(last.since_ms - _UNREAD_MS, 0)
    return LatencyExemption(before_ms, since_ms, last.until_ms, max(before_ms, last.began_ms))


def with_resumption(
    present: Mapping[str, Resumption], topic: str, numbers: frozenset[int] | None, since_ms: int, now_ms: int
) -> dict[str, Resumption]:
    """Add the end of a pause. Only the latest `MOST_RESUMPTIONS` are kept."""
    before = present.get(topic)
    is_chained = before is not None and since_ms - before.until_ms < CHAIN_MS
    began_ms = before.began_ms if before is not None and is_chained else now_ms
    found = {**present, topic: Resumption(numbers, since_ms, now_ms, began_ms)}
    if len(found) > MOST_RESUMPTIONS:
        del found[min(found, key=lambda name: found[name].until_ms)]
    return found


class CatchUpGrace:
    """Exemption of a lane's records, in effect until the lane has caught up once.

    `grace_ms`: time to catch up, in ms. The grace period ends early if the backlog has not shrunk for
    `_PROGRESS_MS`. Afterwards, later records count again, but the exempt records still do not.
    """

    __slots__ = ("_grace_ms", "_is_in_grace", "_least", "_least_ms", "end_offset", "exemption")

    def __init__(self, exemption: LatencyExemption, grace_ms: int) -> None:
        self.exemption = exemption
        self.end_offset = -1
        """Source offset before which all records must be delivered for the lane to have caught up; -1 if
        unknown."""
        self._grace_ms = grace_ms
        self._is_in_grace = True
        self._least = self._least_ms = -1

    @classmethod
    def of(cls, exemption: LatencyExemption, grace_ms: int, now_ms: int) -> CatchUpGrace | None:
        """Create the exemption of a lane that starts at `now_ms` (epoch ms), or None if no record is
        exempt."""
        return cls(exemption.as_of(now_ms), grace_ms) if exemption.end_ms else None

    def counts(self, timestamp: int) -> bool:
        """Return whether a record that is delivered now counts against latency objectives. Records from
        before a pause count, because the lane was running."""
        exemption = self.exemption
        if not self._is_in_grace:
            return not exemption.covers(timestamp)
        return exemption.before_ms <= timestamp < exemption.since_ms

    def counted_age(self, age_ms: int | None, now_ms: int) -> int | None:
        """Return an upper bound for the age in ms of the oldest waiting record that counts against
        objectives. `age_ms`: age of the oldest waiting record. Returns None if `age_ms` is None."""
        if age_ms is None:
            return None
        timestamp = now_ms - age_ms
        if self.counts(timestamp):
            return age_ms
        return 0 if self._is_in_grace else min(age_ms, max(now_ms - self.exemption.end_ms, 0))

    def note(self, waiting: int, now_ms: int) -> None:
        """Update the exemption with the number of offsets that wait to be copied."""
        if self._least < 0 or waiting < self._least:
            self._least, self._least_ms = waiting, now_ms
        has_time = now_ms - self.exemption.grace_from_ms <= self._grace_ms
        if not has_time or now_ms - self._least_ms > _PROGRESS_MS:
            self._is_in_grace = False


_PROGRESS_MS: Final = 120_000
"""Time in ms without a smaller backlog after which a lane is not catching up."""
