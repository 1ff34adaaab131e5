"""The choice of kept sets is valid, and its bound is below every possible placement."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assigner.problem.problem import moved_units
from assigner.search.kept_sets import KeptSetsQuestion, fewest_moved_by_sets
from tests.examples import examples


@st.composite
def _questions(draw: st.DrawFn) -> KeptSetsQuestion:
    """Draw a few tasks, and sizes on a coarse grid or without a common divisor."""
    tasks, count = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    room, unit = draw(st.sampled_from([(40, 1), (40_000, 1_000), (9_973, 1)]))
    sizes = [unit * size for size in draw(_lists(st.integers(0, room // unit), count))]
    homes = draw(_lists(st.integers(-1, tasks - 1), count))
    return KeptSetsQuestion(
        np.sort(np.array(sizes, np.int64))[::-1],
        np.array(homes, np.int32),
        tasks,
        draw(st.integers(1, tasks)),
        room,
        None,
        1.0,
        1,
    )


def _lists(of: st.SearchStrategy[int], count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(of, min_size=count, max_size=count)


def _moved(question: KeptSetsQuestion, task_of: np.ndarray) -> int:
    return moved_units(question.sizes[:, None], question.homes, task_of)


def _is_right(question: KeptSetsQuestion, task_of: np.ndarray) -> bool:
    loads = np.bincount(task_of, weights=question.sizes, minlength=question.tasks)
    carrying = np.unique(task_of[question.sizes > 0])
    return bool((loads <= question.room).all()) and len(carrying) <= question.most


def _fewest(question: KeptSetsQuestion) -> int | None:
    """Return the fewest moved bytes over all placements."""
    placements = (
        np.array(one, np.int32) for one in product(range(question.tasks), repeat=len(question.sizes))
    )
    return min((_moved(question, one) for one in placements if _is_right(question, one)), default=None)


@settings(max_examples=examples(60))
@given(_questions())
def test_no_placement_moves_less_than_the_bound_and_the_one_found_is_right(
    question: KeptSetsQuestion,
) -> None:
    answer, fewest = fewest_moved_by_sets(question), _fewest(question)
    if fewest is None:
        assert answer.task_of is None
        return
    assert answer.bound <= fewest
    if answer.task_of is not None:
        assert (answer.task_of >= 0).all()
        assert _is_right(question, answer.task_of)
        assert _moved(question, answer.task_of) >= fewest
        assert not answer.proved or _moved(question, answer.task_of) == fewest
