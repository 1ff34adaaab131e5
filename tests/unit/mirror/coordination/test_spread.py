"""Test the balancing of tasks over instances with examples small enough to check by hand."""

from __future__ import annotations

from collections import Counter

from mirror.coordination.task_balancer import TaskLoad, balance_tasks
from mirror.model.identifiers import InstanceName, TaskName
from tests.builders import an_instance

LIVE = [an_instance("one", 0), an_instance("two", 1)]


def task(name: str, load: float, home: str | None = None) -> TaskLoad:
    return TaskLoad(TaskName(name), load, InstanceName(home) if home else None)


def test_new_tasks_are_spread_by_load_the_heaviest_first() -> None:
    homes = balance_tasks([task("a", 9), task("b", 1), task("c", 8), task("d", 2)], LIVE)
    assert homes == {"a": "one", "c": "two", "d": "two", "b": "one"}


def test_the_tasks_of_one_that_left_go_where_there_is_room_and_nothing_else_moves() -> None:
    before = [task("a", 1, "one"), task("b", 1, "two"), task("c", 1, "gone"), task("d", 1, "gone")]
    assert balance_tasks(before, LIVE) == {"a": "one", "b": "two", "c": "one", "d": "two"}


def test_an_instance_that_comes_gets_its_share_in_the_lightest_tasks() -> None:
    before = [task("a", 5, "one"), task("b", 1, "one"), task("c", 7, "one"), task("d", 3, "one")]
    assert balance_tasks(before, LIVE) == {"a": "one", "c": "one", "b": "two", "d": "two"}


def test_one_task_too_many_is_no_reason_to_move() -> None:
    before = [task("a", 1, "one"), task("b", 1, "one"), task("c", 1, "two")]
    assert balance_tasks(before, LIVE) == {"a": "one", "b": "one", "c": "two"}


def test_weights_are_shares_of_the_tasks() -> None:
    live = [an_instance("big", 0, weight=3.0), an_instance("small", 1, weight=1.0)]
    homes = balance_tasks([task(f"t{n}", 1) for n in range(8)], live)
    assert Counter(homes.values()) == {"big": 6, "small": 2}


def test_nobody_here_means_nobody_runs_them() -> None:
    assert balance_tasks([task("a", 1, "one")], []) == {"a": None}


def test_an_instance_that_is_much_fuller_than_the_others_exchanges_tasks() -> None:
    before = [task("a", 9, "one"), task("b", 9, "one"), task("c", 1, "two"), task("d", 1, "two")]
    assert balance_tasks(before, LIVE) == {"a": "one", "b": "one", "c": "two", "d": "two"}
    assert balance_tasks(before, LIVE, 1.3) == {"b": "one", "c": "one", "a": "two", "d": "two"}


def test_a_small_imbalance_is_no_reason_to_move() -> None:
    before = [task("a", 6, "one"), task("b", 6, "one"), task("c", 5, "two"), task("d", 4, "two")]
    assert balance_tasks(before, LIVE, 1.3) == balance_tasks(before, LIVE)


def test_what_was_pinned_stays_where_it_is() -> None:
    pinned = [TaskLoad(TaskName(name), 1, InstanceName("one"), is_pinned=True) for name in "ab"]
    homes = balance_tasks([*pinned, task("c", 5, "one"), task("d", 5, "one")], LIVE)
    assert homes == {"a": "one", "b": "one", "c": "two", "d": "two"}


def test_instances_are_not_levelled_for_less_than_the_gain() -> None:
    before = [task("a", 9, "one"), task("b", 9, "one"), task("c", 1, "two"), task("d", 1, "two")]
    assert balance_tasks(before, LIVE, 1.3, least_gain=9) == balance_tasks(before, LIVE)
    assert balance_tasks(before, LIVE, 1.3, least_gain=7) == balance_tasks(before, LIVE, 1.3)
