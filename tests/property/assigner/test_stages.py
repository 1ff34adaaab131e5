"""Guarantees of each stage for any input."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assigner.bounds.covers import SearchDepth, cheapest_cover, smallest_sums
from assigner.bounds.lower_bounds import cheapest_sets, load_bound, newcomers_bound, task_bound
from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import UNITS, Ints
from assigner.search.arrangement import Arrangement
from assigner.search.columns import generate_and_dive
from assigner.search.descent import DescentGoal, descend
from assigner.search.exact import fewest_moved, fewest_moved_of_heavy, fits
from assigner.search.greedy import assign_lpt, best_fit, level_tail, tail_start
from assigner.search.vector_descent import descend_vectors
from assigner.stages.budget import MoveBudget, within_budget
from assigner.stages.eviction import evict
from assigner.stages.full import PackingInput, fewest_tasks, lower
from assigner.stages.relabel import relabel
from tests.examples import examples
from tests.placement_data import (
    fewest_moved_by_exhaustion,
    fewest_tasks_by_exhaustion,
    lowest_maximum_by_exhaustion,
    sizes_of,
)

small = st.lists(st.integers(0, 50), min_size=1, max_size=7)
many = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


def heaviest_first(values: list[int]) -> Ints:
    return sizes_of(sorted(values, reverse=True))


def scattered(sizes: Ints, tasks: int, seed: int) -> Arrangement:
    random = np.random.default_rng(seed)
    return Arrangement(sizes, random.integers(0, tasks, len(sizes)).astype(np.int32), tasks)


def assert_consistent(state: Arrangement) -> None:
    again = Arrangement(state.sizes, state.task_of, state.tasks)
    assert (again.loads == state.loads).all()
    assert (again.counts == state.counts).all()
    for task in range(state.tasks):
        assert state.members(task).tolist() == again.members(task).tolist()


@given(small, st.none() | st.integers(1, 4))
@settings(max_examples=examples(100))
def test_bounds_never_exceed_the_truth(values: list[int], cap: int | None) -> None:
    room = 50
    assert task_bound(sizes_of(values), np.array([room]), Limits(cap)) <= fewest_tasks_by_exhaustion(
        values, room, cap
    )
    for tasks in (1, 2, 3):
        assert load_bound(np.array(values), tasks) <= lowest_maximum_by_exhaustion(values, tasks)


@given(many, st.integers(1, 9), st.none() | st.integers(1, 9))
@settings(max_examples=examples(100))
def test_pouring_places_all_it_may_and_keeps_its_books(
    values: list[int], tasks: int, cap: int | None
) -> None:
    sizes = heaviest_first(values)
    loads, counts = np.zeros((tasks, 1), np.int64), np.zeros(tasks, np.int64)
    chosen = assign_lpt(sizes, np.arange(len(sizes)), loads, counts, np.array([1000]), Limits(cap))
    assert (chosen >= 0).sum() == min(len(sizes), tasks * cap if cap else len(sizes))
    state = Arrangement(sizes, chosen, tasks)
    assert (state.loads == loads).all()
    assert (state.counts == counts).all()
    if cap is None:
        assert loads.max() - loads.min() <= max(values)


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 60), st.none() | st.integers(1, 25)
)
@settings(max_examples=examples(100))
def test_the_tail_levels_counts(counts: list[int], tail: int, cap: int | None) -> None:
    before = np.array(counts)
    dealt = level_tail(before, tail, np.zeros(len(counts), bool), Limits(cap))
    after = before + np.bincount(dealt[dealt >= 0], minlength=len(counts))
    got = np.flatnonzero(after > before)
    assert len(dealt) == tail
    assert cap is None or (after[got] <= cap).all()
    if len(got):
        assert after[got].max() - min(after[after < (cap or 10**9)], default=after[got].max()) <= 1
    if (dealt < 0).any():
        assert cap is not None
        assert (after >= cap).all()


@given(many)
@settings(max_examples=examples(60))
def test_the_tail_is_small(values: list[int]) -> None:
    sizes = heaviest_first(values)
    start = tail_start(sizes)
    assert sizes[start:].sum() * 10_000 <= sizes.sum()
    assert start == 0 or sizes[start - 1 :].sum() * 10_000 > sizes.sum()


@given(many, st.integers(2, 8), st.integers(0, 2**32 - 1), st.none() | st.integers(8, 60))
@settings(max_examples=examples(100))
def test_descent_never_raises_the_maximum(values: list[int], tasks: int, seed: int, cap: int | None) -> None:
    sizes = heaviest_first(values)
    state = scattered(sizes, tasks, seed)
    before, crowd = int(state.loads.max()), int(state.counts.max())
    lowest = load_bound(sizes[:, 0], tasks)
    reached = descend(state, DescentGoal(lowest, Limits(cap)), 1_000_000)
    assert_consistent(state)
    assert state.loads.max() <= before
    assert reached == (state.loads.max() <= lowest)
    assert cap is None or state.counts.max() <= max(crowd, cap)


@given(many, st.integers(2, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60))
def test_vector_descent_never_raises_the_worst_share(values: list[int], tasks: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = np.stack([np.array(values), random.permutation(values)], axis=1).astype(np.int64)
    state = scattered(sizes, tasks, seed)
    targets = np.maximum(-(-sizes.sum(axis=0) // tasks), 1)
    worst = (state.loads / targets).max()
    descend_vectors(state, targets, 1_000_000)
    assert_consistent(state)
    assert (state.loads / targets).max() <= worst


@given(st.lists(st.integers(0, 300), min_size=1, max_size=11), st.data())
@settings(max_examples=examples(150))
def test_a_cover_is_the_lightest_subset_that_relieves_enough(values: list[int], data: st.DataObject) -> None:
    sizes = np.array(sorted(values, reverse=True), np.int64)
    if not sizes.sum():
        return
    excess = data.draw(st.integers(1, int(sizes.sum())))
    cover = cheapest_cover(np.arange(len(sizes)), sizes, excess)
    subsets = [subset for size in range(len(sizes) + 1) for subset in combinations(sizes.tolist(), size)]
    least = min(sum(subset) for subset in subsets if sum(subset) >= excess)
    fewest = min(len(subset) for subset in subsets if sum(subset) == least)
    assert int(sizes[cover.taken].sum()) == cover.least == least
    assert len(cover.taken) == fewest


@given(
    st.lists(st.integers(1, 10**6), min_size=0, max_size=40).flatmap(
        lambda heavy: st.lists(st.integers(0, 10**3), min_size=20, max_size=60).map(
            lambda light: heavy + light
        )
    ),
    st.integers(1, 10**7),
)
@settings(max_examples=examples(40))
def test_a_large_cover_reaches_the_excess_closely(values: list[int], excess: int) -> None:
    sizes = np.array(sorted(values, reverse=True), np.int64)
    excess = max(1, min(excess, int(sizes.sum())))
    if excess > sizes.sum():
        return
    cover = cheapest_cover(np.arange(len(sizes)), sizes, excess, SearchDepth.QUICK)
    assert cover.least <= sizes[cover.taken].sum()
    assert sizes[cover.taken].sum() >= excess
    assert len(set(cover.taken.tolist())) == len(cover.taken)


def reachable(sizes: Ints) -> int:
    """Return a number whose bit i is set if some subset has the sum i."""
    sums = 1
    for size in sizes.tolist():
        sums |= sums << size
    return sums


@given(
    st.lists(st.integers(0, 3_000), min_size=33, max_size=70)
    | st.lists(st.integers(40, 60).map(lambda size: 50 * size), min_size=33, max_size=60),
    st.floats(0, 1),
)
@settings(max_examples=examples(60))
def test_of_many_partitions_a_cover_says_truly_how_little_suffices(values: list[int], share: float) -> None:
    sizes = np.array(sorted(values, reverse=True), np.int64)
    excess = max(1, int(sizes.sum() * share))
    if excess > sizes.sum():
        return
    cover = cheapest_cover(np.arange(len(sizes)), sizes, excess)
    above = reachable(sizes) >> excess
    least = excess + (above & -above).bit_length() - 1
    found = int(sizes[cover.taken].sum())
    assert len(set(cover.taken.tolist())) == len(cover.taken)
    assert excess <= cover.least <= least <= found


def test_of_many_alike_the_lightest_cover_is_found_and_proved() -> None:
    """Every candidate is examined, since no subset meets the excess exactly."""
    sizes = np.array([1_000_000 + 7_000 * number for number in range(40)][::-1], np.int64)
    cover = cheapest_cover(np.arange(40), sizes, 2_000_000)
    assert int(sizes[cover.taken].sum()) == cover.least == 2_007_000  # the two lightest


@given(st.lists(st.integers(1, 30), max_size=8), st.integers(1, 40))
def test_the_smallest_sums(values: list[int], most: int) -> None:
    sums = {sum(some) for count in range(len(values) + 1) for some in combinations(values, count)}
    assert smallest_sums(np.array(values, np.int64), most).tolist() == sorted(sums)[:most]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=7), st.data())
def test_the_cheapest_sets_come_in_order(costs: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(costs)))
    most = data.draw(st.integers(1, 40))
    found = cheapest_sets(np.array(costs, np.int64), count, most)
    sums = sorted(sum(some) for some in combinations(costs, count))
    assert [sum(costs[index] for index in chosen) for chosen in found] == sums[:most]
    assert len({frozenset(chosen) for chosen in found}) == len(found)


@given(small, st.integers(1, 3), st.integers(20, 80), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(100))
def test_shedding_says_truly_how_little_suffices(
    values: list[int], tasks: int, target: int, seed: int
) -> None:
    sizes = heaviest_first(values)
    state = scattered(sizes, tasks, seed)
    over = np.asarray((state.loads > target).any(axis=1))
    left = evict(sizes, state.task_of, np.zeros(len(sizes), bool), over, np.array([target]), UNLIMITED)
    after = Arrangement(sizes, left.kept, tasks)
    assert (after.loads <= target).all()
    assert int((state.loads - after.loads).sum()) == int(left.least.sum())


@given(many, st.integers(1, 8), st.integers(0, 2**32 - 1), st.floats(0, 1))
@settings(max_examples=examples(60))
def test_a_budget_is_kept_and_no_move_makes_anything_worse(
    values: list[int], tasks: int, seed: int, share: float
) -> None:
    sizes = heaviest_first(values)
    home = scattered(sizes, tasks, seed).task_of
    goal = assign_lpt(
        sizes,
        np.arange(len(sizes)),
        np.zeros((tasks, 1), np.int64),
        np.zeros(tasks, np.int64),
        np.array([1]),
    )
    target = np.array([max(1, int(Arrangement(sizes, goal, tasks).loads.max()))])
    budget = MoveBudget(int(share * sizes.sum()), target, UNLIMITED)
    reached = within_budget(sizes, home, goal, tasks, budget)
    moved = reached != home
    before, after = Arrangement(sizes, home, tasks).loads, Arrangement(sizes, reached, tasks).loads
    assert sizes[moved].sum() <= budget.bytes_
    assert (reached[moved] == goal[moved]).all()
    assert (after <= np.maximum(before, target)).all()


@given(many, st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60))
def test_relabelling_keeps_the_partition_into_tasks(values: list[int], tasks: int, seed: int) -> None:
    sizes = heaviest_first(values)
    home, placed = scattered(sizes, tasks, seed).task_of, scattered(sizes, tasks, seed + 1).task_of
    home = np.unique(home, return_inverse=True)[1].astype(np.int32)
    placed = np.unique(placed, return_inverse=True)[1].astype(np.int32)
    renamed, _ = relabel(sizes[:, 0], home, placed, int(home.max()) + 1)
    pairs = set(zip(placed.tolist(), renamed.tolist(), strict=True))
    assert len(pairs) == len(set(placed.tolist())) == len(set(renamed.tolist()))
    assert (
        sizes[renamed == home].sum() + (renamed == home).sum()
        >= sizes[placed == home].sum() + (placed == home).sum()
        or tasks > int(home.max()) + 1
    )


@given(small, st.integers(1, 4), st.none() | st.integers(1, 4))
@example([0, 12, 12, 13, 14, 14, 25], 1, None)  # one without a load, which has no effect in a column
@settings(max_examples=examples(40))
def test_the_solver_and_column_generation_agree_with_exhaustion(
    values: list[int], tasks: int, cap: int | None
) -> None:
    sizes = heaviest_first(values)
    enough = fewest_tasks_by_exhaustion(values, 50, cap) <= tasks
    answer = fits(sizes, tasks, np.array([50]), Limits(cap), 1.0, 1)
    assert answer.proved or answer.task_of is not None
    assert (answer.task_of is not None) == enough
    found = generate_and_dive(sizes[:, 0], 50, Limits(cap), tasks)
    assert found.bound <= fewest_tasks_by_exhaustion(values, 50, cap)
    if found.task_of is not None:
        state = Arrangement(sizes, found.task_of, tasks)
        assert (found.task_of >= 0).all()
        assert state.loads.max() <= 50
        assert cap is None or state.counts.max() <= cap


@given(small, st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(40))
def test_the_solver_moves_the_fewest_bytes(values: list[int], tasks: int, seed: int) -> None:
    sizes = heaviest_first(values)
    home = scattered(sizes, tasks, seed).task_of
    answer = fewest_moved(sizes, home, None, np.full((tasks, 1), 60), UNLIMITED, 1.0, 1)
    least = fewest_moved_by_exhaustion(sizes[:, 0].tolist(), home.tolist(), tasks, 60)
    if answer.task_of is None:
        assert answer.proved
        assert least == float("inf")
    else:
        assert sizes[answer.task_of != home].sum() == least


@given(small, st.integers(2, 3), st.integers(1, 6), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(80))
def test_what_the_solver_says_of_the_heavy_holds_for_all(
    values: list[int], tasks: int, heavy: int, is_known: bool, seed: int
) -> None:
    """Other partitions count as sand, so no placement moves fewer bytes; without any the bound is exact."""
    sizes = heaviest_first(values) * UNITS
    heavy = min(heavy, len(sizes))
    home = np.random.default_rng(seed).integers(-1, tasks, len(sizes)).astype(np.int32)
    rooms = np.full(tasks, 60 * UNITS)
    staying = {}
    for task in range(tasks if is_known else 0):
        sums = smallest_sums(sizes[heavy:, 0][home[heavy:] == task], 1_000).tolist()
        staying[task] = [(value, value) for value in sums]
    answer = fewest_moved_of_heavy(sizes[:, 0], home, rooms, heavy, staying, 1.0, 1)
    least = fewest_moved_by_exhaustion(sorted(values, reverse=True), home.tolist(), tasks, 60)
    if answer.task_of is None:
        assert least == float("inf")
        return
    assert answer.bound <= least * UNITS
    assert (answer.task_of[heavy:] == home[heavy:]).all()
    if heavy == len(values):
        assert sizes[(home >= 0) & (answer.task_of != home)].sum() == least * UNITS


@given(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.lists(st.integers(31, 60), max_size=4))
@settings(max_examples=examples(80))
def test_the_newcomers_bound_is_the_cheapest_assignment(loads: list[int], newcomers: list[int]) -> None:
    from itertools import permutations

    if len(newcomers) > len(loads):
        return
    cheapest = min(
        sum(max(0, host + size - 60) for host, size in zip(hosts, newcomers, strict=False))
        for hosts in permutations(loads, len(newcomers))
    )
    assert newcomers_bound(np.array(loads), np.array(newcomers, np.int64), 60) == cheapest


@given(many, st.none() | st.integers(2, 20))
@settings(max_examples=examples(40))
def test_packing_fits_and_best_fit_respects_the_room(values: list[int], cap: int | None) -> None:
    sizes = heaviest_first(values)
    inputs = PackingInput(sizes, np.array([1000]), Limits(cap), 0.1, 1)
    packed = fewest_tasks(inputs)
    state = Arrangement(sizes, packed.task_of, packed.tasks)
    assert state.loads.max() <= 1000
    assert cap is None or state.counts.max() <= cap
    assert packed.bound <= packed.tasks
    other = Arrangement(sizes, best_fit(sizes[:, 0], 1000, packed.tasks, Limits(cap)), packed.tasks)
    assert other.loads.max() <= 1000
    lower(state, np.array([max(1, load_bound(sizes[:, 0], packed.tasks))]), inputs)
    assert_consistent(state)
    assert state.loads.max() <= 1000
