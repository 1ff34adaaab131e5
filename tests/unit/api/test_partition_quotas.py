"""Test partition quotas: requests that exceed a quota are rejected; partitions that appear later wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.errors import Unreachable
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.settings import DefinitionSettings
from tests.fakes.site import Site, a_body

RULES = DefinitionSettings.model_validate({"quotas": {"few": {"partitions": 5}}})


@pytest.fixture
def site() -> Site:
    """Return a site with topics `t` of two partitions, `u` of four and `v` of three."""
    site = Site(rules=RULES)
    for name, count in (("u", 4), ("v", 3)):
        site.source.topics[name] = TopicDescription(name, count)
    return site


def body(name: str, topics: str, owner: str = "few") -> dict[str, Any]:
    return a_body(
        name,
        source={"cluster": "source", "topics": topics},
        destination={"cluster": "destination", "name": f"{name}.*"},
        metadata={"owner": owner},
    )


def back(name: str, topics: str, owner: str) -> dict[str, Any]:
    """Return a datastream in the opposite direction."""
    ends = {"source": {"cluster": "destination", "topics": topics}, "destination": {"cluster": "source"}}
    return {**body(name, topics, owner), **ends}


def create(site: Site, name: str, topics: str) -> None:
    assert site.client.post("/v1/datastreams", json=body(name, topics)).status_code == 201
    site.tick()


def copied(site: Site) -> dict[str, int]:
    """Return the number of planned partitions by topic."""
    planned: dict[str, int] = {}
    for task in site.services.plan().tasks:
        for one in task.partitions:
            planned[one.topic] = planned.get(one.topic, 0) + 1
    return planned


def problem(site: Site, name: str) -> str:
    found = site.client.get(f"/v1/datastreams/{name}").json()["problem"]
    return found["reason"] if found else ""


def grow(site: Site, topic: str, count: int) -> None:
    site.source.grow(topic, count)
    site.tick(3)


def test_a_creation_beyond_the_quota_is_refused_with_the_count_and_so_is_its_dry_run(site: Site) -> None:
    create(site, "one", "t")
    for path in ("/v1/datastreams?dry_run=true", "/v1/datastreams"):
        refused = site.client.post(path, json=body("two", "u"))
        assert (refused.status_code, refused.json()["kind"]) == (403, "QuotaExceeded")
        assert "5 partitions" in refused.text
    assert site.client.post("/v1/datastreams", json=body("two", "v")).status_code == 201
    assert site.client.post("/v1/datastreams", json=body("three", "u", "other")).status_code == 201
    site.tick()
    assert copied(site) == {"t": 2, "v": 3, "u": 4}


def test_a_change_may_not_select_more_than_the_quota(site: Site) -> None:
    create(site, "one", "t")
    path, headers = "/v1/datastreams/one", {"If-Match": "*"}
    refused = site.client.patch(path, json={"source": {"topics": "t|u"}}, headers=headers)
    assert (refused.status_code, refused.json()["kind"]) == (403, "QuotaExceeded")
    assert site.client.patch(path, json={"source": {"topics": "t|v"}}, headers=headers).is_success
    assert site.client.patch(path, json={"metadata": {"note": "x"}}, headers=headers).is_success


def test_what_grows_beyond_the_quota_waits_and_says_so_and_the_rest_goes_on(site: Site) -> None:
    create(site, "one", "t|w")
    grow(site, "t", 5)
    assert copied(site) == {"t": 5}
    assert "'w'" in problem(site, "one")
    grow(site, "t", 7)
    assert copied(site) == {"t": 5}
    assert "2 partitions" in problem(site, "one")
    assert site.destination.topics["one.t"].partitions == 5  # no growth for waiting partitions
    site.source.topics["w"] = TopicDescription("w", 1)
    site.tick(3)
    assert copied(site) == {"t": 5}
    assert "w: 1 partition waits" in problem(site, "one")
    assert "one.w" not in site.destination.topics
    uncopied = {one.what.partition for one in site.leader.leader.state.uncopied}
    assert uncopied == {TopicPartition("w", 0), TopicPartition("t", 5), TopicPartition("t", 6)}
    events = site.client.get("/v1/events").json()
    assert any("partitions wait" in str(one) for one in events)
    changed = site.client.patch(
        "/v1/datastreams/one", json={"source": {"topics": "w"}}, headers={"If-Match": "*"}
    )
    assert changed.is_success
    site.tick(3)
    assert copied(site) == {"w": 1}
    assert problem(site, "one") == ""


def test_of_two_creations_at_one_moment_the_later_one_waits(site: Site) -> None:
    """Each was admitted before the other was visible, as if on two instances at the same time."""
    for name in ("one", "two"):
        assert site.client.post("/v1/datastreams", json=body(name, "v", "other")).status_code == 201
        site.clock.advance(1)
    for name in ("one", "two"):
        stored = site.definitions.get(DatastreamName(name))
        metadata = {**stored.datastream.metadata, "owner": "few"}
        site.definitions.replace(stored, replace(stored.datastream, metadata=metadata))
    site.tick(3)
    assert problem(site, "one") == ""
    assert "v: 3 partitions wait" in problem(site, "two")
    assert set(site.destination.topics) == {"one.v"}
    site.client.delete("/v1/datastreams/one", headers={"If-Match": "*"})
    site.tick(4)
    assert problem(site, "two") == ""
    assert set(site.destination.topics) == {"one.v", "two.v"}


def test_a_source_that_does_not_answer_lets_nothing_pass_in_silence(site: Site) -> None:
    site.source.failure = Unreachable("away")
    assert site.client.post("/v1/datastreams", json=body("two", "t|u")).status_code == 201
    site.tick()
    site.source.failure = None
    site.tick(3)
    assert copied(site) == {"t": 2}
    assert "u: 4 partitions wait" in problem(site, "two")
    assert "4 partitions wait" in site.client.get("/v1/health").text


def test_what_is_copied_from_a_source_that_is_away_still_counts(site: Site) -> None:
    create(site, "one", "v")
    site.destination.topics["w"] = TopicDescription("w", 3)
    assert site.client.post("/v1/datastreams", json=back("two", "w", "other")).status_code == 201
    stored = site.definitions.get(DatastreamName("two"))
    metadata = {**stored.datastream.metadata, "owner": "few"}
    site.definitions.replace(stored, replace(stored.datastream, metadata=metadata))
    site.source.failure = Unreachable("away")
    site.tick(3)
    verdict = site.leader.watch.check(site.definitions.all().datastreams, site.services.plan())
    assert {name: set(topics) for name, topics in verdict.waiting.items()} == {"two": {"w"}}
