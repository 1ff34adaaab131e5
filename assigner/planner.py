"""Plans tasks: validates the input, places partitions, applies the move budget, explains and checks the
plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from assigner.answer.assemble import PlanningDecision, assemble
from assigner.answer.check import check_plan
from assigner.answer.explain import move_sentence
from assigner.answer.placement_answer import PlacementAnswer
from assigner.problem.loads import LEVELS, UNKNOWN_LOAD, PartitionLoads, resolve
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import UNITS, PlacementProblem, Ranks, TaskOf, build_problem, moved_units
from assigner.search.exact import counted_cuts
from assigner.stages.budget import MoveBudget, within_budget
from assigner.stages.hysteresis import ENOUGH_KNOWN
from assigner.stages.outcome import StageOutcome, full_outcome, incremental_outcome
from mirror.errors import InvalidRequest, PlanRejected
from mirror.model.identifiers import GroupName, TaskName, task_name
from mirror.model.load import LoadLevel, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.wording import counted, rate_text


def plan(
    loads: PartitionLoads,
    capacity: TaskCapacity,
    limits: TaskLimits | None = None,
    policy: Policy | None = None,
    current: TaskOf | None = None,
) -> PlacementAnswer:
    """Plan the number of tasks and the task of each partition for the given loads.

    Equal input in any order gives equal results. `current`: task number by position in `loads`, -1 for a new
    partition; None if no partition is placed yet. Raises InvalidRequest that names the invalid input, and
    PlanRejected if the verifier finds an error in the result.
    """
    limits, policy = limits or TaskLimits(), policy or Policy()
    whole = build_problem(loads, capacity, limits, current)
    placeable = _placeable(whole)
    problem = whole if len(placeable) == whole.count else whole.only(placeable)
    with counted_cuts() as cuts:
        policy, outcome = _choose(problem, policy)
        task_of = _afford(problem, policy, outcome)
    outcome = replace(outcome, why=outcome.why + _without_partitions(whole, problem, outcome))
    result = assemble(PlanningDecision(loads, capacity, whole, problem, placeable, policy, outcome, task_of))
    result = replace(result, cut_short=len(cuts), reasons=(*result.reasons, *_cut_reasons(cuts)))
    check_plan(result, capacity, limits)
    return result


def _cut_reasons(cuts: Sequence[float]) -> list[str]:
    if not cuts:
        return []
    searches = "a search" if len(cuts) == 1 else f"{len(cuts)} searches"
    return [f"{searches} ended at the limit of {max(cuts):.0f} s: equal input may give another plan"]


def _placeable(problem: PlacementProblem) -> Ranks:
    """Return the ranks of the partitions that get a task within the limits.

    All partitions get a task, unless the limits on tasks and partitions per task are too low. Then,
    partitions that already have a task come first, and the heaviest next.
    """
    most_tasks = problem.limits.max_tasks or problem.count
    places = most_tasks * problem.per_task.most(problem.count)
    if places >= problem.count:
        return np.arange(problem.count)
    by_need = np.lexsort((np.arange(problem.count), problem.home < 0))
    return np.sort(by_need[:places])


def _without_partitions(whole: PlacementProblem, problem: PlacementProblem, outcome: StageOutcome) -> str:
    """Explain in a clause how many tasks are removed because the limits leave no room for their partitions;
    empty if none."""
    if problem is whole:
        return ""
    before, kept = (np.unique(part.home[part.home >= 0]) for part in (whole, problem))
    removed = min(len(before) - len(kept), len(before) - int(outcome.alive.sum()))
    if removed <= 0:
        return ""
    tasks = counted(removed, "task is", "tasks are")
    return f"; {tasks} removed: the limits leave no room for the partitions"


def _choose(problem: PlacementProblem, policy: Policy) -> tuple[Policy, StageOutcome]:
    """Run the stages of the requested planning mode. A full plan replaces an incremental plan if it frees
    enough capacity to justify its moves."""
    if policy.mode is PlanMode.FULL or not (problem.home >= 0).any():
        return replace(policy, mode=PlanMode.FULL), full_outcome(problem, policy)
    outcome = incremental_outcome(problem, policy)
    if policy.full_move_cost is None:
        return policy, outcome
    full = full_outcome(problem, policy)
    freed = (int(outcome.alive.sum()) - int(full.alive.sum())) * int(problem.usable[0])
    moved = moved_units(problem.sizes, problem.home, full.task_of)
    moved -= moved_units(problem.sizes, problem.home, outcome.task_of)
    if freed <= policy.full_move_cost * moved:
        return policy, outcome
    why = f"a full plan frees {rate_text(freed / UNITS)} of capacity for {rate_text(moved / UNITS)} moved"
    return replace(policy, mode=PlanMode.FULL), replace(full, why=f"{full.why}; {why}")


def _afford(problem: PlacementProblem, policy: Policy, outcome: StageOutcome) -> TaskOf:
    """Apply only the moves to a new placement that the move budget allows."""
    if policy.move_budget is None:
        return outcome.task_of
    allowed = int(policy.move_budget * int(problem.sizes[:, 0].sum()))
    if moved_units(problem.sizes, problem.home, outcome.task_of) <= allowed:
        return outcome.task_of
    budget = MoveBudget(allowed, outcome.target, problem.per_task)
    tasks = max(len(outcome.alive), problem.homes)
    return within_budget(problem.sizes, problem.home, outcome.task_of, tasks, budget)


class LoadPlanner:
    """Planner that places partitions by load (`mirror.ports.Planner`).

    `policy`: the request overrides mode, rebalance and, for a rebalance, the overload band.
    """

    def __init__(self, policy: Policy | None = None, unknown: PartitionLoad = UNKNOWN_LOAD) -> None:
        self._policy = policy or Policy()
        self._unknown = unknown

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Return the plan of a group. Raises PlanRejected with the reason if the request is infeasible."""
        names = existing_tasks(request)
        try:
            wanted = request.partitions
            recent = [_known(observation, wanted) for observation in request.recent]
            known = _known(request.loads, wanted)
            unknown = self._unknown if known else _fitting(self._unknown, request)
            demand = resolve(wanted, known, {}, unknown, recent)
            policy, limits = self._terms(request, len(names), demand)
            if request.scale_in_headroom is not None:
                policy = replace(policy, scale_in_headroom=request.scale_in_headroom)
            answer = plan(demand, request.capacity, limits, policy, _current(request, names))
        except InvalidRequest as error:
            raise PlanRejected(f"{request.group}: {error.message}", advice=error.advice) from error
        found = group_plan(request, answer, task_names(request.group, names, answer))
        if not found.defaulted:
            return found
        assumed = (
            f"the loads of {len(found.defaulted)} of "
            f"{counted(len(request.partitions), 'partition')} are unknown; "
            f"{rate_text(unknown.bytes_per_second)} assumed for each"
        )
        return replace(found, reasons=(*found.reasons, assumed))

    def _terms(
        self, request: PlanningRequest, present: int, demand: PartitionLoads
    ) -> tuple[Policy, TaskLimits]:
        """Return policy and limits for a planning request. Removals and moves are more cautious if few loads
        are known.

        If fewer than half of the loads are known, no task is removed, not even by a full plan. Without a
        request, no task is removed because of a single observation. If no load is known, partitions keep
        their tasks, because moves would be guesses. If `min_tasks` then requires more tasks, the additional
        tasks are filled by count. In freezes and outside of quiet hours, no task is removed and no full plan
        is chosen, but overloads are relieved and tasks added.
        """
        keep_reason = ""
        is_known = demand.levels != LEVELS.index(LoadLevel.DEFAULT)
        limits = request.limits
        if present and not is_known.any():
            is_too_few = request.rebalance and present < min(limits.min_tasks, len(request.partitions))
            band = 0.0 if is_too_few else 1.0
            policy = replace(
                self._policy, mode=PlanMode.INCREMENTAL, rebalance=is_too_few, overload_band=band
            )
            return policy, limits
        unasked = not (request.full or request.rebalance)
        is_sparse = np.count_nonzero(is_known) < ENOUGH_KNOWN * len(is_known)
        is_doubtful = is_sparse if request.full else unasked and not request.recent
        is_quiet = unasked and bool(request.calm)
        if present and (is_doubtful or is_quiet):
            kept = min(present, limits.max_tasks or present)
            if kept > limits.min_tasks:
                limits = replace(limits, min_tasks=kept)
                why = "too few loads are known" if request.full else "the load was observed only once"
                keep_reason = f"no task is removed, because {why if is_doubtful else request.calm}"
        policy = replace(
            self._policy,
            mode=PlanMode.FULL if request.full else PlanMode.INCREMENTAL,
            rebalance=request.rebalance,
            overload_band=0.0 if request.rebalance else self._policy.overload_band,
            full_move_cost=None if is_quiet else self._policy.full_move_cost,
            keep_reason=keep_reason,
        )
        return policy, limits


