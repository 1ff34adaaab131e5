"""The monitor within the instances: the leader's judges, and the next leader's after it."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from monitor.adapters.rest_service import RestService
from monitor.alerts.catalogue import LATE
from tests.e2e.conftest import NewInstance
from tests.fakes.alert_receivers import CheckingAlertmanager
from tests.kafka_data import Record, make_topic, produce
from tests.metrics_data import fresh_name
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers

BREACHED: Final = "latency objective breached"


def settings(receiver: CheckingAlertmanager) -> dict[str, str]:
    return {
        "monitor__enabled": "true",
        "monitor__measurements": "topic",
        "monitor__interval_seconds": "0.5",
        "monitor__window_seconds": "900",
        "monitor__alerts__alertmanagers__here__url": receiver.url,
        "monitor__alerts__alertmanagers__here__refresh_seconds": "0.5",
    }


def firing(receiver: CheckingAlertmanager) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{receiver.url}/api/v2/alerts").json()
    return found


def has_judged(instance: RunningInstance) -> bool:
    return BREACHED in instance.log_file.read_text()


def test_the_leader_judges_and_the_next_one_after_it(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    name = fresh_name("judged")
    make_topic(kafka_pair.source.address, name)
    with CheckingAlertmanager() as receiver:
        first, second = (new_instance(one, **settings(receiver)) for one in ("one", "two"))
        first.rest.post(
            "/v1/datastreams",
            {
                "name": name,
                "source": {"cluster": "source", "topics": name},
                "destination": {"cluster": "destination", "name": "copy.*"},
                "objective": {"milliseconds": 1},
                "metadata": {"owner": "tests"},
            },
        )
        records = [Record(0, None, b"late", (), 1_700_000_000_000) for _ in range(10)]
        produce(kafka_pair.source.address, name, records)
        (alert,) = wait_until(lambda: firing(receiver), "the leader's monitor calls")
        assert (alert["labels"]["alertname"], alert["labels"]["datastream"]) == (LATE.name, name)
        leader, other = (first, second) if has_judged(first) else (second, first)
        assert not has_judged(other), "one of them judges"
        for one in (first, second):
            assert RestService(one.rest).has_own_monitor()
        wait_until(lambda: name in str(other.rest.get("/v1/incidents")), "the incident is kept")
        leader.kill()
        told = len(receiver.requests)
        wait_until(lambda: len(receiver.requests) > told + 2, f"the next leader calls; log: {other.log_file}")
        incidents = [one for one in other.rest.get("/v1/incidents") if one["datastream"] == name]
        assert len(incidents) == 1, "the incident continues"
        other.rest.patch(f"/v1/datastreams/{name}", {"objective": None}, "*")
        wait_until(lambda: not firing(receiver), "nothing is left to judge")
