"""Test the placement of tasks: instances that stay, leave or return, and requested moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import MoveRequest
from mirror.coordination.task_placement import (
    TaskContent,
    TaskPlacementRules,
    departures,
    move_to_host,
    place_tasks,
    staying,
)
from mirror.errors import InvalidRequest
from mirror.model.identifiers import GroupName, InstanceName, TaskName
from mirror.model.plan import Departure, Plan
from tests.builders import a_plan, a_task, an_instance, partitions

ONE, TWO = an_instance("one", 0), an_instance("two", 1)
GONE = InstanceName("gone")
RULES = TaskPlacementRules(return_delay_ms=1000)
PLAN = a_plan(
    a_task("g-0", ["t-0"], "one"),
    a_task("g-1", ["t-1"], "gone"),
    a_task("g-2", ["t-2"], "two"),
    a_task("g-3", ["t-3"], "gone"),
)


def contents(plan: Plan) -> dict[TaskName, TaskContent]:
    return {one.task: TaskContent(one.group, one.partitions, 1.0, one.instance) for one in plan.tasks}


def next_plan(plan: Plan, *live: LiveInstance, now_ms: int = 0, rules: TaskPlacementRules = RULES) -> Plan:
    tasks = place_tasks(contents(plan), plan, live, rules, now_ms)
    return replace(plan, tasks=tasks, departed=departures(plan, live, rules, now_ms))


def homes(plan: Plan) -> dict[str, str | None]:
    return {one.task: one.instance for one in plan.tasks}


def test_what_ran_on_an_instance_that_left_is_remembered() -> None:
    after = next_plan(PLAN, ONE, TWO, now_ms=50)
    assert set(homes(after).values()) == {"one", "two"}
    assert after.departed == {
        GONE: Departure(50, frozenset({TaskName("g-1"), TaskName("g-3")}), is_lost=True)
    }


def test_one_that_returns_soon_enough_gets_it_back() -> None:
    back = an_instance("gone", 7)
    away = next_plan(PLAN, ONE, TWO, now_ms=50)
    returned = next_plan(away, ONE, TWO, back, now_ms=1050)
    assert homes(returned) == homes(PLAN)
    assert returned.departed == {}


def test_one_that_returns_too_late_gets_its_share_like_anybody() -> None:
    away = next_plan(PLAN, ONE, TWO, now_ms=50)
    late = next_plan(away, ONE, TWO, an_instance("gone", 7), now_ms=1051)
    assert sum(home == "gone" for home in homes(late).values()) == 1
    assert late.departed == {}


def test_one_that_is_back_only_to_go_again_is_still_remembered_for_all_it_had() -> None:
    away = next_plan(PLAN, ONE, TWO, now_ms=50)
    assert next_plan(away, ONE, TWO, now_ms=300).departed == away.departed
    assert next_plan(away, ONE, TWO, now_ms=1051).departed == {}


def test_the_tasks_of_one_that_wants_to_go_move_while_it_is_here() -> None:
    leaving = replace(an_instance("gone", 2), is_leaving=True)
    after = next_plan(PLAN, ONE, TWO, leaving, now_ms=9)
    assert set(homes(after).values()) == {"one", "two"}
    assert (after.departed[GONE].left_ms, after.departed[GONE].is_lost) == (9, False)
    assert homes(next_plan(after, ONE, TWO, leaving, now_ms=10)) == homes(after)


def test_when_everybody_wants_to_go_nothing_moves() -> None:
    live = tuple(replace(one, is_leaving=True) for one in (ONE, TWO, an_instance("gone", 2)))
    assert staying(live) == live
    assert homes(next_plan(PLAN, *live)) == homes(PLAN)


def moved(*names: str, to: str) -> dict[TaskName, TaskContent]:
    request = MoveRequest(GroupName("g"), partitions(*names), to, "me", 1)
    return move_to_host(contents(PLAN), request, (ONE, TWO))


def test_partitions_go_to_the_task_of_the_group_that_runs_there() -> None:
    found = moved("t-1", "t-3", "t-9", to="two")
    assert {name: one.partitions for name, one in found.items()} == {
        "g-0": partitions("t-0"),
        "g-2": partitions("t-1", "t-2", "t-3"),
    }
    assert found[TaskName("g-2")].is_pinned


def test_where_no_task_of_the_group_runs_there_will_be_one() -> None:
    request = MoveRequest(GroupName("g"), partitions("t-0"), "host-of-three", "me", 1)
    three = replace(an_instance("three", 5), host="host-of-three")
    found = move_to_host(contents(PLAN), request, (ONE, TWO, three))
    new = found[TaskName("g-4")]
    assert (new.partitions, new.instance, new.is_pinned) == (partitions("t-0"), "three", True)
    assert TaskName("g-0") not in found
    assert homes(replace(PLAN, tasks=place_tasks(found, PLAN, (ONE, TWO, three), RULES, 0)))["g-4"] == "three"


def test_what_is_there_already_or_not_mirrored_moves_nothing() -> None:
    assert moved("t-0", "u-1", to="one") == contents(PLAN)


def test_nothing_moves_to_one_that_is_not_here() -> None:
    with pytest.raises(InvalidRequest, match=r"\bgone\b"):
        moved("t-0", to="gone")
