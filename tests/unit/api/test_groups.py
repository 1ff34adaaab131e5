"""Test changes on /v1 to datastreams that share tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from httpx import Response

from mirror.model.datastreams.pauses import moment_text
from mirror.model.identifiers import DatastreamName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicDescription
from tests.fakes.site import Site, a_body

COPY: Final = {"cluster": "destination", "name": "copy.*"}
GROUP: Final = {"owner": "tests", "system.taskPrefix": "shared"}


@pytest.fixture
def group(site: Site) -> Site:
    """Return a site with a group of two datastreams: `a` has topic t and `b` topic u."""
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
    assert (lanes(group), started) == (["t-0", "t-1", "u-0", "u-1"], []), "each partition must be copied once"
    found = patch(group, "a", {"source": {"topics": "none"}}, dry_run="true").json()
    assert (found["starts"], found["stops"], found["moves"]) == ([], [], [])
    assert [one["partition"] for one in found["restarts"]] == ["t-0", "t-1"]
    assert all("consumer group" in one["reason"] for one in found["restarts"])
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
        assert refused.json()["kind"] == "InvalidRequest"
        assert {"3", "2"} <= set(refused.json()["detail"].split()), refused.json()["detail"]
    assert patch(group, "b", {"limits": {"max_tasks": 3}}).status_code == 200
    assert patch(group, "a", {"limits": {"min_tasks": 3}}).status_code == 200


def test_limits_that_contradict_each_other_already_hold_up_no_other_change(group: Site) -> None:
    """Concurrent changes to two definitions: each was validated against the previous version of the other."""
    patch(group, "a", {"limits": {"min_tasks": 3}})
    stored = group.definitions.get(group.stored("b").name)
    group.definitions.replace(stored, replace(stored.datastream, limits=TaskLimits(1, 2)))
    group.tick(4)
    assert lanes(group) == ["t-0", "t-1", "u-0", "u-1"]
    assert len(group.client.get("/v1/plan").json()["tasks"]) == 2, "the smaller maximum applies"
    for name in "ab":
        assert patch(group, name, {"metadata": {"note": "n"}}).status_code == 200
        assert patch(group, name, {"source": {"exclude": "x"}}).status_code == 200
    assert patch(group, "b", {"limits": {"max_partitions_per_task": 5}}).status_code == 400
    assert patch(group, "b", {"limits": {"max_tasks": 3}}).status_code == 200


def test_one_that_is_paused_or_deleted_leaves_the_others(group: Site) -> None:
    found = group.client.post("/v1/datastreams/a/pause", json={}, params={"dry_run": "true"}).json()
    assert [one["partition"] for one in found["stops"]] == ["t-0", "t-1"]
    assert (found["tasks_before"], found["tasks_after"]) == (1, 1)
    group.client.post("/v1/datastreams/a/pause", json={})
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
    """A member without `group.id` commits under its own name. The consumer group cannot be changed later."""
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
        assert "group.id mine" in answer.text
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
    """Otherwise an owner would decide about the records of other owners."""
    for query in ({"dry_run": "true"}, {}):
        refused = patch(group, "a", changes, **query)
        assert (refused.status_code, "group shared" in refused.json()["detail"]) == (400, True)
    assert group.stored("a").metadata["owner"] == "tests"
    assert group.stored("a").policy == group.stored("b").policy


def together(site: Site, **on_loss: str) -> Response:
    """Change `on_loss` of several members in one call."""
    entities = {name: site.client.get(f"/datastream/{name}").json() for name in on_loss}
    for name, value in on_loss.items():
        entities[name]["metadata"]["headrace.on-loss"] = value
    headers = {"X-RestLi-Protocol-Version": "2.0.0", "X-RestLi-Method": "batch_update"}
    path = f"/datastream?ids=List({','.join(on_loss)})"
    return site.client.put(path, json={"entities": entities}, headers=headers)


def test_members_change_together(group: Site) -> None:
    refused = together(group, a="continue", b="halt")
    assert (refused.status_code, "group shared" in refused.text) == (400, True)
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


def test_members_that_choose_a_strategy_choose_the_same(group: Site) -> None:
    """Otherwise each strategy would plan the tasks of all members."""
    simple, assigner = ({"placement": {"strategy": name}} for name in ("simple", "assigner"))
    assert patch(group, "b", simple).status_code == 200, "the other member has no preference"
    for query in ({"dry_run": "true"}, {}):
        refused = patch(group, "a", assigner, **query)
        assert (refused.status_code, "placement strategy" in refused.text) == (400, True)
    late = a_body("c", metadata=GROUP, source={"cluster": "source", "topics": "v"})
    refused = group.client.post("/v1/datastreams", json=late | assigner)
    assert (refused.status_code, "placement strategy" in refused.text) == (400, True)
    assert group.client.post("/v1/datastreams", json=late | simple).status_code == 201
    assert patch(group, "a", simple).status_code == 200
    for name in "abc":
        assert patch(group, name, {"placement": None}).status_code == 200
    assert patch(group, "a", assigner).status_code == 200


SHARED: Final = "/v1/groups/shared"


def statuses(site: Site) -> dict[str, str]:
    return {one["name"]: one["status"] for one in site.client.get(SHARED).json()["datastreams"]}


def test_all_that_share_tasks_are_paused_for_a_time_and_resumed(group: Site) -> None:
    before = group.client.get(SHARED)
    assert (before.json()["prefix"], statuses(group)) == ("shared", {"a": "READY", "b": "READY"})
    cause = {"reason": "tests", "requested_by": "me"}
    paused = group.client.post(f"{SHARED}/pause", json={**cause, "for_seconds": 90})
    assert paused.status_code == 200, paused.text
    until_ms = group.clock.now_ms() + 90_000
    halts = [one["halt"] for one in paused.json()["datastreams"]]
    assert halts == [{**cause, "since_ms": group.clock.now_ms(), "until_ms": until_ms}] * 2
    assert paused.headers["ETag"] == group.client.get(SHARED).headers["ETag"] != before.headers["ETag"]
    group.tick()
    assert not group.follower.workers.lanes
    told = [one["sentence"] for one in group.client.get("/v1/events").json() if one["kind"] == "command"]
    assert sum(one.startswith("me ") and moment_text(until_ms) in one for one in told) == 2
    assert group.client.post(f"{SHARED}/resume", json={}).status_code == 200
    group.tick()
    assert lanes(group) == ["t-0", "t-1", "u-0", "u-1"]
    group.client.post(f"{SHARED}/pause", json={"for_seconds": 5})
    group.clock.advance(6)
    group.tick()
    assert statuses(group) == {"a": "READY", "b": "READY"}, "the leader must resume all members"


def test_none_is_paused_where_one_cannot_be(group: Site) -> None:
    late = a_body("c", metadata=GROUP, source={"cluster": "source", "topics": "v"})
    group.client.post("/v1/datastreams", json=late)
    refused = group.client.post(f"{SHARED}/pause", json={})
    assert (refused.status_code, refused.json()["kind"]) == (409, "IllegalTransition")
    assert "datastream c is INITIALIZING" in refused.json()["detail"]
    assert statuses(group) == {"a": "READY", "b": "READY", "c": "INITIALIZING"}
    group.tick()
    assert group.client.post(f"{SHARED}/pause", json={}).status_code == 200
    assert set(statuses(group).values()) == {"PAUSED"}


def test_what_is_paused_stays_so_until_the_later_of_both_ends(group: Site) -> None:
    group.client.post("/v1/datastreams/a/pause", json={"reason": "first", "requested_by": "you"})
    group.client.post("/v1/datastreams/b/pause", json={"reason": "short", "for_seconds": 5})
    now_ms = group.clock.now_ms()
    body = {"reason": "tests", "requested_by": "me", "for_seconds": 60}
    first, second = group.client.post(f"{SHARED}/pause", json=body).json()["datastreams"]
    assert first["halt"] == {"reason": "first", "requested_by": "you", "since_ms": now_ms, "until_ms": None}
    assert (second["halt"]["reason"], second["halt"]["until_ms"]) == ("tests", now_ms + 60_000)
    again = group.client.post(f"{SHARED}/pause", json={"for_seconds": 30})
    assert (again.status_code, again.json()["kind"]) == (409, "IllegalTransition")
    lasting = group.client.post(f"{SHARED}/pause", json={}).json()["datastreams"]
    assert [one["halt"]["until_ms"] for one in lasting] == [None, None]


def test_what_is_stopped_stays_so_and_what_goes_is_no_member(group: Site) -> None:
    group.client.post("/v1/datastreams/a/stop", json={})
    group.tick()
    assert group.client.post(f"{SHARED}/resume", json={}).status_code == 409
    assert group.client.post(f"{SHARED}/pause", json={}).status_code == 200
    assert statuses(group) == {"a": "STOPPED", "b": "PAUSED"}
    assert group.client.post(f"{SHARED}/resume", json={}).status_code == 200
    assert statuses(group) == {"a": "STOPPED", "b": "READY"}
    group.client.delete("/v1/datastreams/b")
    assert statuses(group) == {"a": "STOPPED"}
    group.tick(4)
    group.client.delete("/v1/datastreams/a")
    for answer in (group.client.get(SHARED), group.client.post(f"{SHARED}/pause", json={})):
        assert (answer.status_code, answer.json()["kind"]) == (404, "NotFound")


def test_if_match_names_the_version_of_all(group: Site) -> None:
    read = group.client.get(SHARED).headers["ETag"]
    changes: list[Callable[[], Response]] = [
        lambda: patch(group, "b", {"metadata": {"note": "n"}}),
        lambda: group.client.delete("/v1/datastreams/b"),
    ]
    for change in changes:
        change()
        stale = group.client.post(f"{SHARED}/pause", json={}, headers={"If-Match": read})
        assert (stale.status_code, stale.json()["kind"]) == (412, "StaleVersion")
        read = group.client.get(SHARED).headers["ETag"]
    assert group.client.post(f"{SHARED}/pause", json={}, headers={"If-Match": read}).status_code == 200
    assert group.client.post(f"{SHARED}/resume", json={}, headers={"If-Match": "*"}).status_code == 200
    assert group.client.post(f"{SHARED}/pause", json={}, headers={"If-Match": "x"}).status_code == 400


@pytest.mark.parametrize("is_exact", [False, True])
@pytest.mark.parametrize("other", ["patch", "pause", "delete"])
def test_a_change_in_between_is_neither_lost_nor_unseen(group: Site, is_exact: bool, other: str) -> None:
    """Another client writes `a` after it was read and before all members are written."""
    neighbour = Site(group.server, "two")
    read = group.client.get(SHARED).headers["ETag"]
    acts = {
        "patch": lambda: patch(neighbour, "a", {"metadata": {"note": "n"}}),
        "pause": lambda: neighbour.client.post("/v1/datastreams/a/pause", json={"reason": "theirs"}),
        "delete": lambda: neighbour.client.delete("/v1/datastreams/a"),
    }

    def in_between(operation: Any) -> None:
        if operation.name == "change_together":
            group.session.script = lambda _: None
            assert acts[other]().is_success

    group.session.script = in_between
    answer = group.client.post(f"{SHARED}/pause", json={}, headers={"If-Match": read} if is_exact else {})
    if is_exact:
        assert answer.status_code == 412
        assert statuses(group)["b"] == "READY", "no member must be paused"
        return
    assert answer.status_code == 200
    found = {one["name"]: one for one in answer.json()["datastreams"]}
    assert found.keys() == ({"b"} if other == "delete" else {"a", "b"})
    assert {one["status"] for one in found.values()} == {"PAUSED"}
    if other == "patch":
        assert found["a"]["metadata"]["note"] == "n"
    if other == "pause":
        assert found["a"]["halt"]["reason"] == "theirs"


def test_a_dry_run_of_a_group_shows_every_member_and_writes_nothing(group: Site) -> None:
    before = group.server.dump()
    answer = group.client.post(f"{SHARED}/pause", json={}, params={"dry_run": "true"})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["name"] == "shared"
    assert [(one["field"], one["after"]) for one in found["changes"]] == [
        ("/a/status", "PAUSED"),
        ("/b/status", "PAUSED"),
    ]
    assert [one["partition"] for one in found["stops"]] == ["t-0", "t-1", "u-0", "u-1"]
    assert (found["tasks_before"], found["tasks_after"]) == (1, 1)
    assert group.server.dump() == before
    assert group.client.post(f"{SHARED}/resume", json={}, params={"dry_run": "true"}).status_code == 409


def test_only_a_pause_of_a_group_has_an_end(group: Site) -> None:
    answer = group.client.post(f"{SHARED}/resume", json={"for_seconds": 5})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/for_seconds")


def test_one_that_is_alone_is_a_group_by_its_name(site: Site) -> None:
    site.create()
    assert site.client.post("/v1/groups/orders/pause", json={}).json()["datastreams"][0]["status"] == "PAUSED"


def test_one_that_is_created_in_between_is_not_paused(group: Site) -> None:
    """Created between the read of the group and the transaction; the version does not cover new members."""
    late = a_body("c", metadata=GROUP, source={"cluster": "source", "topics": "v"})

    def in_between(operation: Any) -> None:
        if operation.name == "change_together":
            group.session.script = lambda _: None
            assert Site(group.server, "two").client.post("/v1/datastreams", json=late).status_code == 201

    group.session.script = in_between
    paused = group.client.post(f"{SHARED}/pause", json={})
    assert [one["name"] for one in paused.json()["datastreams"]] == ["a", "b"]
    assert statuses(group) == {"a": "PAUSED", "b": "PAUSED", "c": "INITIALIZING"}
    resumed = group.client.post(f"{SHARED}/resume", json={}, headers={"If-Match": paused.headers["ETag"]})
    assert (resumed.status_code, resumed.json()["kind"]) == (412, "StaleVersion"), "a member was added"


def test_what_cannot_be_read_of_a_group_keeps_it_as_it_is(group: Site) -> None:
    assert group.client.get(SHARED).is_success
    path = next(one for one in group.server.dump() if one.endswith("/b"))
    node = group.session.read(path)
    group.session.write(path, b"{", node.version)
    group.tick()
    refused = group.client.post(f"{SHARED}/pause", json={})
    assert (refused.status_code, refused.json()["kind"]) == (409, "DamagedState"), refused.text
    assert group.stored("a").status == "READY"


@pytest.mark.parametrize(
    "prefix",
    ["%2E%2E", "a%2Fb", "nobody", "n" * 5_000, "%00", "%0Ax", "%ff", "%F0%9F%92%A5", "shared%20", "%3Cb%3E"],
)
def test_a_hostile_prefix_is_a_group_that_is_not_there(group: Site, prefix: str) -> None:
    before = group.server.dump()
    for call in ("GET ", "POST /pause", "POST /resume", "POST /pause?dry_run=true"):
        method, action = call.split(" ")
        answer = group.client.request(method, f"/v1/groups/{prefix}{action}", json={})
        assert answer.status_code in {404, 405, 422}, answer.text
        assert len(answer.text) < 1_000
    assert group.server.dump() == before
