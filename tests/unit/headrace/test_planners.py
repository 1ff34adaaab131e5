"""Test which planner and which load provider the leader uses."""

from __future__ import annotations

import pytest

from headrace.placement.planners import choose_planning
from headrace.settings import load_settings
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.errors import LoadUnavailable
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE_LOADS
from tests.fakes.instances import AtOnce
from tests.fakes.node_store import FakeZooKeeper
from tests.unit.headrace.conftest import Write


def measured() -> MeasuredLoads:
    return MeasuredLoads(FakeZooKeeper().session())


def test_by_default_the_mirrors_own_rates_count() -> None:
    own = measured()
    partition = TopicPartition("t", 0)
    own.publish(
        InstanceName("one"), InstanceMeasurements({ClusterRef("source"): {partition: (70.0, 2.0)}}), 5
    )
    planning = choose_planning(load_settings(), own, AtOnce())
    assert (
        planning.providers.of(SOURCE_LOADS)
        .loads(ClusterRef("source"), [partition])
        .loads[partition]
        .bytes_per_second
        == 70
    )
    assert planning.capacity.usable_bytes_per_second == 10 * 2**20 * 70 // 100


def test_without_a_provider_placement_is_by_count(write: Write) -> None:
    planning = choose_planning(
        load_settings(write('[mirror.leader]\nload_provider = "none"\n')), measured(), AtOnce()
    )
    with pytest.raises(LoadUnavailable, match="load_provider"):
        planning.providers.of(SOURCE_LOADS).loads(ClusterRef("source"), [])


def test_capacity_is_what_the_settings_say(write: Write) -> None:
    file = write(
        "[mirror.leader]\ntask_capacity_bytes_per_second = 1000\n"
        "task_capacity_messages_per_second = 50\ntask_utilisation_percent = 50\n"
    )
    capacity = choose_planning(load_settings(file), measured(), AtOnce()).capacity
    assert (capacity.usable_bytes_per_second, capacity.usable_messages_per_second) == (500, 25)
