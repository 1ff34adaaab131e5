"""Client of Alertmanager's API v2, which Prometheus uses too.

https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

from monitor.adapters.receivers.http_call import HttpCall
from monitor.adapters.receivers.secrets import secret_from
from monitor.alerts.alert import AlertNotice, rfc3339
from monitor.alerts.settings import AlertmanagerSettings

PATH: Final = "/api/v2/alerts"
_MISSED_REFRESHES: Final = 4
"""Number of refresh intervals without a refresh after which Alertmanager resolves an alert. Prometheus uses
the same number."""


class Alertmanager:
    """Sends alerts to one Alertmanager, which groups, silences and de-duplicates them by labels."""

    def __init__(self, settings: AlertmanagerSettings) -> None:
        self._settings = settings
        self._call = HttpCall(settings.ca_file, settings.timeout_seconds, shows_answers=True)

    def send(self, notices: Sequence[AlertNotice], now_ms: int) -> None:
        """Send a group of alerts. Raises like `monitor.alerts.deliveries.ports.Receiver.send`."""
        valid_ms = int(_MISSED_REFRESHES * self._settings.refresh_seconds * 1000)
        body = json.dumps([posted(notice, now_ms, valid_ms) for notice in notices]).encode()
        headers = {"Content-Type": "application/json"} | self._credentials()
        url = self._settings.url.get_secret_value().rstrip("/") + PATH
        has_credentials = "Authorization" in headers
        self._call.post(url, body, headers, has_credentials=has_credentials, now_ms=now_ms)

    def _credentials(self) -> dict[str, str]:
        chosen = self._settings
        if token := secret_from(chosen.token_file, chosen.token_variable):
            return {"Authorization": f"Bearer {token}"}
        if not chosen.username:
            return {}
        password = secret_from(chosen.password_file, chosen.password_variable)
        pair = base64.b64encode(f"{chosen.username}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}


def posted(notice: AlertNotice, now_ms: int, valid_ms: int) -> dict[str, Any]:
    """Convert a notice to Alertmanager's `postableAlert`. A firing alert expires after `valid_ms` unless it
    is posted again.

    Start and end of a resolved alert are never in the future. Alertmanager rejects alerts that end before
    they start, and treats an alert that ends in the future as firing.
    """
    ends_ms = now_ms + valid_ms if notice.ended_ms is None else min(notice.ended_ms, now_ms)
    return {
        "labels": dict(notice.labels),
        "annotations": dict(notice.annotations),
        "startsAt": rfc3339(min(notice.starts_ms, now_ms, ends_ms)),
        "endsAt": rfc3339(ends_ms),
        "generatorURL": notice.link,
    }
