"""The monitor within the instances: it runs in the leader, and in the next one after a change of leader."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from headrace.console.client import tls_context
from mirror.errors import HeadraceError, IllegalTransition
from monitor.adapters.rest_service import RestService
from monitor.alerts.catalogue import BURNING, LATE, PAUSED, WEARING
from monitor.causes.diagnosis import Cause
from monitor.records.record import Phase
from stack.process.managed_process import ManagedProcess
from tests.e2e.conftest import NewInstance
from tests.fakes.alert_receivers import CheckingAlertmanager, HttpReceiver
from tests.kafka_data import Record, make_topic, produce
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream, late_records, wait_until_caught_up
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair
from tests.throttling import WRITING, throttled
from tests.traffic import traffic

pytestmark = [pytest.mark.servers, pytest.mark.long]

BREACHED: Final = "latency objective breached"
QUOTA: Final = 20_000
"""Bytes per second that an instance may write while throttled."""


def settings(receiver: CheckingAlertmanager) -> dict[str, str]:
    return {
        "monitor__measurements": "topic",
        "monitor__interval_seconds": "0.5",
        "monitor__window_seconds": "900",
        "monitor__alerts__alertmanagers__here__url": receiver.url,
        "monitor__alerts__alertmanagers__here__refresh_seconds": "0.5",
    }


def firing(receiver: CheckingAlertmanager) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{receiver.url}/api/v2/alerts", verify=tls_context()).json()
    return found


def heard(hook: HttpReceiver, name: str) -> set[tuple[str, str]]:
    """Return the alerts of the datastream with every status received."""
    alerts = [one for request in hook.requests for one in request.document["alerts"]]
    mine = [one for one in alerts if one["labels"].get("datastream") == name]
    return {(one["labels"]["alertname"], one["status"]) for one in mine}


def has_judged(instance: RunningInstance) -> bool:
    return BREACHED in instance.log_file.read_text()


def monitor_of(instance: RunningInstance, log: Path) -> ManagedProcess:
    command = [sys.executable, "-m", "headrace", "monitor", "--at", instance.address]
    environment = {"HEADRACE_MONITOR__INTERVAL_SECONDS": "0.5", "HEADRACE_MONITOR__INCIDENTS_TOPIC": ""}
    return ManagedProcess(log.stem, command, environment, log, grace_seconds=60)


def test_the_leader_judges_and_the_next_one_after_it(
    new_instance: NewInstance, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    name = fresh_name("judged")
    make_topic(kafka_pair.source.address, name)
    with CheckingAlertmanager() as receiver, HttpReceiver() as hook, ExitStack() as running:
        hooked = {
            "monitor__alerts__webhooks__chat__url": hook.url,
            "monitor__alerts__gather_seconds": "0.5",
        }
        first, second = (new_instance(one, **settings(receiver), **hooked) for one in ("one", "two"))
        create_datastream(first, name, name, objective={"milliseconds": 1})
        wait_until_caught_up(first, name)
        running.enter_context(traffic(kafka_pair.source.address, {name: {0: 2_000.0}}))
        (alert,) = wait_until(lambda: firing(receiver), "the leader's monitor sends an alert")
        assert (alert["labels"]["alertname"], alert["labels"]["datastream"]) == (LATE.name, name)
        leader, other = (first, second) if has_judged(first) else (second, first)
        assert not has_judged(other), "both instances run a monitor"
        for one in (first, second):
            assert RestService(one.rest).has_own_monitor()
            assert f"within {leader.name}" in one.rest.get("/v1/monitor")["holder"]
        assert "headrace_alerts_firing" in httpx.get(f"http://{leader.address}/metrics").text
        with monitor_of(other, tmp_path / "outside.log") as outside:
            assert outside.wait(PATIENCE_SECONDS) == 0
        assert "monitor.enabled" in (tmp_path / "outside.log").read_text()
        wait_until(lambda: name in str(other.rest.get("/v1/incidents")), "the incident is stored")
        (incident,) = [one for one in other.rest.get("/v1/incidents") if one["datastream"] == name]
        wait_until(lambda: (LATE.name, "firing") in heard(hook, name), "the webhook receives the alert")
        leader.kill()
        told = len(receiver.requests)
        wait_until(lambda: len(receiver.requests) > told + 2, f"the next leader calls; log: {other.log_file}")
        incidents = [one for one in other.rest.get("/v1/incidents") if one["datastream"] == name]
        assert [one["id"] for one in incidents] == [incident["id"]], "the next leader opened another incident"
        assert (LATE.name, "resolved") not in heard(hook, name), "resolved by the change of leader"
        other.rest.patch(f"/v1/datastreams/{name}", {"objective": None}, "*")
        wait_until(lambda: not firing(receiver), "no alert fires")
        wait_until(lambda: (LATE.name, "resolved") in heard(hook, name), "the next leader resolves the alert")


@pytest.mark.deep
def test_a_lane_that_pauses_calls_somebody_also_where_there_is_no_objective(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    name, destination = fresh_name("refused"), kafka_pair.destination.address
    make_topic(kafka_pair.source.address, name)
    make_topic(destination, f"copy.{name}", max_message_bytes="1000")
    with CheckingAlertmanager() as receiver:
        at_once = {"monitor__alerts__partitions_after_seconds": "0", "monitor__alerts__keep_seconds": "0"}
        instance = new_instance("one", **settings(receiver), **at_once)
        rest = instance.rest
        create_datastream(instance, name, name)
        produce(kafka_pair.source.address, name, [Record(0, None, os.urandom(2_000), (), 1_700_000_000_000)])
        wait_until(lambda: PAUSED.name in {one["labels"]["alertname"] for one in firing(receiver)})
        (alert,) = [one for one in firing(receiver) if one["labels"]["alertname"] == PAUSED.name]
        assert alert["labels"]["datastream"] == name
        told = alert["annotations"]
        assert (told["partitions"], told["worst_partition"]) == ("1", f"{name}-0")
        wait_until(lambda: name in str(rest.get("/v1/incidents")), "the incident is stored")
        (incident,) = [one for one in rest.get("/v1/incidents") if one["datastream"] == name]
        assert (incident["is_late"], PAUSED.name in incident["matters"]) == (False, True)
        rest.delete(f"/v1/datastreams/{name}")
        wait_until(lambda: not firing(receiver), "no alert fires")
        wait_until(
            lambda: incident["id"] not in str(rest.get("/v1/incidents", open="true")),
            "the incident is closed",
        )


@pytest.mark.deep
def test_a_budget_that_burns_calls_somebody_while_pinot_is_away(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    """The monitor applies the rules of a service to measurements of the metrics topic. The objective is met
    again before its own alert would be sent, so the alert of the budget is."""
    name = fresh_name("burning")
    make_topic(kafka_pair.source.address, name)
    with CheckingAlertmanager() as receiver:
        away = {
            "monitor__measurements": "either",
            "monitor__window_seconds": "6",
            "pinot__broker": "127.0.0.1:1",
        }
        instance = new_instance("one", **settings(receiver) | away)
        objective = {"milliseconds": 1, "target_percent": 99.0, "period_days": 30}
        create_datastream(instance, name, name, objectives=[objective])
        wait_until_caught_up(instance, name)
        produce(kafka_pair.source.address, name, late_records(200))
        alerts = {one.name for one in (BURNING, WEARING)}
        wait_until(
            lambda: alerts & {one["labels"]["alertname"] for one in firing(receiver)},
            f"the budget's alert; log: {instance.log_file}",
        )
        (alert,) = [one for one in firing(receiver) if one["labels"]["alertname"] in alerts]
        assert (alert["labels"]["alertname"], alert["labels"]["datastream"]) == (BURNING.name, name)
        rates = re.findall(r" (\d+x|\?) in (\d+ [mh])\b", alert["annotations"]["description"])
        assert rates[:4] == [("100x", "5 m"), ("100x", "30 m"), ("100x", "1 h"), ("?", "6 h")]


@pytest.mark.deep
def test_a_slow_destination_is_the_cause_through_a_change_of_leader_and_nothing_is_rebalanced(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    name, brokers = fresh_name("slow"), kafka_pair.destination.address
    make_topic(kafka_pair.source.address, name, 2)
    records = [Record(number % 2, None, os.urandom(10_000), (), 1_700_000_000_000) for number in range(1_000)]
    with CheckingAlertmanager() as receiver, ExitStack() as quotas:
        quick = {**settings(receiver), "monitor__cooldown_seconds": "1"}
        instances = [new_instance(one, **quick) for one in ("one", "two")]
        for one in instances:
            quotas.enter_context(throttled(brokers, WRITING, f"headrace-{one.name}", QUOTA))
        create_datastream(instances[0], name, name, objective={"milliseconds": 1_000})
        wait_until_caught_up(instances[0], name)
        produce(kafka_pair.source.address, name, records)

        def incident(at: RunningInstance) -> dict[str, Any]:
            """Return the only incident once its cause is the brokers' quota; empty until then."""
            try:
                found: list[dict[str, Any]] = at.rest.get("/v1/incidents")
            except HeadraceError:
                return {}
            mine = [one for one in found if one["datastream"] == name]
            return mine[0] if len(mine) == 1 and mine[0]["cause"] == Cause.BROKER_QUOTA else {}

        before = wait_until(lambda: incident(instances[0]), "the quota is the cause")
        assert isinstance(before["evidence"]["broker"], int | float)
        leader = next(one for one in instances if has_judged(one))
        (other,) = [one for one in instances if one is not leader]
        leader.kill()

        def is_judged_again() -> bool:
            return "quota: broker" in other.log_file.read_text()

        wait_until(is_judged_again, "the next leader has judged")
        after = wait_until(lambda: incident(other), "the incident continues")
        assert after["id"] == before["id"]
        assert not [one for one in after["timeline"] if one["phase"] == Phase.ACTED]
        operations = other.rest.get("/v1/operations", datastream=name)
        assert not [one for one in operations if one["kind"] == "rebalance"]


