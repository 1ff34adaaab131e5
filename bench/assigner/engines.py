"""Ablation of the planner's search engines: how each affects the moved load, the number of tasks and the
balance.

Each question is planned with all engines and, from the same placement, without each engine that this plan
used; an engine that a plan does not use cannot change it. The next question of a sequence starts from the
plan of all engines. Questions: the public benchmark of consumer-group packing (`placement_landau`); the
same with at most six partitions per task (`limited`), where kept sets do not apply; the simulated month
(`placement_month`); the seeds of `placement_moves` on which no limit was tuned (`held`); full plans of the
same loads; the public classes of bin packing (`placement_bins`); random vectors with two dimensions.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from assigner.answer.placement_answer import PlacementAnswer
from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.search.exact import SolverAnswer
from bench.placement.bins import CLASSES
from bench.placement.incremental import REBALANCE, REPAIR, drifted
from bench.placement.landau import FULL, PARTITIONS, sequence
from bench.placement.loads import CAPACITY, KINDS, draw, loads_of
from bench.placement.month import Shape, simulate
from bench.tables import markdown
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

ALL: Final = "all engines"
ENOUGH: Final = 0.005
"""Share by which a result must improve for an engine to be worth its code."""

Figures = dict[str, float]
Case = tuple[str, str, Callable[[], None]]
"""Group, name, and the function that plans the questions."""

_FEW: Final = 6
"""Maximum number of partitions of a task in the group `limited`."""
_NOTHING: Final = SolverAnswer(None, proved=False)
_NO_WALL_LIMIT: Final = 1e6
"""Seconds after which a search ends whatever the load of the machine is."""


def _finds_nothing(*_: Any, **__: Any) -> SolverAnswer:
    return _NOTHING


def _changes_nothing(*_: Any, **__: Any) -> bool:
    return False


def _same_placement(_sizes: Any, task_of: Any, *_: Any) -> Any:
    return task_of


ENGINES: Final[Mapping[str, Mapping[str, Callable[..., Any]]]] = {
    "descent": {"assigner.stages.full.descend": _changes_nothing},
    "vector descent": {"assigner.stages.full.descend_vectors": _changes_nothing},
    "chains": {
        "assigner.stages.placement.shorten": _same_placement,
        "assigner.stages.placement.bring_home": _same_placement,
    },
    "columns": {"assigner.stages.full.is_affordable": _changes_nothing},
    "solver": {
        "assigner.stages.full.fits": _finds_nothing,
        "assigner.stages.full.lowest_maximum": _finds_nothing,
        "assigner.stages.improvement.fewest_moved": _finds_nothing,
        "assigner.stages.improvement.fewest_moved_of_heavy": _finds_nothing,
        "assigner.stages.fewer_moves.fewest_moves": _finds_nothing,
    },
    "kept sets": {"assigner.stages.kept_sets.is_affordable": _changes_nothing},
}
"""Functions that are replaced where they are called, by engine."""


@contextmanager
def replaced(substitutes: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Replace functions, given by their qualified names, within the block."""
    with ExitStack() as stack:
        for place, substitute in substitutes.items():
            stack.enter_context(patch(place, substitute))
        yield


