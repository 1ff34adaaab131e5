"""Ablation of the search engines of the assigner: their contributions to moved bytes and to tasks.

Every run replaces one engine with a function that finds nothing. Moves are measured with the public benchmark
of consumer-group packing (`placement_landau`); tasks with the public classes of bin packing
(`placement_bins`) and random vectors with two dimensions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

from assigner.problem.limits import UNLIMITED
from assigner.search.exact import SolverAnswer
from assigner.stages.full import PackingInput, fewest_tasks
from bench.placement.bins import CLASSES
from bench.placement.landau import Case, measure
from bench.tables import markdown

ALL: Final = "all engines"
ENOUGH: Final = 0.005
"""Share by which a result must improve for an engine to be worth its code."""

_NOTHING: Final = SolverAnswer(None, proved=False)
_HEADROOM: Final = 0.1


def _finds_nothing(*_: Any, **__: Any) -> SolverAnswer:
    return _NOTHING


def _changes_nothing(*_: Any, **__: Any) -> bool:
    return False


def _same_placement(_sizes: Any, task_of: Any, *_: Any) -> Any:
    return task_of


ENGINES: Final[Mapping[str, Mapping[str, Callable[..., Any]]]] = {
    ALL: {},
    "descent": {"assigner.stages.full.descend": _changes_nothing},
    "vector descent": {"assigner.stages.full.descend_vectors": _changes_nothing},
    "ruin": {"assigner.stages.full.ruin_and_recreate": _changes_nothing},
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


class Outcome(NamedTuple):
    """`moved`: bytes moved, in consumers a step. `surplus`: share of tasks above best fit decreasing.
    `bins`, `vectors`: tasks. `seconds`: CPU time of everything."""

    moved: float
    surplus: float
    bins: int
    vectors: int
    seconds: float


@contextmanager
def without(engine: str) -> Iterator[None]:
    """Replace an engine within the block."""
    with ExitStack() as replaced:
        for place, substitute in ENGINES[engine].items():
            replaced.enter_context(patch(place, substitute))
        yield


def outcome_without(engine: str, steps: int, deltas: list[int], instances: int) -> Outcome:
    """Run all cases without an engine."""
    began = time.process_time()
    with without(engine):
        cases = [Case("uniform", delta, 1, _HEADROOM, 0.0, steps) for delta in deltas]
        scores = [measure(case) for case in cases]
        bins = sum(_tasks(sizes[:, None], np.array([room])) for sizes, room in packings(instances))
        vectors = sum(_tasks(sizes, room) for sizes, room in vector_packings(instances))
    return Outcome(
        float(np.mean([score.moved for score in scores])),
        float(np.mean([score.surplus for score in scores])),
        bins,
        vectors,
        time.process_time() - began,
    )


def packings(instances: int) -> Iterator[tuple[Any, int]]:
    """Yield instances of every public class of bin packing."""
    for name, (make, count) in CLASSES.items():
        for seed in range(min(instances, count)):
            sizes, room = make(np.random.default_rng([seed, len(name)]))
            yield -np.sort(-np.array(sizes, np.int64)), room


def vector_packings(instances: int) -> Iterator[tuple[Any, Any]]:
    """Yield partitions with correlated bytes and messages, sorted by size."""
    for seed in range(2 * instances):
        random = np.random.default_rng([seed, 2])
        sizes = random.integers(20, 400, (150, 2))
        sizes[:, 1] = (sizes[:, 0] + sizes[:, 1]) // 2
        yield sizes[np.argsort(-sizes.sum(axis=1))].astype(np.int64), np.array([1_000, 1_000], np.int64)


def _tasks(sizes: Any, room: Any) -> int:
    return fewest_tasks(PackingInput(sizes, room, UNLIMITED, 1.0, 1)).tasks


def main() -> None:
    """Print the outcome without each engine.

    Environment: STEPS (100), DELTAS (5,15,25), INSTANCES (of each class, 4) and ENGINES (all).
    """
    steps, instances = int(os.environ.get("STEPS", "100")), int(os.environ.get("INSTANCES", "4"))
    deltas = [int(one) for one in os.environ.get("DELTAS", "5,15,25").split(",")]
    chosen = os.environ.get("ENGINES", "")
    names = [ALL, *(name for name in ENGINES if name != ALL and (not chosen or name in chosen.split(",")))]
    found: dict[str, Outcome] = {}
    for name in names:
        found[name] = outcome_without(name, steps, deltas, instances)
        print(f"{name}: {found[name]}", flush=True)
    whole = found[ALL]
    rows = [
        [
            name if name == ALL else f"without {name}",
            f"{one.moved:.3f} ({_change(one.moved, whole.moved)})",
            f"{one.surplus:.2%}",
            f"{one.bins} ({_change(one.bins, whole.bins)})",
            f"{one.vectors} ({_change(one.vectors, whole.vectors)})",
            f"{one.seconds:.0f}",
        ]
        for name, one in found.items()
    ]
    print(markdown(["engines", "moved", "surplus", "bins", "vectors", "CPU s"], rows))


def _change(value: float, of_all: float) -> str:
    return f"{value / of_all - 1:+.1%}" if of_all else "-"
