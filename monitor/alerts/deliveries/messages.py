"""Formats messages about a group of alerts, as text and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mirror.model.reasons import legible
from monitor.alerts.alert import ALERTNAME, AlertNotice, rfc3339

_MOST_SHOWN: Final = 20
"""Maximum number of alerts in the text of a message. Further alerts are only counted."""
_NO_TIME: Final = "0001-01-01T00:00:00Z"
"""Value of `endsAt` that Alertmanager uses for firing alerts."""
_LONGEST_SUBJECT: Final = 150


def grouped_by(labels: Sequence[str]) -> Callable[[AlertNotice], tuple[str, ...]]:
    """Return a function that returns the group of a notice: its values of the given labels."""
    return lambda notice: tuple(notice.labels.get(name, "") for name in labels)


def subject_of(notices: Sequence[AlertNotice]) -> str:
    """Return a line such as `[2 firing, 1 resolved] HeadraceDatastreamHalted east`."""
    firing = sum(notice.is_firing for notice in notices)
    counts = [f"{firing} firing"] if firing else []
    counts += [f"{len(notices) - firing} resolved"] if firing < len(notices) else []
    common = _common([notice.labels for notice in notices])
    subject = " ".join(common[name] for name in (ALERTNAME, "cluster", "datastream") if name in common)
    # A name may contain any line terminator of Unicode.
    return legible(" ".join(f"[{', '.join(counts)}] {subject or 'alerts'}".split()), _LONGEST_SUBJECT)


def text_of(notices: Sequence[AlertNotice], *, as_slack: bool = False) -> str:
    """Return the text of a message: the subject, the firing alerts, and the resolved alerts.

    `as_slack`: escape for Slack, so that a name cannot mention a whole channel.
    """
    shown = sorted(notices, key=lambda notice: not notice.is_firing)
    lines = [subject_of(notices), *(line for notice in shown[:_MOST_SHOWN] for line in _lines_of(notice))]
    if len(shown) > _MOST_SHOWN:
        lines.append(f"… and {len(shown) - _MOST_SHOWN} more")
    text = "\n".join(lines)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") if as_slack else text


def _lines_of(notice: AlertNotice) -> list[str]:
    texts, since = notice.annotations, rfc3339(notice.starts_ms)
    state = (
        f"since {since}" if notice.ended_ms is None else f"resolved: {since} to {rfc3339(notice.ended_ms)}"
    )
    lines = ["", f"{notice.labels.get('severity', '')}: {texts.get('summary', '')} ({state})"]
    if notice.is_firing:
        lines.append(texts.get("description", ""))
        lines += [f"action taken: {texts['action']}"] if "action" in texts else []
    lines.append(f"runbook: {texts['runbook_url']}")
    lines.append(f"details: {notice.link}")
    return lines


def webhook_body(receiver: str, group_by: Sequence[str], notices: Sequence[AlertNotice]) -> dict[str, Any]:
    """Return the payload of an Alertmanager webhook (version 4), with a field `text` for services such as
    Slack.

    https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
    """
    labels = _common([notice.labels for notice in notices])
    group = {name: labels[name] for name in group_by if name in labels}
    return {
        "text": text_of(notices, as_slack=True),
        "version": "4",
        "groupKey": " ".join(f"{name}={value}" for name, value in group.items()),
        "truncatedAlerts": 0,
        "status": "firing" if any(notice.is_firing for notice in notices) else "resolved",
        "receiver": receiver,
        "groupLabels": group,
        "commonLabels": labels,
        "commonAnnotations": _common([notice.annotations for notice in notices]),
        "externalURL": notices[0].link,
        "alerts": [_document_of(notice) for notice in notices],
    }


def _document_of(notice: AlertNotice) -> dict[str, Any]:
    return {
        "status": "firing" if notice.is_firing else "resolved",
        "labels": dict(notice.labels),
        "annotations": dict(notice.annotations),
        "startsAt": rfc3339(notice.starts_ms),
        "endsAt": _NO_TIME if notice.ended_ms is None else rfc3339(notice.ended_ms),
        "generatorURL": notice.link,
        "fingerprint": notice.key,
    }


def _common(tables: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the labels that have the same value in all alerts of a message."""
    first, *rest = tables
    return {name: value for name, value in first.items() if all(notice.get(name) == value for notice in rest)}
