"""Alerts, and the notices about them that receivers get. Pure.

As in Alertmanager, labels identify an alert and do not change while it fires. Annotations describe its
current state. https://prometheus.io/docs/alerting/latest/clients/
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import quote

from mirror.model.reasons import legible

_LAST_MS: Final = 253_402_300_799_000
"""Last second of the year 9999 (epoch ms)."""

_MOST_NAMES: Final = 200
"""Maximum number of datastreams listed in an annotation."""
ALERTNAME = "alertname"
"""Label with the name of the alert, present on every alert."""


class Severity(StrEnum):
    """Urgency of an alert."""

    CRITICAL = "critical"
    """The alert requires action now."""
    WARNING = "warning"
    """The alert requires action on the next working day."""
    NONE = "none"
    """Severity of the watchdog: only its absence requires an action."""


@dataclass(frozen=True, slots=True)
class AlertKind:
    """An entry of the alert catalogue. `name`: value of the label `alertname`, and name of the alert's page
    in docs/runbooks/."""

    name: str
    severity: Severity


class AlertKey(NamedTuple):
    """Identity of an alert: two alerts with this key are the same alert. `datastream` is empty if the alert
    is about the whole service, a receiver or a cluster."""

    name: str
    datastream: str
    receiver: str = ""
    cluster: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """A problem that has existed since `since_ms` (epoch ms), to be reported to receivers.

    `cluster`: alias of the source cluster, or of the cluster of `topic`. `done`: action that Headrace has
    taken. `partitions`: number of affected partitions, 0 if the alert is not about partitions. `worst`: most
    affected partition. `receiver`: name of the receiver, for an alert about a receiver. `datastreams`:
    datastreams that a fault of a cluster affects. `until_ms`: time until which the alert continues after a
    single event, such as a loss (epoch ms); 0 if the alert depends on a condition that can be observed.
    """

    kind: AlertKind
    summary: str
    description: str
    since_ms: int
    datastream: str = ""
    cluster: str = ""
    done: str = ""
    partitions: int = 0
    worst: str = ""
    receiver: str = ""
    datastreams: tuple[str, ...] = ()
    topic: str = ""
    until_ms: int = 0

    @property
    def key(self) -> AlertKey:
        """Identity of the alert. Alerts with equal keys are the same alert."""
        cluster = "" if self.datastream and not self.topic else self.cluster
        return AlertKey(self.kind.name, self.datastream, self.receiver, cluster, self.topic)


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """State of an alert in the form that receivers get.

    `ended_ms`: time at which the alert was resolved (epoch ms), None while it fires. `link`: REST URL of the
    datastream, or of the health report for other alerts.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    link: str
    starts_ms: int
    ended_ms: int | None = None

    @property
    def key(self) -> str:
        """Hash of the labels as 16 hexadecimal digits, which is the same while the alert fires and when it
        resolves."""
        text = "\xff".join(f"{name}\xfe{value}" for name, value in sorted(self.labels.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def is_firing(self) -> bool:
        """True until the alert of the notice is resolved."""
        return self.ended_ms is None


@dataclass(frozen=True, slots=True)
class Style:
    """Settings for the content of all notices.

    `labels`: additional labels. `runbook`: URL of the runbook with the placeholder `{alertname}`; if empty,
    notices contain the path `docs/runbooks/{alertname}.md`. `service`: base URL of the REST interface.
    """

    labels: Mapping[str, str]
    runbook: str
    service: str

    def notice(self, alert: Alert, ended_ms: int | None = None) -> AlertNotice:
        """Return the notice of an alert. `ended_ms`: time at which it was resolved, None while it fires."""
        name = alert.kind.name
        labels = {ALERTNAME: name, "severity": alert.kind.severity.value, "service": "headrace"}
        labels |= {"datastream": alert.datastream, "cluster": alert.cluster, "receiver": alert.receiver}
        labels["topic"] = alert.topic
        texts = {"summary": alert.summary, "description": alert.description, "action": alert.done}
        texts |= {"partitions": str(alert.partitions or ""), "worst_partition": alert.worst}
        texts["datastreams"] = ", ".join(alert.datastreams[:_MOST_NAMES])
        texts["runbook_url"] = self.runbook.replace("{alertname}", name) or f"docs/runbooks/{name}.md"
        where = f"/v1/datastreams/{quote(alert.datastream, safe='')}" if alert.datastream else "/v1/health"
        return AlertNotice(
            {key: legible(value) for key, value in (labels | dict(self.labels)).items() if value},
            {key: legible(value) for key, value in texts.items() if value},
            self.service + where,
            alert.since_ms,
            None if ended_ms is None else max(ended_ms, alert.since_ms),
        )


def rfc3339(moment_ms: int) -> str:
    """Format epoch milliseconds as `2026-11-23T12:00:00.000Z`. Times after the year 9999 become the last
    second of that year."""
    moment = datetime.fromtimestamp(min(moment_ms, _LAST_MS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
