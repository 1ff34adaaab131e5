"""Plans of any input pass the verifier, keep their guarantees, and do not depend on order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assigner.answer.placement_answer import PlacementAnswer
from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import TaskOf
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition
from tests.examples import examples


@dataclass(frozen=True)
class World:
    """All arguments of `plan`."""

    loads: PartitionLoads
    capacity: TaskCapacity
    limits: TaskLimits
    policy: Policy
    current: TaskOf | None

    def plan(self) -> PlacementAnswer:
        return plan(self.loads, self.capacity, self.limits, self.policy, self.current)

    def shuffled(self, order: np.ndarray) -> World:
        loads = PartitionLoads(
            tuple(self.loads.partitions[position] for position in order.tolist()),
            self.loads.rates[order],
            self.loads.levels[order],
            self.loads.recent[:, order] if len(self.loads.recent) else self.loads.recent,
        )
        return replace(self, loads=loads, current=None if self.current is None else self.current[order])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        mode=draw(st.sampled_from(PlanMode)),
        rebalance=draw(st.booleans()),
        tolerance=draw(st.sampled_from([0.01, 0.1])),
        overload_band=draw(st.sampled_from([0.0, 0.1])),
        move_budget=draw(st.sampled_from([None, None, 0.0, 0.05, 0.3])),
        full_move_cost=draw(st.sampled_from([None, None, 0.5, 2.0])),
        exact_cells=draw(st.sampled_from([0, 100])),
        effort=0.1,
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(0, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rates = random.pareto(1.1, (count, 2)) * draw(st.sampled_from([0.1, 1.0, 5.0, 30.0]))
    rates[random.random(count) < 0.3] = 0
    if draw(st.booleans()):
        rates = np.floor(rates)
    history = rates * random.lognormal(0, 0.3, (draw(st.sampled_from([0, 0, 2])), count, 2))
    names = tuple(TopicPartition("t", number) for number in range(count))
    usable = draw(st.integers(5, 200))
    least = draw(st.integers(1, 6))
    most = draw(st.none() | st.integers(least, least + 10))
    limits = TaskLimits(least, most, draw(st.none() | st.integers(1, 12)))
    capacity = TaskCapacity(usable, draw(st.sampled_from([None, usable])), 100)
    levels = random.integers(0, 3, count).astype(np.int8)
    loads = PartitionLoads(names, rates, levels, history if history.size else np.empty((0, 0, 2)))
    return World(loads, capacity, limits, draw(policies()), draw(st.none() | homes(count)))


@st.composite
def homes(draw: st.DrawFn, count: int) -> TaskOf:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    drawn = random.integers(-1, draw(st.integers(1, 9)), count)
    return (np.searchsorted(np.unique(drawn[drawn >= 0]), drawn) * (drawn >= 0) - (drawn < 0)).astype(
        np.int32
    )


@given(worlds())
@settings(max_examples=examples(250))
def test_every_plan_passes_the_verifier_and_keeps_to_the_limits(world: World) -> None:
    answer = world.plan()
    counts = np.bincount(answer.task_of[answer.task_of >= 0], minlength=len(answer.alive))
    assert not counts[~answer.alive].any()
    limits, cap = world.limits, world.limits.max_partitions_per_task
    if not answer.moves_left:
        assert limits.max_tasks is None or answer.tasks <= limits.max_tasks
        assert cap is None or counts.max(initial=0) <= cap
    assert answer.reasons
    assert len(answer.unplaced) + counts.sum() == len(answer.task_of)


@given(worlds())
@settings(max_examples=examples(80))
def test_without_limits_no_task_is_overloaded_but_by_an_offending_partition_alone(world: World) -> None:
    calm = replace(
        world,
        limits=TaskLimits(),
        loads=replace(world.loads, recent=np.empty((0, 0, 2))),
        policy=replace(world.policy, move_budget=None, overload_band=0.0),
    )
    answer = calm.plan()
    for task in answer.overloaded:
        members = np.flatnonzero(answer.task_of == task).tolist()
        assert len(members) == 1
        assert members[0] in answer.offending


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["pareto", "humps", "lognormal"]),
    st.sampled_from([0.1, 0.4]),
    st.booleans(),
)
@settings(max_examples=examples(25))
def test_drifted_tasks_with_many_partitions_are_repaired(
    seed: int, shape: str, sigma: float, rebalance: bool
) -> None:
    """Large enough for the quick search of covers; a tenth of the partitions are new."""
    random = np.random.default_rng(seed)
    count, tasks, usable = 900, 12, 10_000
    rates = {
        "pareto": random.pareto(1.2, count) + 0.01,
        "humps": random.uniform(0.5, 1.5, count) * np.where(random.random(count) < 0.03, 150, 1),
        "lognormal": random.lognormal(0, 2, count),
    }[shape]
    rates = np.minimum(rates * 0.9 * tasks * usable / rates.sum(), 0.8 * usable)
    names = tuple(TopicPartition("t", number) for number in range(count))
    capacity, levels = TaskCapacity(usable, None, 100), np.zeros(count, np.int8)
    columns = np.stack([rates, np.zeros(count)], axis=1)
    before = plan(PartitionLoads(names, columns, levels), capacity)
    columns = np.minimum(columns * random.lognormal(0, sigma, (count, 1)), usable)
    current = np.where(random.random(count) < 0.1, -1, before.task_of).astype(np.int32)
    policy = Policy(mode=PlanMode.INCREMENTAL, rebalance=rebalance, exact_cells=0)
    after = plan(PartitionLoads(names, columns, levels), capacity, None, policy, current)
    assert not after.overloaded
    assert after.moved_lower_bound <= after.moved_bytes_per_second
    if not rebalance and before.tasks == after.tasks:
        assert after.moved_bytes_per_second < 0.5 * columns.sum()


@given(worlds(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(80))
def test_the_order_of_the_input_does_not_matter(world: World, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(world.loads.partitions))
    one, two = world.plan(), world.shuffled(order).plan()
    assert (two.task_of == one.task_of[order]).all()
    assert two.reasons == one.reasons


@given(worlds())
@settings(max_examples=examples(60))
def test_a_plan_planned_again_moves_nothing(world: World) -> None:
    """An incremental plan of a placement that was just planned is the same placement."""
    if world.limits.max_partitions_per_task is not None and world.limits.max_tasks is not None:
        world = replace(world, limits=replace(world.limits, max_tasks=None))
    calm = replace(world, policy=Policy(mode=PlanMode.INCREMENTAL, effort=0.1, exact_cells=0))
    first = calm.plan()
    numbers = np.where(first.task_of >= 0, np.cumsum(first.alive)[first.task_of] - 1, -1).astype(np.int32)
    held = np.bincount(numbers[numbers >= 0], minlength=first.tasks)
    if not held.all() or first.unplaced:
        return
    second = replace(calm, current=numbers).plan()
    if second.tasks == first.tasks:
        assert second.moved_partitions == 0 or second.overloaded


@given(st.integers(0, 2**32 - 1), st.integers(2, 14), st.integers(1, 3), st.sampled_from([10, 20, 40]))
def test_every_task_that_load_adds_carries_something(seed: int, count: int, tasks: int, mean: int) -> None:
    random = np.random.default_rng(seed)
    rates = np.zeros((count, 2))
    rates[:, 0] = random.exponential(mean, count)
    names = tuple(TopicPartition("t", number) for number in range(count))
    history = rates * random.uniform(0.9, 1.1, (2, count, 1))
    loads = PartitionLoads(names, rates, np.zeros(count, np.int8), history)
    current = np.concatenate((np.arange(tasks), random.integers(0, tasks, count)))[:count].astype(np.int32)
    policy = Policy(mode=PlanMode.INCREMENTAL, overload_band=0.1)
    answer = plan(loads, TaskCapacity(100, None, 100), TaskLimits(), policy, current)
    if answer.tasks > len(np.unique(current)):
        assert (answer.loads[answer.alive, 0] > 0).all()
