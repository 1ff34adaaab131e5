"""Ceilings of the structure of lanes. Lower a number when it shrinks; never raise one."""

from __future__ import annotations

from typing import Final

from tests.lane_changes import booleans, chains, large_classes, modules_by_field, shared_fields

SHARED_FIELDS: Final = 0
"""Fields of a lane that several modules change. Target: 0."""
MOST_MODULES: Final = 1
"""Modules that change the same field. Target: 1."""
BOOLEANS: Final = 5
"""Booleans beside the states. Target: 5."""
CHAINS: Final = 0
"""Objects reached through another one. Target: 0."""
LARGE_CLASSES: Final = {
    "CopyingOptions": (1, 25),
    "LaneReport": (1, 23),
    "LeaderSettings": (5, 21),
}
"""Classes with more than 25 methods or 20 fields: none may be added, and none may grow."""


def test_no_more_fields_of_a_lane_are_changed_by_several_modules() -> None:
    assert len(shared_fields()) <= SHARED_FIELDS
    assert max(map(len, modules_by_field().values())) <= MOST_MODULES


def test_the_measure_follows_method_calls() -> None:
    """`DeadlineWatch` assigns no fetch size itself, but calls `LaneRead.limit`."""
    changed = modules_by_field()["FetchSize", "most"]
    assert changed == {"mirror/replication/quotas/deadline_watch.py"}


def test_only_the_runner_writes_what_the_lifecycle_decides() -> None:
    assert modules_by_field()["Lane", "lifecycle"] == {"mirror/replication/lane_runner.py"}


def test_a_lane_has_no_more_booleans() -> None:
    assert len(booleans()) <= BOOLEANS


def test_no_more_objects_are_reached_through_another() -> None:
    assert len(chains()) <= CHAINS


def test_no_class_becomes_too_large() -> None:
    found = large_classes()
    assert found.keys() <= LARGE_CLASSES.keys()
    grown = {name for name, size in found.items() if any(map(int.__gt__, size, LARGE_CLASSES[name]))}
    assert grown == set()
