"""Monitor with a webhook receiver for its alerts, and their alerts and incidents of a datastream."""

from __future__ import annotations

from typing import Any, Final

from tests.fakes.alert_receivers import HttpReceiver
from tests.running import RunningInstance

_QUICK: Final = {
    "monitor__interval_seconds": "0.5",
    "monitor__window_seconds": "6",
    "monitor__cooldown_seconds": "1",
    "monitor__close_seconds": "1",
    "monitor__alerts__gather_seconds": "0.1",
    "monitor__alerts__halted_after_seconds": "0",
    "monitor__alerts__partitions_after_seconds": "0",
    "monitor__alerts__keep_seconds": "1",
}


def alert_settings(hook: HttpReceiver, measurements: str = "topic") -> dict[str, str]:
    """Return settings of a monitor that sends alerts to this webhook at once, and again twice a second."""
    webhook = "monitor__alerts__webhooks__chat__"
    receiver = {f"{webhook}url": hook.url, f"{webhook}repeat_seconds": "0.5"}
    return {**_QUICK, **receiver, "monitor__measurements": measurements}


def sent_alerts(hook: HttpReceiver, name: str) -> list[dict[str, Any]]:
    """Return the alerts of the datastream received so far, in order."""
    alerts = [one for request in hook.requests for one in request.document["alerts"]]
    return [one for one in alerts if one["labels"].get("datastream") == name]


def alert_states(hook: HttpReceiver, name: str) -> list[tuple[str, str]]:
    """Return the name and status of each alert received."""
    return [(one["labels"]["alertname"], one["status"]) for one in sent_alerts(hook, name)]


def incidents(instance: RunningInstance, name: str) -> dict[str, dict[str, Any]]:
    """Return the stored incidents of the datastream by id, newest first."""
    found: list[dict[str, Any]] = instance.rest.get("/v1/incidents", datastream=name)
    return {one["id"]: one for one in found}
