"""Test that the cluster id reported at an address grants no rights to owners of datastreams that name it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from httpx import Response

from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.errors import Unreachable
from mirror.model.datastreams.policy import ADOPT_EXISTING
from mirror.model.identifiers import ClusterRef
from mirror.settings import DefinitionSettings, KafkaCluster
from tests.fakes.site import ADDRESSES, a_body
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.unit.api.guarded import Guarded

PATH: Final = "/v1/datastreams"
PROXY: Final = ClusterRef("proxy.example.com:9092")
FREE: Final = ClusterRef("free.example.com:9092")
ENDS: Final = pytest.mark.parametrize("end", ["source", "destination"])


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    """Return a site whose owner may not read or write the aliases, but has a cluster and a proxy."""
    some = ["a*", "p*"]
    rights = {
        alias: KafkaCluster(bootstrap_servers=address, readers=some, writers=some, adopters=[])
        for alias, address in ADDRESSES.items()
    }
    rules = DefinitionSettings(addresses=["*.example.com:9092"])
    found = Guarded(tmp_path, rights, rules)
    for address, topics in ((PROXY, {"x": 1}), (FREE, {"x": 1})):
        found.site.clusters[address] = FakeTopicAdmin(**topics)
    return found


def create(guarded: Guarded, end: str, role: str = "owner") -> Response:
    """Create a datastream with the proxy at one end."""
    ends = {"source": FREE, "destination": FREE, end: PROXY}
    source, destination = {"cluster": ends["source"], "topics": "x"}, {"cluster": ends["destination"]}
    body = a_body("sly", source=source, destination=destination, metadata={"owner": "mine"})
    answer: Response = guarded.as_(role).post(PATH, json=body)
    return answer


def impersonate(guarded: Guarded, alias: str) -> None:
    """Make the proxy forward everything to the cluster of an alias."""
    guarded.site.clusters[PROXY] = guarded.site.clusters[ClusterRef(alias)]


def restart(guarded: Guarded, role: str = "owner") -> Response:
    body = {"start": "earliest", "allow_duplicates": True}
    answer: Response = guarded.as_(role).post(f"{PATH}/sly/restart-from", json=body)
    return answer


def problem(guarded: Guarded) -> str:
    found = guarded.admin.get(f"{PATH}/sly").json()["problem"]
    return str(found["reason"]) if found else ""


@ENDS
def test_who_lies_once_is_held_to_it(guarded: Guarded, end: str) -> None:
    """The id recorded at creation applies even if the leader reads the cluster for the first time later."""
    lie = guarded.site.clusters[PROXY].identity
    assert create(guarded, end).status_code == 201
    impersonate(guarded, end)
    guarded.site.clusters[ClusterRef("source")].topics |= FakeTopicAdmin(x=1).topics
    before = dict(guarded.site.clusters[PROXY].topics)
    guarded.site.tick(3)
    assert lie in problem(guarded)
    assert guarded.site.clusters[PROXY].topics == before
    lanes = [one.spec for key, one in guarded.site.follower.workers.lanes.items() if key.group == "sly"]
    assert {getattr(one, f"{end}_id") for one in lanes} <= {lie}


@ENDS
def test_a_cluster_without_an_id_may_be_any(guarded: Guarded, end: str) -> None:
    guarded.site.clusters[PROXY].identity = ""
    refused = create(guarded, end)
    assert (refused.status_code, refused.json()["kind"]) == (400, "InvalidRequest")
    assert [one["pointer"] for one in refused.json()["errors"]] == [f"/{end}/cluster"] * 2


@ENDS
def test_an_alias_that_was_rebuilt_a_moment_ago_is_known_by_its_new_id(guarded: Guarded, end: str) -> None:
    guarded.site.tick()
    guarded.site.clusters[ClusterRef(end)].identity = "rebuilt"
    impersonate(guarded, end)
    assert create(guarded, end).status_code == 400


@ENDS
def test_a_restart_accepts_no_cluster_that_its_caller_has_no_right_to(guarded: Guarded, end: str) -> None:
    bound = BoundClusters(guarded.site.session)
    lie = guarded.site.clusters[PROXY].identity
    assert create(guarded, end).status_code == 201
    guarded.site.tick()
    impersonate(guarded, end)
    refused = restart(guarded)
    assert (refused.status_code, refused.json()["kind"]) == (400, "InvalidRequest")
    assert bound.get(PROXY) == lie
    guarded.site.clusters[PROXY] = FakeTopicAdmin(x=1)
    assert restart(guarded).status_code == 200
    assert bound.get(PROXY) == guarded.site.clusters[PROXY].identity
    guarded.site.tick(3)
    assert problem(guarded) == ""


def test_a_restart_takes_no_datastream_of_another_owner_along(guarded: Guarded) -> None:
    assert create(guarded, "source").status_code == 201
    source, destination = {"cluster": PROXY, "topics": "x"}, {"cluster": FREE, "name": "theirs.*"}
    theirs = a_body("other", source=source, destination=destination, metadata={"owner": "theirs"})
    assert guarded.admin.post(PATH, json=theirs).status_code == 201
    impersonate(guarded, "source")
    refused = restart(guarded, "admin")
    assert (refused.status_code, refused.json()["kind"]) == (409, "IllegalTransition")


def test_a_restart_goes_on_where_the_source_is_away(guarded: Guarded) -> None:
    assert create(guarded, "source").status_code == 201
    guarded.site.tick()
    guarded.site.clusters[PROXY].failure = Unreachable("gone fishing")
    assert restart(guarded).status_code == 200


def test_topics_are_not_adopted_by_another_name_of_their_cluster(guarded: Guarded) -> None:
    """A principal that may write to the alias but not adopt its topics names its address instead."""
    guarded.site.clusters[PROXY] = guarded.site.destination
    guarded.site.destination.topics |= FakeTopicAdmin(x=1).topics
    assert create(guarded, "destination", "operator").status_code == 201
    guarded.site.tick(3)
    assert ADOPT_EXISTING in problem(guarded)
    assert not [key for key in guarded.site.follower.workers.lanes if key.group == "sly"]


def test_a_stored_address_that_is_no_longer_allowed_is_not_mirrored(guarded: Guarded) -> None:
    site = guarded.site
    assert create(guarded, "source").status_code == 201
    site.tick()
    assert any(key.group == "sly" for key in site.follower.workers.lanes)
    allowed = site.leader.admission
    assert allowed is not None
    site.leader.admission = replace(allowed, addresses=["free.example.com:9092"])
    site.tick(3)
    assert PROXY in problem(guarded)
    assert not any(key.group == "sly" for key in site.follower.workers.lanes)
    assert any(key.group == "mine" for key in site.follower.workers.lanes)
    site.leader.admission = allowed
    site.tick(3)
    assert problem(guarded) == ""
