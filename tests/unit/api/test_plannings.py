"""Test that every response about a datastream contains the same findings of the planner."""

from __future__ import annotations

from typing import Any

import pytest

from assigner.planner import LoadPlanner
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.model.identifiers import InstanceName
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE
from tests.fakes.site import Site

PATH = "/v1/datastreams/orders"
T0, T1 = (TopicPartition("t", number) for number in range(2))


@pytest.fixture
def site() -> Site:
    """Return a leader that has planned two partitions: one is too heavy for any task, one has no task."""
    one = Site(planner=LoadPlanner())
    measured = InstanceMeasurements({SOURCE: {T0: (500.0, 1.0), T1: (10.0, 1.0)}})
    MeasuredLoads(one.session).publish(InstanceName("m"), measured, one.clock.now_ms())
    one.create(limits={"max_tasks": 1, "max_partitions_per_task": 1})
    one.tick()
    return one


def answers(site: Site) -> list[Any]:
    """Return the datastream at one moment from every endpoint that shows it."""
    client = site.client
    (listed,) = client.get("/v1/datastreams").json()
    (of_group,) = client.get("/v1/groups/orders").json()["datastreams"]
    version = {"If-Match": client.get(PATH).headers["ETag"]}
    patched = client.patch(PATH, json={"metadata": {"some.key": "x"}}, headers=version).json()
    got = client.get(PATH).json()
    version = {"If-Match": client.get(PATH).headers["ETag"]}
    put = client.put(PATH, json=got, headers=version).json()
    return [listed, of_group, patched, got, put]


def test_every_answer_has_the_planners_own_words(site: Site) -> None:
    found = [one["planning"] for one in answers(site)]
    assert found[0] is not None
    assert [one == found[0] for one in found] == [True] * len(found)
    planning = found[0]
    assert (planning["tasks"], planning["offending"], planning["unplaced"]) == (1, 1, 1)
    assert planning["offending_partitions"] == ["t-0"]
    assert planning["unplaced_partitions"] == ["t-1"]
    assert planning["overloaded"] == 1
    assert any("without a task" in one for one in planning["reasons"])
    (of_plan,) = site.client.get("/v1/plan").json()["groups"]
    assert of_plan == {**planning, "datastream": "orders"}


def test_what_is_not_planned_has_none(site: Site) -> None:
    fresh = Site()
    body = {**site.client.get(PATH).json(), "start": "earliest"}
    known = {key: body[key] for key in ("name", "owner", "source", "destination", "metadata")}
    known["metadata"] = {}
    created = fresh.client.post("/v1/datastreams", json=known).json()
    assert created["planning"] is None
    assert fresh.client.get(PATH).json()["planning"] is None


def test_a_planning_that_is_sent_back_is_not_looked_at(site: Site) -> None:
    got = site.client.get(PATH)
    document = {**got.json(), "planning": {"tasks": -1}}
    answer = site.client.put(PATH, json=document, headers={"If-Match": got.headers["ETag"]})
    assert answer.status_code == 200
    assert answer.json()["planning"] == got.json()["planning"]
