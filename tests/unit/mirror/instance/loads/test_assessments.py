"""Test the assessments of groups by the planner, for REST and metrics."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from mirror.coordination.stores import node_codec
from mirror.instance.loads.assessments import Assessment, AssessmentStore, assess, is_equivalent
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import LoadLevel, LoadReport, PartitionLoad
from mirror.model.plan import GroupPlan
from mirror.model.topics import TopicPartition
from tests.fakes.node_store import FakeZooKeeper

ORDERS = GroupName("orders/é")
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ANSWER = GroupPlan(
    tasks={TaskName("orders-0"): frozenset({T0, T1})},
    loads_bytes_per_second={TaskName("orders-0"): 9.5},
    required_tasks=3,
    reasons=("because",),
    offending=(T1,),
    unplaced=(T2,),
    task_lower_bound=2,
    max_load_lower_bound_bytes_per_second=4.0,
    moved_bytes_per_second=2.0,
    moved_lower_bound_bytes_per_second=1.0,
    overloaded=(TaskName("orders-0"),),
    estimated=(T0,),
    moves_left=7,
    stage="sticky",
    cut_short=1,
)
REPORT = LoadReport(
    {T0: PartitionLoad(1.0), T1: PartitionLoad(5.0, None, LoadLevel.DEFAULT)}, "test", 77, (), frozenset({T0})
)
FOUND = Assessment(
    planned_ms=99,
    loads_measured_at_ms=77,
    tasks=1,
    required_tasks=3,
    task_lower_bound=2,
    max_load=9.5,
    max_load_lower_bound=4.0,
    moved=2.0,
    moved_lower_bound=1.0,
    offending=1,
    unplaced=1,
    overloaded=1,
    estimated=1,
    unknown=2,
    lower_bounds=1,
    moves_left=7,
    cut_short=1,
    stage="sticky",
    offending_partitions=("t-1",),
    unplaced_partitions=("t-2",),
    reasons=("because",),
)


def test_everything_that_the_planner_found_is_in_it() -> None:
    assert assess(ANSWER, REPORT, 99) == FOUND
    blind = assess(ANSWER, None, 99)
    assert (blind.loads_measured_at_ms, blind.unknown) == (None, 3)
    assert is_equivalent(FOUND, replace(FOUND, planned_ms=1, loads_measured_at_ms=2))
    assert not is_equivalent(FOUND, replace(FOUND, unplaced=0))


def test_it_is_kept_and_read_whole() -> None:
    store = AssessmentStore(FakeZooKeeper().session())
    for one in (replace(FOUND, tasks=5), FOUND):
        store.put(ORDERS, one)
    assert store.all() == {ORDERS: FOUND}
    store.remove(ORDERS)
    assert store.all() == {}


@pytest.mark.parametrize("field", list(asdict(FOUND)))
@pytest.mark.parametrize("value", ["x" * 5_000, -1, 1e400, {}, [7], True])
def test_a_damaged_one_is_left_out(field: str, value: object) -> None:
    session = FakeZooKeeper().session()
    (data,) = node_codec.encode_chunks({**asdict(FOUND), field: value})
    session.create("/assessments/bad", data)
    session.create("/assessments/none", b"")
    AssessmentStore(session).put(ORDERS, FOUND)
    assert AssessmentStore(session).all() == {ORDERS: FOUND}