@pytest.mark.deep
def test_of_two_monitors_one_judges_and_the_other_takes_over(
    new_instance: NewInstance, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    name, instance = fresh_name("held"), new_instance("one", monitor__enabled="false")
    make_topic(kafka_pair.source.address, name)
    create_datastream(instance, name, name)

    def holder() -> str:
        return str(instance.rest.get("/v1/monitor")["holder"])

    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    with ExitStack() as running:
        first = running.enter_context(monitor_of(instance, logs[0]))
        wait_until(lambda: f":{first.pid}" in holder(), "the first monitor holds the lease")
        second = running.enter_context(monitor_of(instance, logs[1]))
        wait_until(lambda: "another monitor" in logs[1].read_text(), "the second monitor waits")
        assert first.stop() == 0
        wait_until(lambda: f":{second.pid}" in holder(), "the second monitor holds the lease")
        assert second.stop() == 0
    lease = instance.rest.put("/v1/monitor/lease", {"holder": "a test"}, "*")["lease"]
    asked = {"datastream": name, "requested_by": "monitor"}
    with pytest.raises(IllegalTransition, match="lease"):
        instance.rest.post("/v1/rebalance", asked | {"lease": "of a monitor before"})
    wait_until(
        lambda: instance.rest.get(f"/v1/datastreams/{name}")["status"] == "READY", "the datastream is ready"
    )
    instance.rest.post("/v1/rebalance", asked | {"lease": lease})
    found = instance.rest.get("/v1/monitor")
    assert [one["datastream"] for one in found["acts"]] == [name]
    wait_until(lambda: instance.rest.get("/v1/monitor")["waiting"] is None, "a plan answers the request")
