"""Alerts that nobody wants to hear of for a while. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import WATCHDOG


@dataclass(frozen=True, slots=True)
class Silence:
    """Alerts of datastreams whose names match, with `*` for any text, until then. Those of a cluster
    where all of its datastreams match; those of the whole service are silenced by `*` alone."""

    datastream: str
    until_ms: int
    reason: str = ""

    def covers(self, alert: Alert, now_ms: int) -> bool:
        """Whether the alert is not to be told now. Without the watchdog somebody would be called."""
        if now_ms >= self.until_ms or alert.kind is WATCHDOG:
            return False
        names = (alert.datastream,) if alert.datastream else alert.datastreams
        is_named = bool(names) and all(fnmatchcase(one, self.datastream) for one in names)
        return self.datastream == "*" or is_named


def silence_of(alert: Alert, silences: Sequence[Silence], now_ms: int) -> Silence | None:
    """The first that covers the alert."""
    return next((one for one in silences if one.covers(alert, now_ms)), None)
