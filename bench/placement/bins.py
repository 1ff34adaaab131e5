"""Public bin-packing instances, regenerated from their published descriptions: tasks above the best bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from assigner.bounds.lower_bounds import task_bound
from assigner.problem.limits import UNLIMITED
from assigner.problem.problem import Ints
from assigner.search.greedy import assign_lpt, best_fit
from assigner.stages.full import PackingInput, fewest_tasks

Instance = tuple[list[int], int]


def falkenauer_uniform(random: np.random.Generator) -> Instance:
    """Return an instance of E. Falkenauer, J. Heuristics 2 (1996).

    Sizes 20..100, bins of 150; 120, 250, 500 or 1000 items.
    """
    count = int(random.choice([120, 250, 500, 1000]))
    return random.integers(20, 101, count).tolist(), 150


def falkenauer_triplets(random: np.random.Generator) -> Instance:
    """Return an instance of E. Falkenauer (1996) with bins of 1000 filled by three items.

    The first item is 380..490, the second 250 to half the rest.
    """
    sizes: list[int] = []
    for _ in range(int(random.choice([20, 40, 83, 167]))):
        first = int(random.integers(380, 491))
        second = int(random.integers(250, (1000 - first) // 2 + 1))
        sizes += [first, second, 1000 - first - second]
    return sizes, 1000


def scholl_1(random: np.random.Generator) -> Instance:
    """Return an instance of A. Scholl, R. Klein, C. Juergens, Computers & OR 24 (1997), set 1.

    Bins of 100, 120 or 150.
    """
    low = int(random.choice([1, 20, 30]))
    count = int(random.choice([50, 100, 200, 500]))
    return random.integers(low, 101, count).tolist(), int(random.choice([100, 120, 150]))


def scholl_2(random: np.random.Generator) -> Instance:
    """Return an instance of Scholl, Klein, Juergens (1997), set 2: bins of 1000, on average 3, 5, 7 or 9
    items, spread 20, 50 or 90 %."""
    mean = 1000 / int(random.choice([3, 5, 7, 9]))
    spread = float(random.choice([0.2, 0.5, 0.9]))
    count = int(random.choice([50, 100, 200, 500]))
    return random.integers(int(mean * (1 - spread)), int(mean * (1 + spread)) + 1, count).tolist(), 1000


def scholl_3(random: np.random.Generator) -> Instance:
    """Return an instance of Scholl, Klein, Juergens (1997), set 3: 200 items of 20,000..35,000, bins of
    100,000."""
    return random.integers(20_000, 35_001, 200).tolist(), 100_000


def schwerin(random: np.random.Generator) -> Instance:
    """Return an instance of P. Schwerin, G. Waescher, Int. Trans. OR 4 (1997).

    100 or 120 items of 150..200, bins of 1000.
    """
    return random.integers(150, 201, int(random.choice([100, 120]))).tolist(), 1000


def waescher(random: np.random.Generator) -> Instance:
    """Return an instance like those of G. Waescher, T. Gau, OR Spektrum 18 (1996).

    57 to 239 items, each 1 % to 80 % of a bin of size 10,000.
    """
    count = int(random.integers(57, 240))
    return random.integers(100, 8001, count).tolist(), 10_000


def hard(random: np.random.Generator) -> Instance:
    """Return an instance like the hard ones of J. Schoenfield (2002).

    160 to 200 items of 1..800, bins of 1000.
    """
    count = int(random.choice([160, 180, 200]))
    return random.integers(1, 801, count).tolist(), 1000


CLASSES: dict[str, tuple[Callable[[np.random.Generator], Instance], int]] = {
    "Falkenauer U": (falkenauer_uniform, 20),
    "Falkenauer T": (falkenauer_triplets, 20),
    "Scholl 1": (scholl_1, 40),
    "Scholl 2": (scholl_2, 30),
    "Scholl 3": (scholl_3, 10),
    "Schwerin": (schwerin, 25),
    "Waescher-like": (waescher, 17),
    "Hard28-like": (hard, 28),
}


def _instances(name: str) -> Iterator[tuple[Ints, int]]:
    make, count = CLASSES[name]
    for seed in range(count):
        sizes, room = make(np.random.default_rng([seed, len(name)]))
        yield -np.sort(-np.array(sizes, np.int64)), room


def _fit(sizes: Ints, room: int) -> int:
    return int(best_fit(sizes, room, len(sizes)).max()) + 1


def _greedy(sizes: Ints, room: int) -> int:
    """Place the heaviest items first on the lightest bin, adding a bin until everything fits."""
    tasks = task_bound(sizes[:, None], np.array([room]))
    while True:
        loads = np.zeros((tasks, 1), np.int64)
        assign_lpt(sizes[:, None], np.arange(len(sizes)), loads, np.zeros(tasks, np.int64), np.array([room]))
        if loads.max() <= room:
            return tasks
        tasks += 1


def main() -> None:
    """Print mean/max bins above the bound: heaviest first (as Brooklin), best fit decreasing, Headrace."""
    print("class            N | heaviest first | best fit | ours     | proved | s mean/max")
    for name in CLASSES:
        above: dict[str, list[int]] = {"greedy": [], "fit": [], "ours": []}
        seconds = []
        for sizes, room in _instances(name):
            started = time.perf_counter()
            packed = fewest_tasks(PackingInput(sizes[:, None], np.array([room]), UNLIMITED, 1.0, 1))
            seconds.append(time.perf_counter() - started)
            above["ours"].append(packed.tasks - packed.bound)
            above["greedy"].append(_greedy(sizes, room) - packed.bound)
            above["fit"].append(_fit(sizes, room) - packed.bound)
        cells = [f"{np.mean(values):5.2f}/{max(values):<3}" for values in above.values()]
        print(
            f"{name:14} {len(seconds):3} | {cells[0]:>14} | {cells[1]:>8} | {cells[2]:>8} | "
            f"{above['ours'].count(0):3}/{len(seconds):<3} | {np.mean(seconds):.2f}/{max(seconds):.1f}"
        )
