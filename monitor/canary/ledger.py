"""Checks which canary records arrived, and which were late, repeated, out of order or lost. Pure.

Times are monotonic seconds, passed in by the caller. Records have consecutive indices from 0.

- A record whose write was not acknowledged counts as unavailability of the source and not as lost, because it
  may be missing in the log.
- A record is lost if it has not arrived `OVERTAKEN_SECONDS` after a later record, because a lane keeps the
  order, or if the canary topic has deleted it after its retention.
- A late record that may still arrive is waiting, and the delay includes its age.
- Records written before the first arrival are not judged, because the datastream may start at the end of the
  log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

WINDOW_SECONDS: Final = 60.0
"""Length of the window for availability and delays, in seconds."""
DUE_SECONDS: Final = 10.0
"""Age in seconds by which a canary record must have arrived to count as available."""
OVERTAKEN_SECONDS: Final = 60.0
"""Seconds for which a canary record may be missing after a later record has arrived."""
EXPIRY_SECONDS: Final = 86_400.0
"""Retention of the canary topic in seconds, after which a missing record can no longer arrive."""
_MOST_REMEMBERED: Final = 100_000
"""Maximum number of indices kept to distinguish late records from duplicates."""


@dataclass(frozen=True, slots=True)
class CanaryFigures:
    """Results of a canary since it was started. Unknown values are None.

    `produced`: acknowledged writes. `failed`: writes without acknowledgement. `waiting`: expected records
    that have not arrived. `oldest_seconds`: age of the oldest waiting record. `produce_availability`: share
    of acknowledged writes in the last minute. `consume_availability`: share of records in the last minute
    that arrived within `DUE_SECONDS`. `delay_ms_avg`, `delay_ms_max`: delays in the last minute.
    `slowest_ms`: highest delay since the first arrival. `delay_ms_max` and `slowest_ms` include waiting
    records. `lost_seconds`: time since the last loss. `silent_seconds`: time since the first acknowledgement
    if no record has arrived yet.
    """

    produced: int = 0
    failed: int = 0
    consumed: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    waiting: int = 0
    oldest_seconds: float | None = None
    produce_availability: float | None = None
    consume_availability: float | None = None
    delay_ms_avg: float | None = None
    delay_ms_max: float | None = None
    slowest_ms: float | None = None
    lost_seconds: float | None = None
    silent_seconds: float | None = None


@dataclass(slots=True)
class _Waiting:
    """A canary record that the source has acknowledged and that has not arrived yet."""

    sent_at: float
    is_judged: bool
    is_counted: bool = False
    """True if the record is already counted in `consume_availability`."""
    overtaken_at: float | None = None


class CanaryLedger:
    """Sent records of one canary in the order of their writes, for at most one day."""

    def __init__(self) -> None:
        self._next = 0
        self._writing: dict[int, float] = {}
        """Start times of writes without a result, by index."""
        self._waiting: dict[int, _Waiting] = {}
        self._uncertain: dict[int, float] = {}
        """Write times of records that may arrive, but are not lost if they never arrive; by index."""
        self._lost: dict[int, None] = {}
        self._floor = 0
        """Lowest index of a canary record that is still tracked."""
        self._highest = -1
        self._opened_at: float | None = None
        self._acknowledged_at: float | None = None
        self._attempts = _RecentValues()
        self._arrivals = _RecentValues()
        self._delays = _RecentValues()
        self._slowest: float | None = None
        self._lost_at: float | None = None
        self._produced = self._failed = self._consumed = 0
        self._losses = self._duplicated = self._out_of_order = 0

    def attempt(self, now: float) -> int:
        """Register the write of a canary record, and return the index that the record must contain."""
        index, self._next = self._next, self._next + 1
        self._writing[index] = now
        return index

    def acknowledged(self, index: int, now: float) -> None:
        """Record that the source has acknowledged a canary record."""
        self._produced += 1
        self._attempts.add(now, 1.0)
        self._acknowledged_at = now if self._acknowledged_at is None else self._acknowledged_at
        sent_at = self._writing.pop(index, None)
        if sent_at is not None:  # otherwise it has arrived before its acknowledgement
            self._waiting[index] = _Waiting(sent_at, self._is_judged(sent_at))

    def failed(self, index: int, now: float) -> None:
        """Record that the write of a canary record failed, or that its result is unknown."""
        self._failed += 1
        self._attempts.add(now, 0.0)
        sent_at = self._writing.pop(index, None)
        if sent_at is not None:
            self._uncertain[index] = sent_at

    def arrived(self, index: int, now: float) -> None:
        """Record the arrival of a record at the destination. Ignore indices that were never written."""
        if not self._floor <= index < self._next:
            return
        is_open = self._opened_at is not None
        if self._opened_at is None:
            self._opened_at = now
        if index in self._lost:  # late after all; its loss stays counted
            del self._lost[index]
            self._consumed += 1
            self._out_of_order += 1
            return
        waiting = self._waiting.pop(index, None)
        sent_at = self._sent_at(index, waiting)
        if sent_at is None:
            self._duplicated += 1
            return
        self._consumed += 1
        self._out_of_order += index < self._highest
        self._measure(now, sent_at, waiting, is_open=is_open)
        if index > self._highest:
            self._highest = index
            self._overtake(now)

    def _sent_at(self, index: int, waiting: _Waiting | None) -> float | None:
        """Return when the write of a record started (monotonic seconds); None if the record has already
        arrived."""
        if waiting is not None:
            return waiting.sent_at
        found = self._writing.pop(index, None)
        return self._uncertain.pop(index, None) if found is None else found

    def _is_judged(self, sent_at: float) -> bool:
        return self._opened_at is not None and sent_at >= self._opened_at

    def _measure(self, now: float, sent_at: float, waiting: _Waiting | None, *, is_open: bool) -> None:
        delay = max(now - sent_at, 0.0)
        if not is_open or not self._is_judged(sent_at):
            return
        self._delays.add(now, delay)
        self._slowest = max(delay, self._slowest or 0.0)
        if waiting is None or not waiting.is_counted:
            self._arrivals.add(now, float(delay <= DUE_SECONDS))

    def _overtake(self, now: float) -> None:
        for index, record in self._waiting.items():
            if index >= self._highest:
                break
            record.overtaken_at = now if record.overtaken_at is None else record.overtaken_at

    def advance(self, now: float) -> None:
        """Mark overdue records as lost if later records have arrived or the canary topic has deleted them."""
        for index, record in list(self._overdue(now)):
            if record.is_judged and not record.is_counted:
                record.is_counted = True
                self._arrivals.add(now, 0.0)
            is_overtaken = record.overtaken_at is not None and now - record.overtaken_at >= OVERTAKEN_SECONDS
            if is_overtaken or now - record.sent_at >= EXPIRY_SECONDS:
                self._lose(index, record, now)
        if self._next - self._floor > _MOST_REMEMBERED:
            self._forget(self._next - _MOST_REMEMBERED)

    def _overdue(self, now: float) -> Iterator[tuple[int, _Waiting]]:
        for index, record in self._waiting.items():
            if now - record.sent_at < min(DUE_SECONDS, OVERTAKEN_SECONDS):
                return
            yield index, record

    def _lose(self, index: int, record: _Waiting, now: float) -> None:
        del self._waiting[index]
        if not record.is_judged:
            self._uncertain[index] = record.sent_at
            return
        self._lost[index] = None
        self._losses += 1
        self._lost_at = now

    def _forget(self, floor: int) -> None:
        self._floor = floor
        for indices in (self._lost, self._uncertain):
            for index in [index for index in indices if index < floor]:
                del indices[index]

    def figures(self, now: float) -> CanaryFigures:
        """Return the results of the canary at `now` (monotonic seconds)."""
        self.advance(now)
        judged = [record for record in self._waiting.values() if record.is_judged]
        oldest = now - judged[0].sent_at if judged else None
        delays, waits = self._delays.values(now), [] if oldest is None else [oldest]
        known = [] if self._slowest is None else [self._slowest]
        silent_since = self._acknowledged_at if self._opened_at is None else None
        return CanaryFigures(
            produced=self._produced,
            failed=self._failed,
            consumed=self._consumed,
            lost=self._losses,
            duplicated=self._duplicated,
            out_of_order=self._out_of_order,
            waiting=len(judged),
            oldest_seconds=oldest,
            produce_availability=_mean(self._attempts.values(now)),
            consume_availability=_mean(self._arrivals.values(now)),
            delay_ms_avg=_milliseconds(_mean(delays)),
            delay_ms_max=_milliseconds(max([*delays, *waits], default=None)),
            slowest_ms=_milliseconds(max([*waits, *known], default=None)),
            lost_seconds=None if self._lost_at is None else now - self._lost_at,
            silent_seconds=None if silent_since is None else now - silent_since,
        )


class _RecentValues:
    """Values of the last minute, each with its time."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> None:
        self._values.append((now, value))
        self._drop(now)

    def values(self, now: float) -> list[float]:
        self._drop(now)
        return [value for _, value in self._values]

    def _drop(self, now: float) -> None:
        while self._values and now - self._values[0][0] > WINDOW_SECONDS:
            self._values.popleft()


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1_000
