"""Datastreams that share tasks, changed one by one on /v1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from httpx import Response

from mirror.model.identifiers import DatastreamName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicDescription
from tests.fakes.site import Site, a_body

COPY: Final = {"cluster": "destination", "name": "copy.*"}
GROUP: Final = {"owner": "tests", "system.taskPrefix": "shared"}


@pytest.fixture
def group(site: Site) -> Site:
    """`a` has topic t and `b` topic u."""
    site.source.create(TopicDescription("u", 2))
    site.create("a", metadata=GROUP)
    site.create("b", metadata=GROUP, source={"cluster": "source", "topics": "u"})
    assert lanes(site) == ["t-0", "t-1", "u-0", "u-1"]
    return site


def lanes(site: Site) -> list[str]:
    found = site.follower.workers.lanes
    assert {key.group for key in found} == {"shared"}
    return sorted(str(key.partition) for key in found)


def patch(site: Site, name: str, changes: Any, **query: str) -> Response:
    path = f"/v1/datastreams/{name}"
    return site.client.patch(path, json=changes, headers={"If-Match": "*"}, params=query)


def test_a_topic_goes_from_one_to_the_other_without_a_gap(group: Site) -> None:
    started: list[str] = []
    group.follower.workers.before_start = lambda specs, _: started.extend(
        str(one.key.partition) for one in specs
    )
    assert patch(group, "b", {"source": {"topics": "u|t"}}).status_code == 200
    group.tick()
    assert (lanes(group), started) == (["t-0", "t-1", "u-0", "u-1"], []), "each is copied once"
    found = patch(group, "a", {"source": {"topics": "none"}}, dry_run="true").json()
    assert (found["starts"], found["stops"], found["moves"]) == ([], [], [])
    assert [one["partition"] for one in found["restarts"]] == ["t-0", "t-1"]
    assert {one["reason"] for one in found["restarts"]} == {"consumer group: decided when a lane begins"}
    assert patch(group, "a", {"source": {"topics": "none"}}).status_code == 200
    group.tick(4)
    assert (lanes(group), started) == (["t-0", "t-1", "u-0", "u-1"], ["t-0", "t-1"])
    problems = [one["problem"] for one in group.client.get("/v1/datastreams").json()]
    assert not any(one is not None and one["sets_aside"] for one in problems)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"metadata": {"system.taskPrefix": None}}, "/metadata/system.taskPrefix"),
        ({"metadata": {"system.taskPrefix": "another"}}, "/metadata/system.taskPrefix"),
        ({"destination": {"name": "copy.*"}}, "/destination/name"),
        ({"source": {"cluster": "destination"}}, "/source/cluster"),
    ],
    ids=str,
)
def test_what_a_group_shares_cannot_change(group: Site, changes: Any, pointer: str) -> None:
    answer = patch(group, "a", changes)
    assert (answer.status_code, [one["pointer"] for one in answer.json()["errors"]]) == (422, [pointer])


def test_limits_that_contradict_each_other_are_refused_until_there_is_room(group: Site) -> None:
    assert patch(group, "b", {"limits": {"max_tasks": 2}}).status_code == 200
    for query in ({}, {"dry_run": "true"}):
        refused = patch(group, "a", {"limits": {"min_tasks": 3}}, **query)
        assert refused.status_code == 400
        assert "at least 3 and at most 2" in refused.json()["detail"]
    assert patch(group, "b", {"limits": {"max_tasks": 3}}).status_code == 200
    assert patch(group, "a", {"limits": {"min_tasks": 3}}).status_code == 200


def test_limits_that_contradict_each_other_already_hold_up_no_other_change(group: Site) -> None:
    """Two changes at the same moment are two definitions: each was checked beside what the other was."""
    patch(group, "a", {"limits": {"min_tasks": 3}})
    stored = group.definitions.get(group.stored("b").name)
    group.definitions.replace(stored, replace(stored.datastream, limits=TaskLimits(1, 2)))
    group.tick(4)
    assert lanes(group) == ["t-0", "t-1", "u-0", "u-1"]
    assert len(group.client.get("/v1/plan").json()["tasks"]) == 2, "the smaller maximum counts"
    for name in "ab":
        assert patch(group, name, {"metadata": {"note": "n"}}).status_code == 200
        assert patch(group, name, {"source": {"exclude": "x"}}).status_code == 200
    assert patch(group, "b", {"limits": {"max_partitions_per_task": 5}}).status_code == 400
    assert patch(group, "b", {"limits": {"max_tasks": 3}}).status_code == 200


def test_one_that_is_paused_or_deleted_leaves_the_others(group: Site) -> None:
    found = group.client.post("/v1/datastreams/a/pause", params={"dry_run": "true"}).json()
    assert [one["partition"] for one in found["stops"]] == ["t-0", "t-1"]
    assert (found["tasks_before"], found["tasks_after"]) == (1, 1)
    group.client.post("/v1/datastreams/a/pause")
    group.tick()
    assert lanes(group) == ["u-0", "u-1"]
    patch(group, "b", {"source": {"topics": "u|t"}})
    group.tick()
    deleted = group.client.delete("/v1/datastreams/a", params={"dry_run": "true"}).json()
    assert (deleted["starts"], deleted["stops"]) == ([], [])
    group.client.delete("/v1/datastreams/a")
    group.tick(4)
    assert lanes(group) == ["t-0", "t-1", "u-0", "u-1"]


def test_members_give_one_consumer_group(site: Site) -> None:
    """One that gives none commits to its own name; none can change it."""
    site.create("a", metadata={**GROUP, "group.id": "mine"})
    document = {
        "name": "b",
        "connectorName": "headrace",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": "kafka://source-host:9092/u"},
        "metadata": {**GROUP, "system.reuseExistingDestination": "false", "group.id": "other"},
    }
    over_brooklin = site.client.post("/datastream", json=document)
    body = a_body("b", metadata={**GROUP, "group.id": "other"}, source={"cluster": "source", "topics": "u"})
    for answer in (over_brooklin, site.client.post("/v1/datastreams", json=body)):
        assert answer.status_code == 400
        assert "a commits its positions to group.id mine, not to other" in answer.text
    body["metadata"]["group.id"] = "mine"
    assert site.client.post("/v1/datastreams", json=body).status_code == 201
    other = a_body("c", metadata=GROUP, source={"cluster": "source", "topics": "v"})
    assert site.client.post("/v1/datastreams", json=other).status_code == 201
    alone = a_body("d", metadata={"owner": "tests", "group.id": "other"}, destination=COPY)
    assert site.client.post("/v1/datastreams", json=alone).status_code == 201
    assert patch(site, "b", {"metadata": {"group.id": "other"}}).status_code == 422


CHANGES: Final = [
    {"owner": "others"},
    {"guarantee": "at-least-once"},
    {"policies": {"on_loss": "continue"}},
    {"quota": {"bytes_per_second": 5}},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_member_becomes_no_other_than_its_mates(group: Site, changes: Any) -> None:
    """Or its owner would have said what becomes of the records of others, whom joining must not surprise."""
    for query in ({"dry_run": "true"}, {}):
        refused = patch(group, "a", changes, **query)
        assert (refused.status_code, "are alike" in refused.json()["detail"]) == (400, True)
    assert group.stored("a").metadata["owner"] == "tests"
    assert group.stored("a").policy == group.stored("b").policy


def together(site: Site, **on_loss: str) -> Response:
    """Change that of several members in one call."""
    entities = {name: site.client.get(f"/datastream/{name}").json() for name in on_loss}
    for name, value in on_loss.items():
        entities[name]["metadata"]["headrace.on-loss"] = value
    headers = {"X-RestLi-Protocol-Version": "2.0.0", "X-RestLi-Method": "batch_update"}
    path = f"/datastream?ids=List({','.join(on_loss)})"
    return site.client.put(path, json={"entities": entities}, headers=headers)


def test_members_change_together(group: Site) -> None:
    refused = together(group, a="continue", b="halt")
    assert (refused.status_code, "are alike" in refused.text) == (400, True)
    assert together(group, a="continue", b="continue").status_code == 200
    assert [group.stored(name).policy.on_loss.value for name in "ab"] == ["continue"] * 2


def test_members_that_differ_already_change_in_other_things_and_become_alike(group: Site) -> None:
    stored = group.definitions.get(DatastreamName("b"))
    metadata = {**stored.datastream.metadata, "owner": "others"}
    group.definitions.replace(stored, replace(stored.datastream, metadata=metadata))
    group.tick()
    for name in "ab":
        assert patch(group, name, {"metadata": {"note": "n"}}).status_code == 200
        assert patch(group, name, {"quota": {"bytes_per_second": 5}}).status_code == 400
    assert patch(group, "b", {"owner": "tests"}).status_code == 200
    assert patch(group, "b", {"owner": "others"}).status_code == 400