def _fitting(unknown: PartitionLoad, request: PlanningRequest) -> PartitionLoad:
    """Return the load to assume for partitions without measurements. It is low enough that all current tasks
    stay within their capacity, so that no partition moves because of an assumption."""
    wanted = set(request.partitions)
    sizes = Counter(task for partition, task in request.current.items() if partition in wanted)
    most, capacity = max(sizes.values(), default=0), request.capacity
    if not most:
        return unknown
    messages, limit = unknown.messages_per_second, capacity.usable_messages_per_second
    return replace(
        unknown,
        bytes_per_second=min(unknown.bytes_per_second, capacity.usable_bytes_per_second // most),
        messages_per_second=min(messages, limit // most) if messages and limit else messages,
    )


def existing_tasks(request: PlanningRequest) -> list[TaskName]:
    """Return the names of the group's current tasks that have at least one partition still selected.

    Names that contain a number are sorted by that number.
    """
    wanted = set(request.partitions)
    return sorted(
        {task for partition, task in request.current.items() if partition in wanted}, key=_by_number
    )


def _by_number(name: TaskName) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number) if number.isdecimal() else -1, name)


def _current(request: PlanningRequest, names: Sequence[TaskName]) -> TaskOf:
    numbers = {name: number for number, name in enumerate(names)}
    homes = [numbers[request.current[p]] if p in request.current else -1 for p in request.partitions]
    return np.array(homes, dtype=np.int32)


