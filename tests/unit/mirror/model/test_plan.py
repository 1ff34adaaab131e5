"""Test plans and their differences."""

from __future__ import annotations

import pytest

from mirror.errors import PlanRejected
from mirror.model.plan import moves_between
from tests.builders import a_plan, a_task


def test_a_task_appears_once() -> None:
    with pytest.raises(PlanRejected, match="twice"):
        a_plan(a_task("g-0", ["t-0"]), a_task("g-0", ["t-1"]))


def test_a_partition_has_one_task_in_a_group_and_may_have_one_in_another() -> None:
    with pytest.raises(PlanRejected, match="two tasks"):
        a_plan(a_task("g-0", ["t-0"]), a_task("g-1", ["t-0"]))
    assert len(a_plan(a_task("g-0", ["t-0"]), a_task("h-0", ["t-0"])).owners) == 2


def test_moves_are_what_changes_task_or_instance() -> None:
    before = [a_task("g-0", ["t-0", "t-1", "t-2"], "one"), a_task("g-1", ["t-3"], "two")]
    after = [a_task("g-0", ["t-0", "t-9"], "one"), a_task("g-1", ["t-1", "t-3"], "one")]
    found = [
        (str(one.partition), one.from_task, one.to_task, one.from_instance, one.to_instance)
        for one in moves_between(before, after)
    ]
    assert found == [
        ("t-1", "g-0", "g-1", "one", "one"),
        ("t-2", "g-0", None, "one", None),
        ("t-3", "g-1", "g-1", "two", "one"),
        ("t-9", None, "g-0", None, "one"),
    ]


def test_the_order_of_tasks_is_no_move() -> None:
    one, two = a_task("g-0", ["t-0"]), a_task("g-1", ["t-1"])
    assert moves_between([one, two], [two, one]) == ()
