"""Frozen monitors: another monitor continues their incidents, and they do nothing after they thaw."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from monitor.alerts.catalogue import LATE
from monitor.records.record import Phase
from stack.process.managed_process import ManagedProcess
from tests.e2e.conftest import NewInstance
from tests.fakes.alert_receivers import HttpReceiver
from tests.freezing import frozen
from tests.kafka_data import make_topic
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream, wait_until_caught_up
from tests.on_call import alert_settings, alert_states, incidents
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair
from tests.traffic import set_rates, traffic

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

PARTITIONS: Final = 6
TASK_LIMIT: Final = 300_000
"""Maximum bytes per second of a task, which is also the capacity that the planner uses."""
HEAVY: Final = 210_000.0
LIGHT: Final = 2_000.0
FIRING: Final = (LATE.name, "firing")
RESOLVED: Final = (LATE.name, "resolved")
ASKED: Final = '"event": "rebalance requested"'


def monitor_of(instance: RunningInstance, hook: HttpReceiver, log: Path) -> ManagedProcess:
    """Start a monitor process that judges the instance's service and alerts the hook."""
    command = [sys.executable, "-m", "headrace", "monitor", "--at", instance.address]
    chosen = {f"HEADRACE_{key}".upper(): value for key, value in alert_settings(hook).items()}
    return ManagedProcess(log.stem, command, {**instance.environment, **chosen}, log, grace_seconds=60)


def rates(heavy: set[int]) -> dict[int, float]:
    """Return a high rate for these partitions, and a low rate for all other ones."""
    return {number: HEAVY if number in heavy else LIGHT for number in range(PARTITIONS)}


def tasks(instance: RunningInstance) -> list[set[int]]:
    """Return the partitions of each task in the plan."""
    plan = instance.rest.get("/v1/plan")["tasks"]
    return [{int(one.rpartition("-")[2]) for one in task["partitions"]} for task in plan]


def test_a_monitor_whose_lease_is_over_neither_alerts_nor_writes_nor_acts_when_it_thaws(
    new_instance: NewInstance, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    name, logs = fresh_name("thawed"), [tmp_path / "first.log", tmp_path / "second.log"]
    instance = new_instance(
        "one",
        monitor__enabled="false",
        mirror__worker__task_bytes_per_second_limit=str(TASK_LIMIT),
        mirror__leader__task_capacity_bytes_per_second=str(TASK_LIMIT),
    )
    make_topic(kafka_pair.source.address, name, PARTITIONS)
    create_datastream(
        instance, name, name, limits={"min_tasks": 2, "max_tasks": 2}, objective={"milliseconds": 1_500}
    )
    wait_until(lambda: sum(map(len, tasks(instance))) == PARTITIONS, "everything is planned")
    instance.rest.patch("/v1/monitor", {"acting": False, "reason": "not yet"}, "*")

    def holder() -> str:
        return str(instance.rest.get("/v1/monitor")["holder"])

    with HttpReceiver() as former, HttpReceiver() as latter, ExitStack() as running:
        writing = running.enter_context(traffic(kafka_pair.source.address))
        together = set(sorted(next(one for one in tasks(instance) if len(one) > 1))[:2])
        set_rates(writing, {name: rates(together)})
        first = running.enter_context(monitor_of(instance, former, logs[0]))
        wait_until(lambda: f":{first.pid}" in holder(), "the first monitor holds the lease")
        second = running.enter_context(monitor_of(instance, latter, logs[1]))
        wait_until(lambda: FIRING in alert_states(former, name), "the first monitor sends the alert")
        (opened,) = wait_until(lambda: incidents(instance, name), "the incident is stored")
        wait_until(lambda: "standing by" in logs[1].read_text(), "the second monitor is standing by")
        first.suspend()
        wait_until(lambda: f":{second.pid}" in holder(), "the second monitor holds the lease")
        told = len(former.requests)
        wait_until(lambda: FIRING in alert_states(latter, name), "the second monitor sends the alert")
        assert RESOLVED not in alert_states(latter, name), "resolved although only the monitor is frozen"
        instance.rest.patch("/v1/monitor", {"acting": True}, "*")
        wait_until(lambda: ASKED in logs[1].read_text(), "the second monitor requests a rebalance")
        set_rates(writing, {name: rates(set())})
        instance.rest.patch(f"/v1/datastreams/{name}", {"objective": None}, "*")
        wait_until(lambda: RESOLVED in alert_states(latter, name), "the second monitor resolves the alert")
        closed = wait_until(lambda: incidents(instance, name)[opened]["closed_ms"], "the incident is closed")
        assert list(incidents(instance, name)) == [opened], "the second monitor opened another incident"
        instance.rest.patch(f"/v1/datastreams/{name}", {"objective": {"milliseconds": 1}}, "*")
        another = wait_until(
            lambda: incidents(instance, name).keys() - {opened}, "another incident is opened"
        )
        first.resume()
        wait_until(lambda: "standing by" in logs[0].read_text(), "the first monitor has lost its lease")
        since = len(alert_states(latter, name))
        wait_until(lambda: len(alert_states(latter, name)) > since + 2, "the second monitor continues")
        assert f":{second.pid}" in holder()
        assert len(former.requests) == told, alert_states(former, name)
        found = incidents(instance, name)
        assert found[opened]["closed_ms"] == closed
        assert found.keys() - {opened} == another
        assert ASKED not in logs[0].read_text()
        assert "over the incidents" not in logs[1].read_text()
        assert [one for one in found[opened]["timeline"] if one["phase"] == Phase.ACTED]


def test_a_leader_that_was_frozen_tells_nothing_of_before(
    new_instance: NewInstance, kafka_pair: KafkaPair
) -> None:
    """Another instance leads as soon as the session has expired, long before a lease would expire."""
    name = fresh_name("stiff")
    make_topic(kafka_pair.source.address, name)
    with ExitStack() as running:
        hooks = [running.enter_context(HttpReceiver()) for _ in range(2)]
        former, latter = (
            new_instance(one, **alert_settings(hook)) for one, hook in zip(("one", "two"), hooks, strict=True)
        )
        create_datastream(former, name, name, objective={"milliseconds": 1})
        wait_until_caught_up(former, name)
        running.enter_context(traffic(kafka_pair.source.address, {name: {0: LIGHT}}))
        wait_until(
            lambda: any(FIRING in alert_states(one, name) for one in hooks), "the leader sends the alert"
        )
        if FIRING in alert_states(hooks[1], name):
            former, latter, hooks = latter, former, hooks[::-1]
        (opened,) = wait_until(lambda: incidents(former, name), "the incident is stored")
        with frozen(former.pid):
            wait_until(lambda: FIRING in alert_states(hooks[1], name), "the next leader sends the alert")
            told = len(hooks[0].requests)
            latter.rest.patch(f"/v1/datastreams/{name}", {"objective": None}, "*")
            wait_until(lambda: RESOLVED in alert_states(hooks[1], name), "the next leader resolves the alert")
            closed = wait_until(
                lambda: incidents(latter, name)[opened]["closed_ms"], "the incident is closed"
            )

        def is_back() -> bool:
            health = [one["health"] for one in latter.rest.get("/v1/instances")]
            parts = [one["parts"]["monitor"] for one in health if one is not None]
            return len(parts) == 2 and sum("while" in one["sentence"] for one in parts) == 1

        wait_until(is_back, "the former leader has rejoined as follower")
        assert len(hooks[0].requests) == told, alert_states(hooks[0], name)[-3:]
        found = incidents(latter, name)
        assert list(found) == [opened]
        assert found[opened]["closed_ms"] == closed
