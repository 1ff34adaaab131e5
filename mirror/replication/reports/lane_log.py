"""Reports waiting lanes: an event for each lane, and a log line for each cause with the number of lanes."""

from __future__ import annotations

from collections.abc import Callable

from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LanePaused, LaneResumed, LaneSpec, PauseCause
from mirror.repeats import CauseReports, common_text

_log = get_logger(__name__)


class LaneLog:
    """Logs the waiting lanes of one engine. `report`: receives each event. `now`: returns monotonic
    seconds."""

    def __init__(self, report: Callable[[LaneEvent], None], now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._causes = CauseReports[LaneKey]()

    def waits(self, spec: LaneSpec, reason: str, cause: PauseCause, offset: int | None = None) -> None:
        """Report that a lane pauses or waits. An unresponsive cluster counts as one cause, even with
        different reasons. `offset`: source offset at which the lane resumes, None if unknown."""
        place, event = spec.key.partition, LanePaused(spec.key, reason, cause, offset)
        _log.debug("lane waits", **spec.key.log_fields, reason=event.text)
        away = {PauseCause.SOURCE_AWAY: spec.source, PauseCause.DESTINATION_AWAY: spec.destination}
        target = f"{spec.destination_topic}-{place.partition}"
        name = f"{cause} {away[cause]}" if cause in away else common_text(reason, str(place), target)
        self._causes.affected(spec.key, name, event.text, self._now())
        self._report(event)

    def copies(self, key: LaneKey) -> None:
        """Report that a lane copies records again."""
        self.stopped(key)
        self._report(LaneResumed(key))

    def stopped(self, key: LaneKey) -> None:
        """Note that a lane has stopped and no longer waits. The caller reports the reason for the stop."""
        self._causes.freed(key, self._now())

    def pump(self, now: float) -> None:
        """Write the log lines about waiting lanes that are due."""
        for cause in self._causes.due(now):
            if cause.is_over:
                seconds = round(cause.seconds, 1)
                _log.warning("lanes continue", lanes=cause.count, seconds=seconds, reason=cause.reason)
            else:
                _log.warning("lanes wait", lanes=cause.count, reason=cause.reason)
