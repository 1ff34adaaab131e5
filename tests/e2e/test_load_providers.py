"""Datastreams that select a load provider, beside one with the provider of the service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
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

STEADY: Final = 5_000_000
"""Bytes per second of each partition according to the plug-in; two partitions fill no task."""
CAPACITY: Final = {"capacity_bytes_per_second": 10_000_000, "utilisation_percent": 70}
CHOICES: Final = {"plain": None, "chosen": "steady", "counted": "none"}


def planning(instance: RunningInstance, name: str) -> Any:
    return instance.rest.get(f"/v1/datastreams/{name}")["planning"]


def loads(instance: RunningInstance, name: str) -> Any:
    return instance.rest.get(f"/v1/datastreams/{name}/loads")


def has_tasks(instance: RunningInstance, name: str, tasks: int) -> bool:
    """Return whether a planning with all loads known resulted in this number of tasks.

    Requests another planning each time, since the leader may not have any loads yet.
    """
    instance.rest.post("/v1/rebalance", {"datastream": name, "full": True})
    found = planning(instance, name)
    return found is not None and found["tasks"] == tasks and bool(loads(instance, name)["known"] == 3)


def providers(instance: RunningInstance) -> set[tuple[str | None, str | None]]:
    """Return the loads in use: selected provider, and provider of the latest response."""
    answer = instance.rest.get("/v1/loads")
    return {(one["chosen_provider"], one["provider"]) for one in answer["clusters"]}


def rates(instance: RunningInstance, name: str) -> list[float]:
    """Return the load of each partition as known to the leader."""
    return [one["bytes_per_second"] for one in loads(instance, name)["partitions"]]


def choose(instance: RunningInstance, name: str, provider: str | None) -> None:
    instance.rest.patch(f"/v1/datastreams/{name}", {"placement": {"load_provider": provider}}, "*")


def copies(kafka_pair: KafkaPair, topics: Mapping[str, str], *batches: list[Any]) -> None:
    """Write the last batch, and check that all batches arrive at the destination."""
    expected = [record for batch in batches for record in batch]
    for topic in topics.values():
        produce(kafka_pair.source.address, topic, batches[-1])
    for topic in topics.values():
        wait_for_copy(kafka_pair, topic, len(expected))
        found = read_all(kafka_pair.destination.address, f"copy.{topic}")
        assert by_partition(found) == by_partition(expected)


def test_each_datastream_is_planned_by_the_loads_that_it_chooses(
    kafka_pair: KafkaPair, new_instance: NewInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {name: f"{name}-{uuid4().hex[:8]}" for name in CHOICES}
    for topic in topics.values():
        make_topic(kafka_pair.source.address, topic, 3, retention_ms="-1")
    options = {"cluster": "source", "topics": " ".join(topics.values()), "bytes_per_second": str(STEADY)}
    service = {"mirror__leader__provider_options_by_name": json.dumps({"steady": options})}
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path))
    one = new_instance("one", **service)
    with pytest.raises(InvalidRequest, match=r"'gone'.*\bsteady\b"):
        create_datastream(one, "other", topics["plain"], placement={"load_provider": "gone"})
    for name, provider in CHOICES.items():
        create_datastream(one, name, topics[name], placement={"load_provider": provider, **CAPACITY})
    first, second = some_records(3, 300, "a"), some_records(3, 300, "b")
    copies(kafka_pair, topics, first)
    for name, tasks in (("chosen", 3), ("plain", 1), ("counted", 1)):
        wait_until(partial(has_tasks, one, name, tasks), f"{name} is planned", interval_seconds=2)
    assert providers(one) == {(None, "self"), ("steady", "steady")}
    assert min(rates(one, "chosen")) >= STEADY > max(rates(one, "plain"))
    assert any("placement.load_provider" in reason for reason in planning(one, "counted")["reasons"])
    choose(one, "chosen", None)
    choose(one, "plain", "steady")
    wait_until(
        partial(has_tasks, one, "plain", 3), "the other datastream uses the provider", interval_seconds=2
    )
    wait_until(
        partial(has_tasks, one, "chosen", 1),
        "the datastream uses the service's provider again",
        interval_seconds=2,
    )
    copies(kafka_pair, topics, first, second)
