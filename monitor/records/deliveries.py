"""Counts how many records arrived during an incident, and how many were late.

The records are counted half a minute after the incident has closed, because measurements reach Pinot after
some seconds. The counts are unknown if Pinot has no measurements of that time.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.ports import Clock
from mirror.wording import exact_duration_text
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import ObjectiveSubject, selects
from monitor.objectives.past import PastMeasurements, TopicLatencySums
from monitor.records.costs import objective_name
from monitor.records.record import DeliveryCost, IncidentRecord

_log = get_logger(__name__)

_SETTLED_MS: Final = 30_000
"""Delay in ms after which measurements are certainly in Pinot."""
_AGAIN_MS: Final = 60_000
"""Pause in ms after a failed attempt to count records."""
_LONGEST_MS: Final = 3_600_000
"""Maximum ms between the end of an incident and the count of its records. If Pinot is unavailable for longer,
the count stays unknown."""
_MOST_WAITING: Final = 1_000
_DAY_MS: Final = 24 * 3_600_000


class DeliveryCounts:
    """Queue of closed incidents whose records must be counted. `days`: retention of measurements in Pinot.
    `add` may be called while another thread counts."""

    def __init__(self, past: PastMeasurements, clock: Clock, days: int) -> None:
        self._past = past
        self._clock = clock
        self._kept_ms = days * _DAY_MS
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[IncidentRecord, ObjectiveSubject]] = {}
        self._not_before_ms = 0

    def add(self, record: IncidentRecord, subject: ObjectiveSubject | None) -> None:
        """Queue a closed incident for counting the records that arrived during it.

        `subject`: datastream of the incident. If None, nothing is counted, because the limits are unknown.
        """
        if record.closed_ms is None or record.deliveries is not None or subject is None:
            return
        is_in_time = self._clock.now_ms() - record.closed_ms <= _LONGEST_MS
        with self._lock:
            if is_in_time and limits_of(subject) and len(self._waiting) < _MOST_WAITING:
                self._waiting.setdefault(record.id, (record, subject))

    @property
    def is_due(self) -> bool:
        """True if the records of an incident can be counted now."""
        now_ms = self._clock.now_ms()
        with self._lock:
            return now_ms >= self._not_before_ms and any(
                _is_settled(record, now_ms) for record, _ in self._waiting.values()
            )

    def counted(self) -> IncidentRecord | None:
        """Count the records of the next incident in the queue, and return its record. Blocks during the
        query.

        `deliveries` is None if the count is unknown. Returns None if no incident is due, or if measurements
        cannot be read now.
        """
        now_ms = self._clock.now_ms()
        with self._lock:
            settled = [entry for entry in self._waiting.values() if _is_settled(entry[0], now_ms)]
        if not settled:
            return None
        record, subject = settled[0]
        try:
            deliveries = self._count(record, subject, now_ms)
        except HeadraceError as error:
            if now_ms - (record.closed_ms or now_ms) <= _LONGEST_MS:
                self._not_before_ms = now_ms + _AGAIN_MS
                return None
            _log.warning("late records of an incident unknown", incident=record.id, reason=str(error))
            deliveries = None
        with self._lock:
            del self._waiting[record.id]
        return replace(record, deliveries=deliveries)

    def _count(
        self, record: IncidentRecord, subject: ObjectiveSubject, now_ms: int
    ) -> tuple[DeliveryCost, ...] | None:
        period = TimeRangePiece(record.opened_ms, record.closed_ms or now_ms)
        if period.length_ms <= 0 or period.since_ms < now_ms - self._kept_ms:
            return None
        limits = limits_of(subject)
        return deliveries_of(subject, self._past.past(period, set(limits.values())))


def limits_of(subject: ObjectiveSubject) -> Mapping[str, int]:
    """Map the name of each objective to its latency limit in ms."""
    short = subject.objective
    found = {objective_name(objective): objective.milliseconds for objective in subject.objectives}
    if short is not None:
        found[f"p{short.percentile:g} within {exact_duration_text(short.milliseconds)}"] = short.milliseconds
    return found


def deliveries_of(subject: ObjectiveSubject, found: TopicLatencySums) -> tuple[DeliveryCost, ...] | None:
    """Return the number of arrived and of late records for each objective; None without measurements."""
    rows = [
        at
        for at, (group, cluster, topic) in enumerate(found.places)
        if (group, cluster) == subject.source and selects(subject.selection, topic)
    ]
    if not rows:
        return None
    records = sum(found.records[at] for at in rows)
    return tuple(
        DeliveryCost(name, records, sum(found.late[limit][at] for at in rows))
        for name, limit in limits_of(subject).items()
    )


def _is_settled(record: IncidentRecord, now_ms: int) -> bool:
    return record.closed_ms is not None and now_ms - record.closed_ms >= _SETTLED_MS
