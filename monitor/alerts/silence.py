"""Silences, which suppress alerts until a given time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import WATCHDOG


@dataclass(frozen=True, slots=True)
class Silence:
    """Suppresses the alerts of datastreams with a matching name until `until_ms`. `*` matches any text.

    An alert of a cluster is silenced if all of its datastreams match. An alert of the whole service is
    silenced only by the pattern `*`.
    """

    datastream: str
    until_ms: int
    reason: str = ""

    def covers(self, alert: Alert, now_ms: int) -> bool:
        """Return whether the silence suppresses the alert now. The watchdog alert is never suppressed,
        because its absence would cause a page."""
        if now_ms >= self.until_ms or alert.kind is WATCHDOG:
            return False
        names = (alert.datastream,) if alert.datastream else alert.datastreams
        is_named = bool(names) and all(fnmatchcase(name, self.datastream) for name in names)
        return self.datastream == "*" or is_named


def silence_of(alert: Alert, silences: Sequence[Silence], now_ms: int) -> Silence | None:
    """Return the first silence that covers the alert."""
    return next((silence for silence in silences if silence.covers(alert, now_ms)), None)
