"""Outages as causes found by the monitor of a running instance, which also judges without Pinot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Final

import pytest

from monitor.alerts.catalogue import DESTINATION_AWAY, LATE, SOURCE_AWAY
from monitor.causes.diagnosis import Cause
from monitor.records.record import Phase
from pinot.deployment.controller import PinotController
from pinot.deployment.deploy import apply
from pinot.schemas import Placement
from pinot.tables import MIRROR_METRICS
from stack.kafka import KafkaCluster
from stack.pinot import PinotServer
from tests.e2e.conftest import NewInstance
from tests.fakes.alert_receivers import HttpReceiver
from tests.freezing import frozen
from tests.kafka_data import make_topic
from tests.metrics_data import fresh_name, pinot_settings
from tests.mirrored import create_datastream
from tests.on_call import alert_settings, alert_states, incidents
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair, NewKafka
from tests.traffic import traffic

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

PARTITIONS: Final = 2
RATES: Final = dict.fromkeys(range(PARTITIONS), 20_000.0)
"""Bytes per second of each partition."""
FIRING: Final = (LATE.name, "firing")
RESOLVED: Final = (LATE.name, "resolved")


def monitor_says(instance: RunningInstance) -> str:
    """Return the health sentence of the monitor, in a service of one instance."""
    sentence: str = instance.rest.get("/v1/instances")[0]["health"]["parts"]["monitor"]["sentence"]
    return sentence


def nothing_was_moved(instance: RunningInstance, name: str) -> bool:
    operations = instance.rest.get("/v1/operations", datastream=name)
    asked = [one for one in operations if one["kind"] == "rebalance"]
    acted = [one for each in incidents(instance, name).values() for one in each["timeline"]]
    return not asked and Phase.ACTED not in {one["phase"] for one in acted}


def is_over(instance: RunningInstance, name: str) -> bool:
    return all(one["closed_ms"] is not None for one in incidents(instance, name).values())


def test_a_frozen_broker_and_a_dead_source_are_the_cause_and_nothing_is_moved(
    new_instance: NewInstance, new_kafka: NewKafka, kafka_pair: KafkaPair
) -> None:
    """Measurements, incidents and the coordination store are on a third cluster, which is healthy."""
    name = fresh_name("outage")
    with ThreadPoolExecutor() as pool:
        source, destination = pool.map(new_kafka, ("source", "destination"))
    make_topic(source.address, name, PARTITIONS)
    with HttpReceiver() as hook, traffic(source.address, {name: RATES}):
        instance = new_instance(
            "one",
            clusters__source__bootstrap_servers=source.address,
            clusters__destination__bootstrap_servers=destination.address,
            clusters__third__bootstrap_servers=kafka_pair.destination.address,
            coordination__cluster="third",
            mirror__metrics_cluster="third",
            # Longer than it takes to find that a cluster is the cause, as the default is.
            **alert_settings(hook) | {"monitor__alerts__halted_after_seconds": "10"},
        )
        create_datastream(instance, name, name, objective={"milliseconds": 3_000})
        wait_until(lambda: _has_arrived(instance, name), "records arrive in time")
        with frozen(destination.nodes[0].pid):
            wait_until(
                lambda: Cause.DESTINATION_AWAY in _causes(instance, name), "the destination is the cause"
            )
            wait_until(lambda: _states(hook, name)[DESTINATION_AWAY.name] == "firing", "an alert is sent")
            assert nothing_was_moved(instance, name)
        wait_until(lambda: set(_states(hook, name).values()) == {"resolved"}, "the alerts are resolved")
        wait_until(lambda: is_over(instance, name), "the incident is closed")
        source.kill()
        wait_until(lambda: _states(hook, name)[SOURCE_AWAY.name] == "firing", "an alert names the source")
        wait_until(lambda: _names(instance, name, SOURCE_AWAY.name), "an incident names the source")
        source.start()
        wait_until(lambda: is_over(instance, name), "the second incident is closed")
        assert nothing_was_moved(instance, name)


def _has_arrived(instance: RunningInstance, name: str) -> bool:
    lanes = [one for one in instance.lanes() if one["datastream"] == name]
    return len(lanes) == PARTITIONS and all(one["phase"] == "copying" for one in lanes)


def _causes(instance: RunningInstance, name: str) -> set[str]:
    return {one["cause"] for one in incidents(instance, name).values()}


def _names(instance: RunningInstance, name: str, alert: str) -> bool:
    """Return whether a timeline names the alert. Its incident may have begun with late records of the outage
    before, and keep that cause, which has more bad seconds."""
    return any(
        alert in entry["text"] for one in incidents(instance, name).values() for entry in one["timeline"]
    )


def _states(hook: HttpReceiver, name: str) -> defaultdict[str, str]:
    """Return the last status of each alert of the datastream and of its clusters."""
    alerts = [one for request in hook.requests for one in request.document["alerts"]]
    return defaultdict(
        str,
        {
            one["labels"]["alertname"]: one["status"]
            for one in alerts
            if name
            in (one["labels"].get("datastream"), *one["annotations"].get("datastreams", "").split(", "))
        },
    )


def test_an_incident_goes_on_by_the_metrics_topic_when_pinot_is_killed_in_its_middle(
    new_instance: NewInstance, new_pinot: Callable[..., PinotServer], kafka_pair: KafkaPair
) -> None:
    name, pinot = fresh_name("unseen"), new_pinot()
    make_topic(kafka_pair.source.address, name, PARTITIONS)
    with HttpReceiver() as hook, ExitStack() as running:
        instance = new_instance(
            "one",
            pinot__controller=pinot.controller_address,
            pinot__broker=pinot.broker_address,
            **alert_settings(hook, "either"),
        )
        metrics = instance.environment["HEADRACE_MIRROR__METRICS_TOPIC"]
        make_topic(kafka_pair.destination.address, metrics)
        _apply_table(pinot, kafka_pair.destination, metrics)
        create_datastream(instance, name, name, objective={"milliseconds": 1})
        running.enter_context(traffic(kafka_pair.source.address, {name: RATES}))
        wait_until(lambda: FIRING in alert_states(hook, name), "an alert based on Pinot's measurements")
        assert "metrics topic" not in monitor_says(instance)
        (opened,) = wait_until(lambda: incidents(instance, name), "the incident is stored")
        pinot.kill()
        wait_until(lambda: "metrics topic" in monitor_says(instance), "health names the metrics topic")
        sent_before = len(alert_states(hook, name))
        wait_until(lambda: len(alert_states(hook, name)) > sent_before + 2, "the alert is repeated")
        assert RESOLVED not in alert_states(hook, name)
        assert list(incidents(instance, name)) == [opened]
        assert incidents(instance, name)[opened]["is_late"]
        instance.rest.patch(f"/v1/datastreams/{name}", {"objective": {"milliseconds": 600_000}}, "*")
        wait_until(lambda: RESOLVED in alert_states(hook, name), "the alert is resolved")
        wait_until(lambda: is_over(instance, name), "the incident is closed")
        found = incidents(instance, name)
        assert list(found) == [opened], "more than one incident"
        assert Phase.RECOVERED in {one["phase"] for one in found[opened]["timeline"]}
        assert "metrics topic" in monitor_says(instance)


def _apply_table(pinot: PinotServer, kafka: KafkaCluster, topic: str) -> None:
    with closing(PinotController(pinot_settings(pinot))) as controller:
        apply(controller, {MIRROR_METRICS: Placement(kafka.address, topic, MIRROR_METRICS.retention_days)})