def task_names(group: GroupName, existing: Sequence[TaskName], answer: PlacementAnswer) -> list[TaskName]:
    """Return a list of task names with an entry for every task number of a plan.

    Current tasks keep their names, and new tasks get the lowest free numbers.
    """
    names = list(existing)
    taken = {name for name, alive in zip(existing, answer.alive, strict=False) if alive}
    number = 0
    while len(names) < len(answer.alive):
        name = task_name(group, number)
        if name not in taken:
            names.append(name)
        number += 1
    return names


def group_plan(request: PlanningRequest, answer: PlacementAnswer, names: Sequence[TaskName]) -> GroupPlan:
    """Convert a plan to the form that `mirror.ports.Planner` requires."""
    partitions = request.partitions
    held: list[list[TopicPartition]] = [[] for _ in names]
    for partition, task in zip(partitions, answer.task_of.tolist(), strict=True):
        if task >= 0:
            held[task].append(partition)
    alive = np.flatnonzero(answer.alive).tolist()
    return GroupPlan(
        tasks={names[task]: frozenset(held[task]) for task in alive},
        loads_bytes_per_second={names[task]: float(answer.loads[task, 0]) for task in alive},
        required_tasks=answer.required_tasks,
        reasons=answer.reasons,
        move_reasons={
            partitions[position]: move_sentence(answer, request.capacity, position, names)
            for position in answer.moves.tolist()
        },
        offending=tuple(partitions[position] for position in answer.offending),
        unplaced=tuple(partitions[position] for position in answer.unplaced),
        task_lower_bound=answer.task_lower_bound,
        max_load_lower_bound_bytes_per_second=answer.max_load_lower_bound,
        moved_bytes_per_second=answer.moved_bytes_per_second,
        moved_lower_bound_bytes_per_second=answer.moved_lower_bound,
        overloaded=tuple(names[task] for task in answer.overloaded),
        estimated=tuple(partitions[position] for position in answer.estimated),
        defaulted=tuple(partitions[position] for position in answer.defaulted),
        moves_left=answer.moves_left,
        cut_short=answer.cut_short,
        stage=answer.stage,
    )


def _known(
    loads: Mapping[TopicPartition, PartitionLoad], wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionLoad]:
    """Return the loads of the selected partitions that are known.

    `loads` may cover a whole cluster. Loads of 0 at the default level are omitted, because such loads are
    unknown.
    """
    return {
        partition: load
        for partition in wanted
        if (load := loads.get(partition)) is not None
        and (load.level is not LoadLevel.DEFAULT or load.bytes_per_second > 0)
    }
