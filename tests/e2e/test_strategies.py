"""A datastream whose strategy comes from a package that only one of two instances has."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mirror.errors import InvalidRequest
from tests.e2e.conftest import NewInstance
from tests.example_package import python_path
from tests.kafka_data import make_topic, produce, read_all
from tests.mirrored import by_partition, create_datastream, some_records, wait_for_copy
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

ONE_EACH = {"strategy": "one-each"}


def planning(instance: RunningInstance, name: str) -> Any:
    return instance.rest.get(f"/v1/datastreams/{name}")["planning"]


def says(instance: RunningInstance, name: str, tasks: int, sentence: str) -> bool:
    """Return whether the last planning resulted in this number of tasks, for this first reason."""
    found = planning(instance, name)
    return found is not None and found["tasks"] == tasks and sentence in found["reasons"][0]


def is_rebalanced(instance: RunningInstance) -> bool:
    """Return whether the strategy has planned it.

    Requests another planning each time, since the leader may not know any loads yet.
    """
    instance.rest.post("/v1/rebalance", {"datastream": "chosen", "full": True})
    return says(instance, "chosen", 3, "a task for each")


def test_a_leader_without_the_strategy_says_so_and_one_with_it_plans_by_it(
    kafka_pair: KafkaPair, new_instance: NewInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, plain = (f"{name}-{uuid4().hex[:8]}" for name in ("chosen", "plain"))
    for topic in (chosen, plain):
        make_topic(kafka_pair.source.address, topic, 3, retention_ms="-1")
    service = {"mirror__leader__placement_strategy": "simple"}
    bare = new_instance("bare", **service)
    wait_until(bare.is_leading, "the first instance leads")
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path))
    full = new_instance("full", **service)
    with pytest.raises(InvalidRequest, match="'one-each'"):
        create_datastream(bare, "chosen", chosen, placement=ONE_EACH)
    create_datastream(full, "chosen", chosen, placement=ONE_EACH)
    create_datastream(bare, "plain", plain)
    first, second = some_records(3, 300, "a"), some_records(3, 300, "b")
    for topic in (chosen, plain):
        produce(kafka_pair.source.address, topic, first)
        wait_for_copy(kafka_pair, topic, len(first))
    gone = "placement strategy 'one-each'"
    for one in (bare, full):
        wait_until(partial(says, one, "chosen", 1, gone), f"{one.name} says what is planned by")
    assert bare.terminate() == 0
    wait_until(full.is_leading, "the other instance leads")
    wait_until(partial(is_rebalanced, full), "each partition has a task", interval_seconds=2)
    assert says(full, "plain", 1, "1 task for 3 partitions")
    for topic in (chosen, plain):
        produce(kafka_pair.source.address, topic, second)
        wait_for_copy(kafka_pair, topic, len(first) + len(second))
        found = read_all(kafka_pair.destination.address, f"copy.{topic}")
        assert by_partition(found) == by_partition([*first, *second])
