"""Stored form of the firing alerts, with which the next monitor resolves them at each receiver. Pure.

There is one record per datastream. A record changes only when an alert starts or ends, when the end of an
alert moves, or when a receiver accepts an alert. The catalogue, and the numbers of receivers and retired
topics limit its size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import legible
from monitor.alerts.alert import Alert, AlertKey
from monitor.alerts.catalogue import (
    CATALOGUE,
    CATCHING_UP,
    DESTINATION_AWAY,
    HALTED,
    OF_PARTITIONS,
    PAUSED,
    SOURCE_AWAY,
    TRANSACTION,
    WATCHDOG,
)
from monitor.causes.diagnosis import Cause
from monitor.records.record import NOTES, UNREADABLE, moment_of
from monitor.records.tracker import DatastreamProblem

_log = get_logger(__name__)
_SAID: Final = "reported by a previous monitor"
_KINDS: Final = {kind.name: kind for kind in CATALOGUE if kind is not WATCHDOG}
_END_PRECISION_MS: Final = 5_000
"""Change of the end of an alert in ms from which the alert is stored again. Ends are computed from two clocks
in each evaluation, and therefore vary by milliseconds."""
_CAUSES: Final = {
    SOURCE_AWAY: Cause.SOURCE_AWAY,
    DESTINATION_AWAY: Cause.DESTINATION_AWAY,
    PAUSED: Cause.PAUSED,
    TRANSACTION: Cause.OPEN_TRANSACTION,
}
"""Alerts whose condition is itself a cause of late records."""


_NOBODY: Final[Mapping[AlertKey, Sequence[str]]] = {}


class InheritedAlert(NamedTuple):
    """An alert that fired for a previous monitor, and the receivers that have accepted it."""

    alert: Alert
    receivers: frozenset[str] = frozenset()


class InheritedAlerts:
    """Firing alerts in the state in which they began to fire, so that they are not written again when they
    change."""

    def __init__(self) -> None:
        self._first: dict[AlertKey, Alert] = {}

    def records(
        self, firing: Iterable[Alert], receivers: Mapping[AlertKey, Sequence[str]] = _NOBODY
    ) -> Mapping[str, bytes]:
        """Return the records to store for the next monitor, with their ids. `receivers`: names of the
        receivers that have accepted each alert."""
        self._first = {alert.key: self._stored(alert) for alert in firing if alert.kind.name in _KINDS}
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in self._first.values():
            found.setdefault(NOTES + alert.datastream, []).append(
                {
                    "name": alert.kind.name,
                    "datastream": alert.datastream,
                    "cluster": alert.cluster,
                    "receiver": alert.receiver,
                    "topic": alert.topic,
                    "since_ms": alert.since_ms,
                    "summary": alert.summary,
                    "until_ms": alert.until_ms,
                    "told": list(receivers.get(alert.key, ())),
                }
            )
        return {
            key: json.dumps(
                {"id": key, "alerts": sorted(each, key=itemgetter("name", "receiver", "cluster", "topic"))}
            ).encode()
            for key, each in found.items()
        }

    def _stored(self, alert: Alert) -> Alert:
        """Return the alert as it first fired with these labels, with its current end."""
        first = self._first.get(alert.key, alert)
        if first.cluster != alert.cluster:
            return alert
        is_later = abs(alert.until_ms - first.until_ms) >= _END_PRECISION_MS
        return replace(first, until_ms=alert.until_ms) if is_later else first


def matters_of(firing: Iterable[Alert]) -> dict[DatastreamName, list[DatastreamProblem]]:
    """Return the problems of each datastream other than a missed objective. Catching up is not a problem."""
    found: dict[DatastreamName, list[DatastreamProblem]] = {}
    for alert in firing:
        if alert.kind is HALTED or (alert.kind in OF_PARTITIONS and alert.kind is not CATCHING_UP):
            text = f"{alert.summary}; {alert.description}"
            matter = DatastreamProblem(alert.kind.name, alert.cluster, text, _CAUSES.get(alert.kind))
            for name in (alert.datastream,) if alert.datastream else alert.datastreams:
                found.setdefault(DatastreamName(name), []).append(matter)
    return found


def read_alerts(values: Iterable[bytes]) -> list[InheritedAlert]:
    """Parse stored alerts. Alerts that this version does not know are logged and skipped."""
    found: list[InheritedAlert] = []
    for value in values:
        try:
            stored = list(json.loads(value)["alerts"])
        except UNREADABLE as error:
            _leave_out(value[:100], error)
            continue
        for record in stored:
            try:
                found.append(InheritedAlert(_alert_of(record), frozenset(map(str, record.get("told", ())))))
            except UNREADABLE as error:
                _leave_out(record, error)
    return found


def _leave_out(record: object, error: Exception) -> None:
    reason = str(error) or type(error).__name__
    _log.warning("stored alert skipped", record=legible(repr(record)), reason=reason)


def _alert_of(record: dict[str, Any]) -> Alert:
    return Alert(
        kind=_KINDS[record["name"]],
        summary=str(record["summary"]),
        description=_SAID,
        since_ms=moment_of(record["since_ms"]),
        datastream=str(record["datastream"]),
        cluster=str(record["cluster"]),
        receiver=str(record["receiver"]),
        topic=str(record.get("topic", "")),
        until_ms=moment_of(record.get("until_ms", 0)),
    )
