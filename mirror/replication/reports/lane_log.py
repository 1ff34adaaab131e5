"""Log lines about waiting lanes: one for each cause, with the number of lanes, however many wait for it."""

from __future__ import annotations

import logging

from mirror.model.datastreams.lanes import LaneKey, LaneSpec, PauseCause
from mirror.repeats import CauseReports, common_text
from mirror.wording import counted, duration_text

_log = logging.getLogger(__name__)


class LaneLog:
    """Log of the lanes of one engine. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._causes = CauseReports[LaneKey]()

    def waits(self, spec: LaneSpec, reason: str, now: float, cause: PauseCause = PauseCause.OTHER) -> None:
        """Note that a lane pauses or waits for that reason. All reasons of a cluster that is away are one."""
        place = spec.key.partition
        _log.debug("lane %s waits: %s", place, reason)
        away = {PauseCause.SOURCE_AWAY: spec.source, PauseCause.DESTINATION_AWAY: spec.destination}
        target = f"{spec.destination_topic}-{place.partition}"
        name = f"{cause} {away[cause]}" if cause in away else common_text(reason, str(place), target)
        self._causes.affected(spec.key, name, reason, now)

    def copies(self, key: LaneKey, now: float) -> None:
        """Note that a lane copies again or has stopped."""
        self._causes.freed(key, now)

    def pump(self, now: float) -> None:
        """Write the lines that are due."""
        for one in self._causes.due(now):
            if one.is_over:
                lanes, seconds = counted(one.count, "lane"), duration_text(one.seconds)
                _log.warning("%s no longer affected after %s: %s", lanes, seconds, one.reason)
            else:
                _log.warning("%s: %s", counted(one.count, "lane waits", "lanes wait"), one.reason)
