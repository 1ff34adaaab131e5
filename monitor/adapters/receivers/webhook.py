"""Sends alerts to webhooks: one signed POST request for each group of alerts."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Final

from monitor.adapters.receivers.http_call import HttpCall
from monitor.adapters.receivers.secrets import secret_from
from monitor.alerts.alert import AlertNotice
from monitor.alerts.deliveries.messages import webhook_body
from monitor.alerts.settings import WebhookSettings

TIMESTAMP: Final = "X-Headrace-Timestamp"
SIGNATURE: Final = "X-Headrace-Signature"


class Webhook:
    """Sends alerts to one URL. Responses are not logged, because their content is unknown."""

    def __init__(self, name: str, settings: WebhookSettings, group_by: Sequence[str]) -> None:
        self._name = name
        self._settings = settings
        self._group_by = tuple(group_by)
        self._call = HttpCall(settings.ca_file, settings.timeout_seconds)

    def send(self, notices: Sequence[AlertNotice], now_ms: int) -> None:
        """Send a group of alerts. Raises like `monitor.alerts.deliveries.ports.Receiver.send`."""
        chosen = self._settings
        body = json.dumps(webhook_body(self._name, self._group_by, notices)).encode()
        headers = {"Content-Type": "application/json"}
        token = secret_from(chosen.token_file, chosen.token_variable)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if secret := secret_from(chosen.secret_file, chosen.secret_variable):
            seconds = now_ms // 1000
            headers |= {TIMESTAMP: str(seconds), SIGNATURE: signature(secret, seconds, body)}
        kept = secret_from(chosen.url_file, chosen.url_variable)
        has_credentials = bool(token or kept)
        url = chosen.url.get_secret_value() or kept
        self._call.post(url, body, headers, has_credentials=has_credentials, now_ms=now_ms)


def signature(secret: str, timestamp_seconds: int, body: bytes) -> str:
    """Return `v1=` and the hexadecimal HMAC-SHA-256 of the timestamp, a full stop and the body.

    The receiver should reject timestamps that are minutes off, to prevent replays of intercepted messages.
    """
    signed = b"%d." % timestamp_seconds + body
    return f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
