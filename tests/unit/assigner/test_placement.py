"""Tasks over hosts."""

from __future__ import annotations

import random

import pytest

from assigner.placement import Host, place_tasks
from mirror.errors import InvalidRequest

EQUAL = [Host("a"), Host("b")]


def test_tasks_go_heaviest_first_to_the_lightest_host() -> None:
    plan = place_tasks({"t-0": 7, "t-1": 5, "t-2": 4, "t-3": 3}, EQUAL)
    assert plan.host_of == {"t-0": "a", "t-1": "b", "t-2": "b", "t-3": "a"}
    assert plan.shares == {"a": 10, "b": 9}
    assert plan.level == 9.5


def test_weights_share_load_and_number() -> None:
    plan = place_tasks({f"t-{number}": 1.0 for number in range(6)}, [Host("big", 2), Host("small", 1)])
    assert sum(host == "big" for host in plan.host_of.values()) == 4
    assert plan.shares == {"big": 2, "small": 2}


def test_silent_tasks_spread_by_number() -> None:
    plan = place_tasks({f"t-{number}": 0.0 for number in range(5)}, EQUAL)
    assert sorted(list(plan.host_of.values()).count(host) for host in "ab") == [2, 3]


def test_tasks_stay_where_they_are() -> None:
    loads = {"t-0": 5.0, "t-1": 5.0, "t-2": 1.0}
    current = {"t-0": "b", "t-1": "a", "t-2": "b"}
    plan = place_tasks(loads, EQUAL, current, tolerance=0.2)
    assert plan.host_of == current
    assert plan.moved == ()


def test_the_tasks_of_a_lost_host_move_and_no_others() -> None:
    loads = {"t-0": 5.0, "t-1": 4.0, "t-2": 3.0, "t-3": 2.0}
    current = {"t-0": "a", "t-1": "b", "t-2": "gone", "t-3": "gone"}
    plan = place_tasks(loads, EQUAL, current)
    assert plan.moved == ("t-2", "t-3")
    assert plan.shares == {"a": 7, "b": 7}


def test_a_new_host_gets_its_share() -> None:
    loads = {f"t-{number}": 1.0 for number in range(4)}
    plan = place_tasks(loads, EQUAL, dict.fromkeys(loads, "a"))
    assert plan.shares == {"a": 2, "b": 2}
    assert len(plan.moved) == 2


def test_a_swap_levels_where_no_move_does() -> None:
    loads = {"t-0": 9.0, "t-1": 8.0, "t-2": 2.0, "t-3": 1.0}
    plan = place_tasks(loads, EQUAL, {"t-0": "a", "t-1": "a", "t-2": "b", "t-3": "b"})
    assert plan.shares == {"a": 10, "b": 10}
    assert len(plan.moved) == 2


def test_the_order_of_tasks_and_hosts_does_not_matter() -> None:
    seeded = random.Random(4)
    loads = {f"t-{number}": seeded.uniform(0, 9) for number in range(40)}
    hosts = [Host(f"h{number}", 1 + number % 3) for number in range(7)]
    items, others = list(loads.items()), list(hosts)
    seeded.shuffle(items)
    seeded.shuffle(others)
    assert place_tasks(loads, hosts) == place_tasks(dict(items), others)


@pytest.mark.parametrize(
    ("loads", "hosts", "culprit"),
    [
        ({"t-0": 1.0}, [], "no host"),
        ({"t-0": 1.0}, [Host("a"), Host("a")], "a appears twice"),
        ({"t-0": 1.0}, [Host("a", 0)], "weight of host 'a'"),
        ({"t-0": 1.0}, [Host("a", float("nan"))], "weight of host 'a'"),
        ({"t-0": -1.0}, EQUAL, "task t-0"),
    ],
)
def test_bad_input_is_named(loads: dict[str, float], hosts: list[Host], culprit: str) -> None:
    with pytest.raises(InvalidRequest, match=culprit):
        place_tasks(loads, hosts)
