"""Reads the times at which records were late."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from mirror.errors import AnalyticsError, Unreachable
from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from monitor.latency import LatencyVerdict, ObjectiveStatus, ObjectiveSubject, Source
from monitor.objectives.late_times import Lateness, LateTopics, lateness_of
from monitor.objectives.verdicts import windows_of

_log = get_logger(__name__)

LOOK_BACK_MS: Final = 120_000
"""Minimum time range in ms that a new monitor reads, because no monitor may have evaluated it."""


class LateReports(Protocol):
    """Interface to measurements of late records (see `monitor.ports.Measurements.late`)."""

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        """Return, for each topic of the sources, the records since `since_ms` that were late. Raises
        Unreachable, AnalyticsError."""
        ...


class LateTimes:
    """Reads once per evaluation at which times records were late, for datastreams that miss their objective.
    `window_seconds`: the monitor's own window. A newly started monitor reads a longer range."""

    def __init__(self, reports: LateReports, window_seconds: float) -> None:
        self._reports = reports
        self._window = window_seconds
        self._began_ms: int | None = None

    def read(
        self,
        subjects: Mapping[DatastreamName, ObjectiveSubject],
        verdicts: Mapping[DatastreamName, LatencyVerdict],
        now_ms: int,
    ) -> Mapping[DatastreamName, Lateness]:
        """Return the times at which records were late, for each datastream that misses its objective. Empty
        if the history cannot be read."""
        self._began_ms = now_ms if self._began_ms is None else self._began_ms
        late = {
            name: verdict
            for name, verdict in verdicts.items()
            if verdict.standing is ObjectiveStatus.BREACHED
        }
        if not late:
            return {}
        is_new = now_ms - self._began_ms < LOOK_BACK_MS // 2
        windows = windows_of((subjects[name] for name in late), self._window)
        since_ms = now_ms - max(*(round(window * 1_000) for window in windows), LOOK_BACK_MS if is_new else 0)
        least_ms = min(query.limit_ms for query in late.values())
        try:
            topics = self._reports.late({subjects[name].source for name in late}, since_ms, least_ms)
        except (Unreachable, AnalyticsError) as error:
            _log.warning("times of late records unknown", reason=str(error))
            return {}
        if topics is None:
            return {}
        return {name: lateness_of(subjects[name], topics, query.limit_ms) for name, query in late.items()}
