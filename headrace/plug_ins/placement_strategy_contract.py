"""What a placement strategy promises, as a suite of tests that each one has to pass.

    from headrace.plug_ins.placement_strategy_contract import PlacementStrategyContract

    class TestMyStrategy(PlacementStrategyContract):
        def strategy(self):
            return make({})

pytest finds the tests of such a class.
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
    """Inherit it, and say which strategy it is."""

    def strategy(self) -> Planner:
        """The one to be held to the contract."""
        raise NotImplementedError

    def _plan(self, request: PlanningRequest) -> GroupPlan:
        answer = self.strategy().plan(request)
        held = [one for partitions in answer.tasks.values() for one in partitions]
        assert len(held) == len(set(held)), "a partition has two tasks"
        assert not set(held) & set(answer.unplaced), "a partition has a task and is said to have none"
        assert {*held, *answer.unplaced} == set(request.partitions), "partitions are lost or made up"
        assert answer.loads_bytes_per_second.keys() <= answer.tasks.keys(), "there are loads of no task"
        return answer

    def test_every_partition_has_one_task(self) -> None:
        """Or is said to have none. Within usable capacity where that is possible."""
        answer = self._plan(_REQUEST)
        assert not answer.unplaced
        for task, held in answer.tasks.items():
            carried = sum(_LOADS[one].bytes_per_second for one in held)
            assert carried <= _CAPACITY.usable_bytes_per_second, f"{task} carries {carried:.0f} bytes/s"

    def test_limits_hold(self) -> None:
        """`max_tasks` and `max_partitions_per_task` are never exceeded together; the least number of tasks is
        there while there are partitions for it."""
        few = self._plan(replace(_REQUEST, limits=TaskLimits(max_tasks=2)))
        assert len(few.tasks) <= 2
        many = self._plan(replace(_REQUEST, limits=TaskLimits(min_tasks=9)))
        assert sum(bool(held) for held in many.tasks.values()) >= 9
        narrow = self._plan(replace(_REQUEST, limits=TaskLimits(max_partitions_per_task=7)))
        assert max(map(len, narrow.tasks.values())) <= 7
        assert not narrow.unplaced

    def test_the_same_question_has_the_same_answer(self) -> None:
        """In any order: a leader that is killed is followed by one that plans the same."""
        turned = dict(reversed(_LOADS.items()))
        assert self._plan(_REQUEST).tasks == self._plan(replace(_REQUEST, loads=turned)).tasks

    def test_what_is_placed_stays(self) -> None:
        """Planned again by the same loads nothing moves, and tasks keep their names."""
        before = self._plan(_REQUEST)
        after = self._plan(replace(_REQUEST, current=_homes(before)))
        assert after.tasks == before.tasks

    def test_new_partitions_move_no_others(self) -> None:
        """While there is room."""
        old = _PARTITIONS[: _COUNT - 1]
        before = self._plan(replace(_REQUEST, partitions=old))
        after = self._plan(replace(_REQUEST, current=_homes(before)))
        moved = [one for one, task in _homes(before).items() if one not in after.tasks.get(task, ())]
        assert not moved

    def test_new_tasks_have_names_of_the_group(self) -> None:
        """`mirror.model.identifiers.task_name` makes them."""
        answer = self._plan(_REQUEST)
        assert answer.tasks.keys() <= {task_name(GROUP, number) for number in range(_COUNT)}

    def test_it_plans_without_loads(self) -> None:
        """By count, and nothing that is placed moves."""
        before = self._plan(replace(_REQUEST, loads={}, limits=TaskLimits(min_tasks=3)))
        sizes = sorted(map(len, before.tasks.values()))
        assert sizes[-1] - sizes[0] <= 1
        after = self._plan(
            replace(_REQUEST, loads={}, limits=TaskLimits(min_tasks=3), current=_homes(before))
        )
        assert after.tasks == before.tasks

    def test_there_may_be_nothing_to_plan(self) -> None:
        """A datastream whose topics are all gone."""
        answer = self._plan(replace(_REQUEST, partitions=(), loads={}))
        assert not any(answer.tasks.values())


def _homes(answer: GroupPlan) -> Mapping[TopicPartition, TaskName]:
    return {one: task for task, held in answer.tasks.items() for one in held}
