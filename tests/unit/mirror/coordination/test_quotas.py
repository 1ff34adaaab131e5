"""Test the division of a quota among the tasks of all instances."""

from __future__ import annotations

from mirror.coordination.reconcile import quotas_by_task
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.identifiers import GroupName
from tests.builders import a_datastream

ORDERS = a_datastream("orders")
LIMITED = a_datastream("orders", metadata={"headrace.bytes-per-second": "900"})


def test_every_task_gets_the_same_part() -> None:
    assert quotas_by_task({ORDERS.group: 3, GroupName("other"): 5}, [LIMITED]) == {ORDERS.group: 300.0}


def test_without_a_quota_nothing_is_limited() -> None:
    assert quotas_by_task({ORDERS.group: 3}, [ORDERS]) == {}


def test_datastreams_of_one_group_share_what_they_have_together() -> None:
    metadata = {"headrace.bytes-per-second": "300", TASK_PREFIX: LIMITED.group}
    twin = a_datastream("twin", metadata=metadata)
    assert twin.group == LIMITED.group
    assert quotas_by_task({ORDERS.group: 4}, [LIMITED, twin]) == {ORDERS.group: 300.0}


def test_a_datastream_that_is_not_planned_yet_has_no_parts() -> None:
    assert quotas_by_task({}, [LIMITED]) == {}
