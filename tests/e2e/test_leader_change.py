"""Kill of a leader after the load has dropped: the next one remembers the day's need and keeps every task."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mirror.adapters.kafka_store.session import KafkaSession
from mirror.coordination.stores import znodes
from mirror.instance.loads.observations import NEWEST
from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic
from tests.metrics_data import fresh_name
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair
from tests.traffic import traffic

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

PARTITIONS: Final = 12
RATES: Final = dict.fromkeys(range(PARTITIONS), 20_000.0)
"""Bytes per second of each partition: together four times the limit of a task."""


def group(instance: RunningInstance) -> dict[str, Any]:
    """Return the result of the latest planning."""
    groups = instance.rest.get("/v1/plan")["groups"]
    return groups[0] if groups else {"tasks": 0, "required_tasks": 0, "reasons": [""]}


def needing_one(planned: dict[str, Any]) -> dict[str, Any]:
    """Return the planning if its load requires only one task, else an empty dict."""
    return planned if planned["required_tasks"] == 1 else {}


def observed_at(session: KafkaSession) -> list[int]:
    """Return the times of the stored observations."""
    return [int(name.partition("-")[0]) for name in session.children(f"{znodes.OBSERVATIONS}/source")]


def test_the_next_leader_plans_by_the_same_day(
    new_instance: NewInstance,
    kafka_pair: KafkaPair,
    session: KafkaSession,
) -> None:
    name = fresh_name("day")
    make_topic(kafka_pair.source.address, name, PARTITIONS)
    settings = {
        "mirror__leader__replan_interval_seconds": "1",
        "mirror__leader__task_capacity_bytes_per_second": "90000",
    }
    first = new_instance("one", **settings)
    second = new_instance("two", **settings)
    first.rest.post(
        "/v1/datastreams",
        {
            "name": name,
            "source": {"cluster": "source", "topics": name},
            "destination": {"cluster": "destination", "name": "copy.*"},
            "metadata": {"owner": "tests"},
        },
    )
    with traffic(kafka_pair.source.address, {name: RATES}):
        wait_until(lambda: group(first)["tasks"] >= 4, "the load needs tasks")
    calm = wait_until(lambda: needing_one(group(first)), "the load has dropped")
    assert "kept because" in calm["reasons"][0]
    assert first.rest.get("/v1/instances")[0]["name"] == "one"
    before = max(observed_at(session))
    first.kill()
    wait_until(
        lambda: sum(at_ms > before for at_ms in observed_at(session)) >= NEWEST,
        "the next leader has enough observations of its own",
    )
    newest = max(observed_at(session))
    wait_until(lambda: max(observed_at(session)) > newest, "the next leader has planned with them")
    assert len(second.rest.get("/v1/plan")["tasks"]) == calm["tasks"]
    assert "kept because" in group(second)["reasons"][0]
