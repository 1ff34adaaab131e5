"""Frozen, slow and killed Pinot: reported even without planning, and plans use the last known loads."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pytest

from pinot.client import PinotClient
from pinot.tables import PARTITION_METRICS
from stack.pinot import PinotServer
from tests.e2e.conftest import NewInstance, NewSlowPort
from tests.freezing import frozen
from tests.kafka_data import make_topic
from tests.metrics_data import MetricsWorld, a_metric, apply_tables, fresh_name, pinot_settings
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.scene import Scene
from tests.servers import KafkaPair
from tests.situations import Snapshot

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

SLOW_SECONDS: Final = 1.5
"""Delay in each direction; such slow responses do not count as unavailable."""
HEAVY: Final = 6_000.0
"""Bytes per second: a task may carry 7,000, less than two such partitions."""
PART: Final = "loads of source"


class Service:
    """One instance that plans with loads from Pinot."""

    def __init__(self, instance: RunningInstance, name: str) -> None:
        self._instance = instance
        self.name = name

    def part(self) -> dict[str, Any]:
        """Return the part of health about the loads."""
        parts = self._instance.health()["parts"]
        found: dict[str, Any] = parts.get(PART, {"is_well": None, "sentence": ""})
        return found

    def is_said(self, *words: str, is_well: bool) -> bool:
        part = self.part()
        return part["is_well"] is is_well and all(word in part["sentence"] for word in words)

    def events(self) -> list[str]:
        found = self._instance.rest.get("/v1/events", limit=1000)
        return [one["sentence"] for one in found if one["kind"] == "loads"]

    def preview(self) -> dict[str, Any]:
        body = {"datastream": self.name, "dry_run": True}
        found: dict[str, Any] = self._instance.rest.post("/v1/rebalance", body)
        return found

    def create(self) -> None:
        self._instance.rest.post(
            "/v1/datastreams",
            {
                "name": self.name,
                "source": {"cluster": "source", "topics": self.name},
                "destination": {"cluster": "destination", "name": "copy.*"},
                "limits": {"min_tasks": 2, "max_tasks": 2},
                "metadata": {"owner": "tests"},
            },
        )
        wait_until(lambda: len(self.tasks()) == 2, "two tasks are planned")

    def tasks(self) -> list[list[int]]:
        plan = self._instance.rest.get("/v1/plan")
        return [[int(one.rpartition("-")[2]) for one in task["partitions"]] for task in plan["tasks"]]


def test_a_pinot_that_is_away_is_said_and_the_last_known_loads_are_planned_by(
    slow_port: NewSlowPort,
    new_instance: NewInstance,
    new_pinot: Callable[..., PinotServer],
    kafka_pair: KafkaPair,
) -> None:
    pinot, name = new_pinot(), fresh_name("away")
    make_topic(kafka_pair.source.address, name, 4)
    apply_tables(pinot, kafka_pair.destination.address)
    way = slow_port(pinot.broker_address)
    instance = new_instance(
        "one",
        mirror__leader__load_provider="pinot",
        mirror__leader__task_capacity_bytes_per_second="10000",
        pinot__broker=way.here,
        pinot__controller=pinot.controller_address,
        pmp__provider__window_seconds="600",
        pmp__provider__statistic="mean",
        pmp__provider__refresh_seconds="1",
    )
    service = Service(instance, name)
    service.create()
    wait_until(lambda: service.is_said("are unknown", is_well=True), "the loads are unknown")
    assert service.preview()["loads_known"] is False
    with closing(PinotClient(pinot_settings(pinot))) as client:
        _put_loads(MetricsWorld(client, kafka_pair.destination.address), name, service.tasks()[0])
    wait_until(lambda: service.is_said("are known", is_well=True), "the loads are known")
    wait_until(lambda: service.preview()["moves"], "a preview separates the heavy partitions")
    assert not [sentence for sentence in service.events() if "are unavailable" in sentence]
    scene = Scene(kafka_pair, instance)
    scene.name = name
    scene.mark()
    with frozen(pinot.pid):
        scene.wait_for("Pinot is frozen", _is_shown)
        _is_away(service)
    wait_until(lambda: service.is_said("are known", is_well=True), "the loads are known again")
    wait_until(
        lambda: service.events()[0].startswith("over, after"), "an event reports the end of the outage"
    )
    scene.mark()
    with way.delayed(SLOW_SECONDS):
        scene.wait_for("Pinot is slow", _is_slow)
        assert service.preview()["loads_known"]
    scene.mark()
    pinot.kill()
    scene.wait_for("Pinot is dead", _is_shown)
    _is_away(service)
    scene.write_down()


def _put_loads(world: MetricsWorld, topic: str, heavy: list[int]) -> None:
    """Write loads of the last minute; two partitions of one task exceed its capacity."""
    now_ms = int(time.time() * 1000)
    rates = {number: HEAVY if number in heavy else 10.0 for number in range(4)}
    world.put(
        PARTITION_METRICS,
        [
            a_metric(
                "source",
                topic,
                number,
                now_ms - back * 10_000,
                growth_bytes=rate * 10,
                inflow_bytes_per_second=rate,
                bytes_in_per_second=rate,
            )
            for number, rate in rates.items()
            for back in range(6)
        ],
    )


def _is_shown(seen: Snapshot) -> bool:
    unavailable = 'headrace_loads{source="source",state="unavailable"}'
    return (
        seen.status == 503
        and PART in seen.ill
        and seen.metrics.get(unavailable) == 1
        and "loads" in seen.events
    )


def _is_slow(seen: Snapshot) -> bool:
    """Return whether health reports known loads and a slow response."""
    part = seen.parts.get(PART, {"sentence": ""})
    return seen.status == 200 and "are known" in part["sentence"] and "took" in part["sentence"]


def _is_away(service: Service) -> None:
    """Check that health reports the outage without planning, and a dry run uses the last known loads."""
    assert service.is_said("are unavailable since", "last known", is_well=False)
    assert "are unavailable" in service.events()[0]
    # The first dry run may still use a response from a few seconds ago.
    preview = wait_until(lambda: _by_last_known(service.preview()), "a dry run uses the last known loads")
    assert preview["loads_known"]
    assert preview["moves"], preview


def _by_last_known(preview: dict[str, Any]) -> dict[str, Any]:
    """Return the preview if it uses the last known loads, else an empty dict."""
    return preview if any("last known" in reason for reason in preview["reasons"]) else {}
