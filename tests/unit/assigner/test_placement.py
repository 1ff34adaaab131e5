"""Placement of tasks on hosts in the what-if report."""

from __future__ import annotations

import random

import pytest

from assigner.what_if.hosts import Host, place_tasks
from mirror.errors import InvalidRequest

EQUAL = [Host("a"), Host("b")]


def test_tasks_go_heaviest_first_to_the_lightest_host() -> None:
    found = place_tasks({"t-0": 7, "t-1": 5, "t-2": 4, "t-3": 3}, EQUAL)
    assert found == {"a": ["t-0", "t-3"], "b": ["t-1", "t-2"]}


def test_weights_share_load_and_number() -> None:
    found = place_tasks({f"t-{number}": 1.0 for number in range(6)}, [Host("small", 1), Host("big", 2)])
    assert {host: len(tasks) for host, tasks in found.items()} == {"big": 4, "small": 2}


def test_silent_tasks_spread_by_number() -> None:
    found = place_tasks({f"t-{number}": 0.0 for number in range(5)}, EQUAL)
    assert sorted(len(tasks) for tasks in found.values()) == [2, 3]


def test_the_order_of_the_input_does_not_matter() -> None:
    loads = {f"t-{number}": random.Random(number).uniform(0, 9) for number in range(20)}
    hosts = [Host(f"h-{number}", number + 1) for number in range(4)]
    shuffled = dict(random.Random(1).sample(list(loads.items()), len(loads)))
    assert place_tasks(loads, hosts) == place_tasks(shuffled, hosts[::-1])


@pytest.mark.parametrize(
    ("hosts", "culprit"),
    [
        ([], "at least one host"),
        ([Host("a"), Host("a")], "host a "),
        ([Host("a", 0)], "weight .*'a' .*0"),
        ([Host("a", float("nan"))], "weight .*'a' .*nan"),
        ([Host("")], "weight .*''"),
    ],
)
def test_impossible_hosts_are_named(hosts: list[Host], culprit: str) -> None:
    with pytest.raises(InvalidRequest, match=culprit):
        place_tasks({"t-0": 1.0}, hosts)
