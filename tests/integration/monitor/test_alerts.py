"""The monitor as a process with a real receiver: it sends alerts during any outage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from monitor.alerts.catalogue import BLIND
from stack.ports import LOOPBACK, free_ports
from stack.process.managed_process import ManagedProcess
from tests.fakes.alert_receivers import CheckingAlertmanager
from tests.patience import wait_until

pytestmark = pytest.mark.deep

SETTINGS = """
[clusters.destination]
bootstrap_servers = "{nobody}"

[monitor]
service = "{nobody}"
interval_seconds = 0.05
metrics_port = {metrics_port}

[monitor.alerts]
blind_after_seconds = 0

[monitor.alerts.alertmanagers.here]
url = "{url}"
refresh_seconds = 0.5

[monitor.alerts.webhooks.away]
url = "http://{nobody}/secret"

[logging]
format = "json"
"""


@pytest.fixture
def receiver() -> Iterator[CheckingAlertmanager]:
    with CheckingAlertmanager() as found:
        yield found


def test_a_service_that_is_away_is_an_alert_which_ends_by_itself_when_the_monitor_does(
    receiver: CheckingAlertmanager, tmp_path: Path
) -> None:
    metrics_port, nobody = free_ports(2)
    file, log = tmp_path / "headrace.toml", tmp_path / "monitor.log"
    nowhere = f"{LOOPBACK}:{nobody}"
    file.write_text(SETTINGS.format(nobody=nowhere, metrics_port=metrics_port, url=receiver.url))
    command = [sys.executable, "-m", "headrace", "monitor", "--config", str(file)]

    def fires() -> list[str]:
        alerts = httpx.get(f"{receiver.url}/api/v2/alerts").json()
        return [one["labels"]["alertname"] for one in alerts]

    def metrics() -> str:
        return httpx.get(f"http://{LOOPBACK}:{metrics_port}/metrics").text

    process = ManagedProcess("monitor", command, {}, log, grace_seconds=60)
    with process:
        wait_until(lambda: fires() or not process.is_alive(), f"it fires; log: {log}")
        assert fires() == [BLIND.name]
        first = receiver.requests[0].document[0]
        assert "no response" in first["annotations"]["description"]
        wait_until(lambda: len(receiver.requests) > 2, "the alert is refreshed")
        refreshed = receiver.requests[-1].document[0]
        assert refreshed["startsAt"] == first["startsAt"]
        assert refreshed["endsAt"] > first["endsAt"]
        wait_until(lambda: 'headrace_alerts_waiting{receiver="webhook/away"} 1.0' in metrics())
        assert 'headrace_alerts_firing{alertname="HeadraceNothingJudged"} 1.0' in metrics()
        assert process.stop() == 0
    wait_until(lambda: not fires(), "the alert has expired")
    lines = log.read_text()
    assert "cannot deliver alerts" in lines
    assert "/secret" not in lines
