"""Limits of one task besides its load, compared with counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assigner.problem.limits import UNLIMITED, Limits
from mirror.errors import InvalidRequest

some_limits = st.builds(Limits, st.none() | st.integers(1, 12))
counts_of_tasks = st.lists(st.integers(0, 15), min_size=1, max_size=8).map(np.array)


@given(some_limits, counts_of_tasks)
def test_a_task_admits_a_partition_when_it_may_hold_one_more(limits: Limits, counts: np.ndarray) -> None:
    assert limits.admits(counts).tolist() == limits.allows(counts + 1).tolist()
    assert limits.admits(counts).tolist() == [limits.admits_one(count) for count in counts.tolist()]
    assert not (limits.admits(counts) & ~limits.allows(counts)).any()


@given(some_limits, st.integers(0, 40))
def test_the_most_that_a_task_holds_is_reached_one_by_one(limits: Limits, partitions: int) -> None:
    held = 0
    while held < partitions and limits.admits_one(held):
        held += 1
    assert limits.most(partitions) == held
    assert limits.allows(np.array([held])).all()


@given(st.integers(1, 12).map(Limits), st.integers(0, 60))
def test_the_bound_is_the_number_of_tasks_filled_one_after_another(limits: Limits, partitions: int) -> None:
    tasks, left = 0, partitions
    while left:
        left -= limits.most(left)
        tasks += 1
    assert limits.bound(partitions) == tasks


def test_without_a_limit_one_task_holds_everything() -> None:
    assert not UNLIMITED.is_bounded
    assert UNLIMITED.most(10**9) == 10**9
    assert UNLIMITED.bound(10**9) == 0


def test_a_limit_that_leaves_a_task_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="0 partitions"):
        Limits(0)