class Ablation:
    """Planner that also plans without each of its search engines; use `plan` in place of
    `assigner.planner.plan`."""

    def __init__(self) -> None:
        self.figures: dict[str, Figures] = defaultdict(lambda: defaultdict(float))
        self._used: set[str] = set()
        self._observing = {
            place: self._observed(engine, resolve_name(place))
            for engine, places in ENGINES.items()
            for place in places
        }

    def plan(
        self,
        loads: PartitionLoads,
        capacity: TaskCapacity,
        limits: TaskLimits | None = None,
        policy: Policy | None = None,
        current: Any = None,
    ) -> PlacementAnswer:
        """Return the plan of all engines, and add the figures of every plan."""
        self._used.clear()
        began = time.process_time()
        with replaced(self._observing):
            answer = plan(loads, capacity, limits, policy, current)
        whole = _figures(answer, capacity, time.process_time() - began)
        self._add(ALL, whole)
        for engine, substitutes in ENGINES.items():
            if engine not in self._used:
                self._add(engine, whole)
                continue
            began = time.process_time()
            with replaced(substitutes):
                other = plan(loads, capacity, limits, policy, current)
            self._add(engine, _figures(other, capacity, time.process_time() - began) | {"used": 1})
        return answer

    def _observed(self, engine: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def observed(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            if function.__name__ != "is_affordable" or result:
                self._used.add(engine)
            return result

        return observed

    def _add(self, engine: str, figures: Figures) -> None:
        for name, value in figures.items():
            self.figures[engine][name] += value


def _figures(answer: PlacementAnswer, capacity: TaskCapacity, seconds: float) -> Figures:
    """Return the figures of a plan: its moved load and the load of its fullest task (both in tasks), and
    counts."""
    usable = capacity.usable_bytes_per_second
    return {
        "plans": 1,
        "moved": answer.moved_bytes_per_second / usable,
        "moves": answer.moved_partitions,
        "tasks": answer.tasks,
        "overloaded": len(answer.overloaded),
        "fullest": answer.max_load / usable,
        "seconds": seconds,
        "used": 0,
    }


def cases(steps: int, days: int, ablation: Ablation) -> Iterator[Case]:
    """Yield all cases, alternating between the groups."""
    groups = (
        _landau(steps, ablation),
        _landau(steps, ablation, _FEW),
        _held(ablation),
        _month(days, ablation),
        _full(ablation),
        _bins(ablation),
        _vectors(ablation),
    )
    waiting = list(groups)
    while waiting:
        for group in tuple(waiting):
            case = next(group, None)
            if case is None:
                waiting.remove(group)
            else:
                yield case


def _landau(steps: int, ablation: Ablation, most: int | None = None) -> Iterator[Case]:
    """Yield cases of the Landau benchmark. `most`: maximum number of partitions of a task, for which kept
    sets do not apply."""
    for seed, headroom, delta in product((1, 2, 3), (0.1, 0.0), (5, 25, 15)):
        policy = Policy(mode=PlanMode.INCREMENTAL, scale_in_headroom=headroom, settling=1)

        def run(seed: int = seed, delta: int = delta, policy: Policy = policy) -> None:
            limits = TaskLimits(max_partitions_per_task=most)
            names = tuple(TopicPartition(f"topic-{number % 2}", number // 2) for number in range(PARTITIONS))
            current = None
            for loads in sequence("uniform", delta, seed, steps):
                rates = np.zeros((PARTITIONS, 2))
                rates[:, 0] = loads
                question = PartitionLoads(names, rates, np.zeros(PARTITIONS, np.int8))
                # The first plan is the same for every headroom: only the changes are compared.
                planned = plan if current is None else ablation.plan
                answer = planned(question, TaskCapacity(FULL, None, 100), limits, policy, current)
                current = np.unique(answer.task_of, return_inverse=True)[1].astype(np.int32)

        group = "landau" if most is None else "limited"
        yield group, f"delta {delta}, headroom {headroom}, seed {seed}", run


def _held(ablation: Ablation) -> Iterator[Case]:
    for seed, sigma, kind in product(range(4, 10), (0.3, 0.1), KINDS):

        def run(kind: str = kind, sigma: float = sigma, seed: int = seed) -> None:
            rates, current = drifted(kind, 1_000, 40, sigma, seed)
            for policy in (REPAIR, REBALANCE):
                ablation.plan(loads_of(rates), CAPACITY, None, policy, current)

        yield "held", f"{kind}, sigma {sigma}, seed {seed}", run


def _month(days: int, ablation: Ablation) -> Iterator[Case]:
    for seed, (swing, bursts) in product(range(1, 5), ((0.25, 0.05), (0.0, 0.2), (0.5, 0.05))):
        shape = Shape(days=days, swing=swing, bursts=bursts, seed=seed)

        def run(shape: Shape = shape) -> None:
            with patch("assigner.planner.plan", ablation.plan):
                simulate(shape)

        yield "month", f"swing {swing}, bursts {bursts}, seed {seed}", run


def _full(ablation: Ablation) -> Iterator[Case]:
    for seed, kind in product(range(4, 6), KINDS):

        def run(kind: str = kind, seed: int = seed) -> None:
            for partitions, tasks in ((300, 20), (1_000, 40)):
                ablation.plan(loads_of(draw(kind, partitions, tasks, seed)), CAPACITY)

        yield "full", f"{kind}, seed {seed}", run


def _bins(ablation: Ablation) -> Iterator[Case]:
    for seed, (name, (make, _)) in product(range(4), CLASSES.items()):

        def run(make: Callable[..., Any] = make, seed: int = seed, name: str = name) -> None:
            sizes, room = make(np.random.default_rng([seed, len(name)]))
            ablation.plan(loads_of(np.array(sizes, np.float64)), TaskCapacity(room, None, 100))

        yield "bins", f"{name}, seed {seed}", run


def _vectors(ablation: Ablation) -> Iterator[Case]:
    for seed in range(8):

        def run(seed: int = seed) -> None:
            sizes = np.random.default_rng([seed, 2]).integers(20, 400, (150, 2)).astype(np.float64)
            sizes[:, 1] = sizes.sum(axis=1) // 2
            ablation.plan(loads_of(sizes[:, 0], sizes[:, 1]), TaskCapacity(1_000, 1_000, 100))

        yield "vectors", f"seed {seed}", run


def main() -> None:
    """Print the figures of each group of cases, with all search engines and without each of them.

    Environment: STEPS (of each of the 18 sequences, 30), DAYS (of each of the 12 months, 28), and to run in
    parts: RESULTS (file of finished cases) and SECONDS (after which no case starts; 0 only prints).
    """
    results, began = Path(os.environ.get("RESULTS", os.devnull)), time.monotonic()
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.is_file() else []
    known = {(one["group"], one["case"]) for one in done}
    ablation = Ablation()
    settings = (int(os.environ.get("STEPS", "30")), int(os.environ.get("DAYS", "28")))
    with patch("assigner.search.exact._WALL_SECONDS", _NO_WALL_LIMIT):
        for group, name, run in cases(*settings, ablation):
            if time.monotonic() - began >= float(os.environ.get("SECONDS", "inf")):
                break
            if (group, name) in known:
                continue
            ablation.figures.clear()
            run()
            line = json.dumps({"group": group, "case": name, "figures": ablation.figures})
            done.append(json.loads(line))
            with results.open("a") as file:
                file.write(line + "\n")
    print_tables(done)


def print_tables(done: list[dict[str, Any]]) -> None:
    """Print a table for each group from the figures of its cases."""
    for group in dict.fromkeys(one["group"] for one in done):
        of_group = [one["figures"] for one in done if one["group"] == group]
        sums: dict[str, Figures] = {
            engine: {name: sum(one[engine][name] for one in of_group) for name in of_group[0][ALL]}
            for engine in (ALL, *ENGINES)
        }
        whole = sums[ALL]
        plans = int(whole["plans"])
        rows = [
            [
                engine if engine == ALL else f"without {engine}",
                "" if engine == ALL else f"{one['used']:.0f}",
                *(_changed(one[name], whole[name]) for name in ("moved", "moves", "tasks", "fullest")),
                f"{one['overloaded']:.0f}",
                f"{one['seconds']:.1f}",
            ]
            for engine, one in sums.items()
        ]
        print(f"\n{group}: {len(of_group)} cases, {plans} plans\n")
        header = ["engines", "used", "moved", "moves", "tasks", "fullest", "overloaded", "CPU s"]
        print(markdown(header, rows))


def _changed(value: float, of_all: float) -> str:
    return f"{value:.1f} ({value / of_all - 1:+.2%})" if of_all else "0"
