"""An alert and what receivers are told of it. Pure.

By Alertmanager's convention labels say which alert it is, so nothing is among them that changes while it
lasts; annotations say what is known of it now.
https://prometheus.io/docs/alerting/latest/clients/
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import quote

from mirror.errors import legible

_LAST_MS: Final = 253_402_300_799_000
"""In the last second of the year 9999."""

_MOST_NAMES: Final = 200
"""Datastreams of a cluster that an annotation names."""
ALERTNAME = "alertname"
"""The label that every alert has."""


class Severity(StrEnum):
    """Whether somebody is to be woken."""

    CRITICAL = "critical"
    """Somebody acts now."""
    WARNING = "warning"
    """Somebody looks at it on the next working day."""
    NONE = "none"
    """Nobody is called: what matters is that it is not missing."""


@dataclass(frozen=True, slots=True)
class AlertKind:
    """A row of the catalogue. `name` is the label `alertname` and the name of its page in docs/runbooks/."""

    name: str
    severity: Severity


class AlertKey(NamedTuple):
    """Which alert it is. `datastream` is empty where it is of the whole service, a receiver, or a cluster."""

    name: str
    datastream: str
    receiver: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something is the matter since `since_ms`. `cluster`: the source's alias. `done`: what Headrace did
    about it already. `partitions`: how many are concerned, and `worst` of them; 0 where it is not about
    some. `receiver`: the one that it is about. `datastreams`: those that an alert of a cluster concerns."""

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

    @property
    def key(self) -> AlertKey:
        """Two alerts of one key are one."""
        cluster = "" if self.datastream else self.cluster
        return AlertKey(self.kind.name, self.datastream, self.receiver, cluster)


@dataclass(frozen=True, slots=True)
class Notice:
    """One alert in one state, as a receiver is told it. `ended_ms` is None while it fires; `link` leads to
    what it is about."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    link: str
    starts_ms: int
    ended_ms: int | None = None

    @property
    def key(self) -> str:
        """The same for all states of an alert: its labels in 16 hexadecimal digits."""
        text = "\xff".join(f"{name}\xfe{value}" for name, value in sorted(self.labels.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def is_firing(self) -> bool:
        """Whether it is not over."""
        return self.ended_ms is None


@dataclass(frozen=True, slots=True)
class Style:
    """What an operator adds to each alert. `labels` must not name ours. `runbook`: address of an alert's
    page, with `{alertname}` in it; empty: its path in the documentation. `service`: address of REST."""

    labels: Mapping[str, str]
    runbook: str
    service: str

    def notice(self, alert: Alert, ended_ms: int | None = None) -> Notice:
        """The alert firing, or over since then."""
        name = alert.kind.name
        labels = {ALERTNAME: name, "severity": alert.kind.severity.value, "service": "headrace"}
        labels |= {"datastream": alert.datastream, "cluster": alert.cluster, "receiver": alert.receiver}
        texts = {"summary": alert.summary, "description": alert.description, "action": alert.done}
        texts |= {"partitions": str(alert.partitions or ""), "worst_partition": alert.worst}
        texts["datastreams"] = ", ".join(alert.datastreams[:_MOST_NAMES])
        texts["runbook_url"] = self.runbook.replace("{alertname}", name) or f"docs/runbooks/{name}.md"
        where = f"/v1/datastreams/{quote(alert.datastream, safe='')}" if alert.datastream else "/v1/health"
        return Notice(
            {key: legible(value) for key, value in (labels | dict(self.labels)).items() if value},
            {key: legible(value) for key, value in texts.items() if value},
            self.service + where,
            alert.since_ms,
            None if ended_ms is None else max(ended_ms, alert.since_ms),
        )


def rfc3339(moment_ms: int) -> str:
    """Epoch milliseconds as `2026-11-23T12:00:00.000Z`; a moment that no calendar has is the last of it."""
    moment = datetime.fromtimestamp(min(moment_ms, _LAST_MS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
