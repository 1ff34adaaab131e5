"""A fleet of a fixed size becomes too small: its monitor, or a real Prometheus with the shipped rules, sends
one alert to a real Alertmanager, which ends when an instance joins."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from headrace.console.client import unless_it_may_pass
from monitor.alerts.catalogue import RESIZE
from tests.alertmanagers import running_alertmanager
from tests.e2e.conftest import NewInstance
from tests.fakes.alert_receivers import HttpReceiver
from tests.kafka_data import make_topic
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream
from tests.patience import wait_until
from tests.prometheus import running_prometheus, scrape, sees_metrics
from tests.running import RunningInstance
from tests.servers import KafkaPair
from tests.traffic import set_rates, traffic

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]
PARTITIONS: Final = 6
CAPACITY: Final = 100_000
"""Bytes per second of a task; an instance can run two."""
LIGHT, HEAVY = 1_000, 60_000
NEEDED: Final = 3
"""Instances that the heavy load requires: a task bears one of the partitions."""
RULE_NAME: Final = "HeadraceInstancesNeeded"


def alertmanager_configuration(hook: HttpReceiver) -> str:
    """Return the configuration of an Alertmanager that posts to the receiver."""
    route = {"receiver": "hook", "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
    receivers = [{"name": "hook", "webhook_configs": [{"url": hook.url, "send_resolved": True}]}]
    return json.dumps({"route": route, "receivers": receivers})


def even(rate: float) -> dict[int, float]:
    return dict.fromkeys(range(PARTITIONS), rate)


def sent_alerts(hook: HttpReceiver) -> list[tuple[str, str]]:
    """Return the name and status of each alert about the size of the fleet, without repetitions."""
    alerts = [one for request in hook.requests for one in request.document["alerts"]]
    states = [(one["labels"]["alertname"], one["status"], one["startsAt"]) for one in alerts]
    return [one[:2] for one in dict.fromkeys(states) if one[0] in (RESIZE.name, RULE_NAME)]


def needed(instance: RunningInstance) -> int:
    """Return the instances that the advice requires; 0 while it is unknown."""
    advice = unless_it_may_pass(lambda: instance.rest.get("/v1/advice"))()
    return int(advice["required_instances"] or 0) if advice else 0


@pytest.mark.parametrize("has_receiver", [True, False], ids=["by the monitor", "by Prometheus"])
def test_a_fleet_that_is_too_small_is_one_alert_which_ends_when_an_instance_joins(
    has_receiver: bool, new_instance: NewInstance, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    name = fresh_name("static")
    make_topic(kafka_pair.source.address, name, PARTITIONS)
    settings = {
        "monitor__measurements": "topic",
        "monitor__interval_seconds": "1",
        "monitor__alerts__resize_after_seconds": "5",
        "monitor__alerts__gather_seconds": "1",
        "assigner__advice__tasks_per_instance": "2",
        "assigner__advice__interval_seconds": "2",
        "mirror__leader__task_capacity_bytes_per_second": str(CAPACITY),
        "mirror__leader__replan_interval_seconds": "2",
        "mirror__leader__scale_in_after_hours": "1",
    }
    with ExitStack() as stack:
        hook, direct = (stack.enter_context(HttpReceiver()) for _ in range(2))
        called = stack.enter_context(running_alertmanager(tmp_path, alertmanager_configuration(hook)))
        if has_receiver:
            settings["monitor__alerts__alertmanagers__real__url"] = called
            settings["monitor__alerts__alertmanagers__real__refresh_seconds"] = "2"
            settings["monitor__alerts__webhooks__chat__url"] = direct.url
        one = new_instance("one", **settings)
        targets = tmp_path / "targets.json"
        scrape(targets, [one.address])
        seen = stack.enter_context(running_prometheus(tmp_path, called, targets, minute_seconds=0.1))
        wait_until(lambda: sees_metrics(seen), "Prometheus scrapes")
        create_datastream(one, name, name)
        writer = stack.enter_context(traffic(kafka_pair.source.address, {name: even(LIGHT)}))
        wait_until(lambda: needed(one) == 1, "the fleet is large enough")
        assert sent_alerts(hook) == sent_alerts(direct) == []
        set_rates(writer, {name: even(HEAVY)})
        wait_until(lambda: needed(one) == NEEDED, "the fleet is too small")
        alert = RESIZE.name if has_receiver else RULE_NAME
        wait_until(lambda: sent_alerts(hook) == [(alert, "firing")], "Alertmanager sends one alert")
        if has_receiver:
            wait_until(
                lambda: sent_alerts(direct) == [(RESIZE.name, "firing")], "the monitor sends one alert"
            )
        fleet = [one, *(new_instance(f"more-{number}", **settings) for number in range(1, NEEDED))]
        scrape(targets, [each.address for each in fleet])
        wait_until(
            lambda: sent_alerts(hook) == [(alert, "firing"), (alert, "resolved")], "Alertmanager resolves it"
        )
        if has_receiver:
            wait_until(
                lambda: sent_alerts(direct) == [(RESIZE.name, "firing"), (RESIZE.name, "resolved")],
                "the monitor resolves it",
            )
