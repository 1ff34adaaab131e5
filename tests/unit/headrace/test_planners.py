"""Which planner and which load provider a leader gets."""

from __future__ import annotations

import pytest

from headrace.planners import choose_planning
from headrace.settings import load_settings
from mirror.coordination.measured_load import MeasuredLoads
from mirror.errors import LoadUnavailable
from mirror.model.identifiers import ClusterRef
from tests.fakes.node_store import FakeZooKeeper
from tests.unit.headrace.conftest import Write


def measured() -> MeasuredLoads:
    return MeasuredLoads(FakeZooKeeper().session())


def test_by_default_the_mirrors_own_rates_count() -> None:
    own = measured()
    planning = choose_planning(load_settings(), own)
    assert planning.provider is own
    assert planning.capacity.usable_bytes_per_second == 10 * 2**20 * 70 // 100


def test_without_a_provider_placement_is_by_count(write: Write) -> None:
    planning = choose_planning(load_settings(write('[mirror.leader]\nload_provider = "none"\n')), measured())
    with pytest.raises(LoadUnavailable, match="load_provider"):
        planning.provider.loads(ClusterRef("source"), [])


def test_capacity_is_what_the_settings_say(write: Write) -> None:
    file = write(
        "[mirror.leader]\ntask_capacity_bytes_per_second = 1000\n"
        "task_capacity_messages_per_second = 50\ntask_utilisation_percent = 50\n"
    )
    capacity = choose_planning(load_settings(file), measured()).capacity
    assert (capacity.usable_bytes_per_second, capacity.usable_messages_per_second) == (500, 25)
