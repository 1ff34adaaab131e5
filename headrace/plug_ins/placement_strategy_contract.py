"""Test suite that every placement strategy must pass: the contract of placement strategies.

    from headrace.plug_ins.placement_strategy_contract import PlacementStrategyContract

    class TestMyStrategy(PlacementStrategyContract):
        def strategy(self):
            return make({})

pytest runs the inherited tests of this class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mirror.model.identifiers import GroupName, TaskName, task_name
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.ports import Planner

GROUP: Final = GroupName("orders")
_COUNT: Final = 60
_PARTITIONS: Final = tuple(TopicPartition("t", number) for number in range(_COUNT))
_LOADS: Final = {key: PartitionLoad(1_000.0 / (key.partition + 1), 10.0) for key in _PARTITIONS}
_CAPACITY: Final = TaskCapacity(2_000, utilisation_percent=80)
_REQUEST: Final = PlanningRequest(GROUP, _PARTITIONS, _LOADS, _CAPACITY, TaskLimits(), {})


class PlacementStrategyContract:
    """Base class for the tests of a placement strategy. Override `strategy`."""

    def strategy(self) -> Planner:
        """Return the strategy under test."""
        raise NotImplementedError

    def _plan(self, request: PlanningRequest) -> GroupPlan:
        answer = self.strategy().plan(request)
        held = [partition for partitions in answer.tasks.values() for partition in partitions]
        assert len(held) == len(set(held)), "a partition is in two tasks"
        assert not set(held) & set(answer.unplaced), "a partition has a task but is listed as unplaced"
        assert {*held, *answer.unplaced} == set(request.partitions), "partitions missing or not requested"
        assert answer.loads_bytes_per_second.keys() <= answer.tasks.keys(), "loads of tasks that do not exist"
        return answer

    def test_every_partition_has_one_task(self) -> None:
        """Check that every partition has exactly one task or is listed as unplaced.

        If possible, no task may exceed its usable capacity.
        """
        answer = self._plan(_REQUEST)
        assert not answer.unplaced
        for task, held in answer.tasks.items():
            carried = sum(_LOADS[partition].bytes_per_second for partition in held)
            assert carried <= _CAPACITY.usable_bytes_per_second, f"{task} carries {carried:.0f} bytes/s"

    def test_limits_hold(self) -> None:
        """Check that plans respect the limits on tasks and on partitions per task."""
        few = self._plan(replace(_REQUEST, limits=TaskLimits(max_tasks=2)))
        assert len(few.tasks) <= 2
        many = self._plan(replace(_REQUEST, limits=TaskLimits(min_tasks=9)))
        assert sum(bool(held) for held in many.tasks.values()) >= 9
        narrow = self._plan(replace(_REQUEST, limits=TaskLimits(max_partitions_per_task=7)))
        assert max(map(len, narrow.tasks.values())) <= 7
        assert not narrow.unplaced

    def test_the_same_question_has_the_same_answer(self) -> None:
        """Check that the plan does not depend on the order of the loads, so that every leader computes the
        same plan."""
        turned = dict(reversed(_LOADS.items()))
        assert self._plan(_REQUEST).tasks == self._plan(replace(_REQUEST, loads=turned)).tasks

    def test_keeps_placed_partitions(self) -> None:
        """Check that planning again with the same loads moves nothing and keeps the names of tasks."""
        before = self._plan(_REQUEST)
        after = self._plan(replace(_REQUEST, current=_homes(before)))
        assert after.tasks == before.tasks

    def test_new_partitions_move_no_others(self) -> None:
        """Check that a new partition does not move other partitions while a task has capacity for it."""
        old = _PARTITIONS[: _COUNT - 1]
        before = self._plan(replace(_REQUEST, partitions=old))
        after = self._plan(replace(_REQUEST, current=_homes(before)))
        moved = [
            partition
            for partition, task in _homes(before).items()
            if partition not in after.tasks.get(task, ())
        ]
        assert not moved

    def test_new_tasks_have_names_of_the_group(self) -> None:
        """Check that names of tasks come from `mirror.model.identifiers.task_name`."""
        answer = self._plan(_REQUEST)
        assert answer.tasks.keys() <= {task_name(GROUP, number) for number in range(_COUNT)}

    def test_it_plans_without_loads(self) -> None:
        """Check that a plan without loads balances partition counts, and that planning again moves
        nothing."""
        before = self._plan(replace(_REQUEST, loads={}, limits=TaskLimits(min_tasks=3)))
        sizes = sorted(map(len, before.tasks.values()))
        assert sizes[-1] - sizes[0] <= 1
        after = self._plan(
            replace(_REQUEST, loads={}, limits=TaskLimits(min_tasks=3), current=_homes(before))
        )
        assert after.tasks == before.tasks

    def test_plans_no_partitions(self) -> None:
        """Check that a request without partitions returns a plan without partitions."""
        answer = self._plan(replace(_REQUEST, partitions=(), loads={}))
        assert not any(answer.tasks.values())


def _homes(answer: GroupPlan) -> Mapping[TopicPartition, TaskName]:
    return {partition: task for task, held in answer.tasks.items() for partition in held}
