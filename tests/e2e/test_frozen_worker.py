"""Frozen worker processes: health reports them, they are killed, and their lanes continue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import psutil
import pytest

from stack.process.suspension import freeze
from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic, produce, read_all
from tests.mirrored import by_partition, create_datastream, some_records, wait_for_copy
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

SILENT = "worker process"


def parts(instance: RunningInstance) -> Mapping[str, Any]:
    """Return the parts of its health."""
    found: Mapping[str, Any] = instance.health()["parts"]
    return found


def workers(instance: RunningInstance) -> list[int]:
    return [child.pid for child in psutil.Process(instance.pid).children()]


def test_a_frozen_worker_is_noticed_killed_and_replaced(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic = f"frozen-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 3, retention_ms="-1")
    instance = new_instance("one")
    create_datastream(instance, "frozen", topic)
    first, second = some_records(3, 300, "a"), some_records(3, 300, "b")
    produce(kafka_pair.source.address, topic, first)
    wait_for_copy(kafka_pair, topic, len(first))
    (worker,) = workers(instance)
    freeze(worker)
    produce(kafka_pair.source.address, topic, second)

    def is_said() -> bool:
        lanes = instance.lanes()
        return len(lanes) == 3 and all(
            (lane["phase"], lane["lag_ms"]) == ("paused", None)
            and (lane["movement"] or {}).get("state") == "STOP"
            and SILENT in lane["reason"]
            for lane in lanes
        )

    wait_until(is_said, "the lanes of a frozen worker do not count as copying", interval_seconds=0.05)
    wait_until(
        lambda: not parts(instance)["follower"]["is_well"], "the follower is unhealthy", interval_seconds=0.05
    )
    wait_until(
        lambda: any(SILENT in part["sentence"] for part in parts(instance).values()),
        "health names the worker process",
        interval_seconds=0.05,
    )
    wait_for_copy(kafka_pair, topic, len(first) + len(second))
    assert worker not in workers(instance), "the frozen worker was not killed and could write later"
    wait_until(
        lambda: all(part["is_well"] for part in parts(instance).values()), "all parts are healthy again"
    )
    wait_until(
        lambda: [one["movement"] and one["movement"]["state"] for one in instance.lanes()] == ["OK"] * 3,
        "the new worker has reported its lanes",
        interval_seconds=0.1,
    )
    told = instance.rest.get("/v1/events", limit=1000)
    assert any(one["kind"] == "problem" and SILENT in one["sentence"] for one in told)
    assert by_partition(read_all(kafka_pair.destination.address, f"copy.{topic}")) == by_partition(
        first + second
    )
