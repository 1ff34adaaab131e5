"""Test that rights, consumer groups and the audit depend on the principal, also for changes by the leader."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Response
from structlog.testing import capture_logs

from api.access.tokens import principal_named
from mirror.control.audit import AUDIT, SERVICE
from mirror.errors import InvalidRequest
from mirror.instance.settings import DefinitionSettings
from mirror.loggers import set_threshold
from mirror.settings import KafkaCluster
from tests.fakes.in_process import client_of
from tests.fakes.site import Site, a_body
from tests.unit.api.guarded import PEOPLE, Guarded


def test_rights_at_a_cluster_are_those_of_the_principal(guarded: Guarded) -> None:
    """Neither the owner, whom the caller chooses, nor any role implies rights at a cluster."""
    clusters = {
        "source": KafkaCluster(bootstrap_servers="source-host:9092", readers=["otto", "theirs"]),
        "destination": KafkaCluster(bootstrap_servers="destination-host:9192", adopters=["ada"]),
    }
    site = Site(access=guarded.access(), rights=clusters)

    def asks(name: str, method: str, path: str, body: object) -> Response:
        client = client_of(site.app)
        client.headers.update({"Authorization": f"Bearer {guarded.tokens[name]}", "If-Match": "*"})
        return client.request(method, path, json=body)

    def create(name: str, owner: str, **more: Any) -> Response:
        body = a_body(f"new-{name}-{owner}", metadata={"owner": owner}, **more)
        dry = asks(name, "POST", "/v1/datastreams?dry_run=true", body)
        answer = asks(name, "POST", "/v1/datastreams", body)
        assert dry.is_success == answer.is_success
        return answer

    for name in ("operator", "admin"):
        answer = create(name, "theirs")
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/source/cluster")
        assert PEOPLE[name].name in answer.json()["detail"]
    assert create("owner", "mine", destination={"cluster": "destination", "adopt": True}).status_code == 400
    assert create("owner", "mine").status_code == 201
    path = "/v1/datastreams/new-owner-mine"
    wider = {"source": {"topics": "t|u"}}
    assert asks("operator", "PATCH", path, wider).status_code == 400
    restli = asks("operator", "GET", "/datastream/new-owner-mine", None).json()
    restli["source"]["connectionString"] = restli["source"]["connectionString"].replace("/t", "/t|u")
    assert asks("operator", "PUT", "/datastream/new-owner-mine", restli).status_code == 400
    assert asks("operator", "PATCH", path, {"limits": {"max_tasks": 2}}).status_code == 200
    assert asks("admin", "PATCH", path, {"owner": "theirs"}).status_code == 200
    assert asks("operator", "PATCH", path, wider).status_code == 400
    assert site.stored("new-owner-mine").selection.include == "t"


@pytest.mark.parametrize("named", ["by its name", "by group.id"])
def test_an_owner_commits_positions_into_no_group_of_another(guarded: Guarded, named: str) -> None:
    """The consumer group of a datastream is `group.id`, or its name by default."""
    for topic in ("v", "w"):
        guarded.site.source.topics |= {topic: guarded.site.source.topics["t"]}
    operator, owner = guarded.as_("operator"), guarded.as_("owner")
    metadata = {"owner": "theirs", "group.id": "billing"}
    body = a_body("invoices", source={"cluster": "source", "topics": "v"}, metadata=metadata)
    assert operator.post("/v1/datastreams", json=body).status_code == 201
    name = "billing" if named == "by its name" else "mine-too"
    metadata = {"owner": "mine"} if named == "by its name" else {"owner": "mine", "group.id": "billing"}
    body = a_body(name, source={"cluster": "source", "topics": "w"}, metadata=metadata)
    for query in ({"dry_run": "true"}, {}):
        answer = owner.post("/v1/datastreams", json=body, params=query)
        assert (answer.status_code, answer.json()["kind"]) == (403, "Forbidden")
    source = {"connectionString": "kafka://source-host:9092/w"}
    restli = {"name": name, "connectorName": "headrace", "source": source, "metadata": metadata}
    assert owner.post("/datastream", json=restli).status_code == 403
    assert operator.post("/v1/datastreams", json=body).status_code == 201


def test_the_consumer_group_does_not_change(guarded: Guarded) -> None:
    """The group is fixed even for an admin."""
    for name in ("owner", "operator", "admin"):
        client = guarded.as_(name)
        changes = {"metadata": {"group.id": "theirs"}}
        answer = client.patch("/v1/datastreams/mine", json=changes, headers={"If-Match": "*"})
        assert answer.status_code in (403, 422), name
        restli = guarded.admin.get("/datastream/mine").json()
        restli["metadata"]["group.id"] = "theirs"
        assert client.put("/datastream/mine", json=restli).status_code in (400, 403), name
    assert guarded.site.stored("mine").consumer_group == "mine"


def test_quotas_of_owners_are_looked_at_where_something_is_created_changed_or_given(guarded: Guarded) -> None:
    quotas = {"mine": {"datastreams": 1, "bytes_per_second": 100}}
    site = Site(access=guarded.access(), rules=DefinitionSettings.model_validate({"quotas": quotas}))

    def asks(name: str, method: str, path: str, body: object) -> Response:
        client = client_of(site.app)
        client.headers.update({"Authorization": f"Bearer {guarded.tokens[name]}", "If-Match": "*"})
        return client.request(method, path, json=body)

    def create(name: str, topic: str, owner: str, rate: int) -> dict[str, Any]:
        source, quota = {"cluster": "source", "topics": topic}, {"bytes_per_second": rate}
        body = a_body(name, source=source, metadata={"owner": owner}, quota=quota)
        found: dict[str, Any] = asks("operator", "POST", "/v1/datastreams", body).json()
        return found

    def refused(answer: dict[str, Any]) -> tuple[int, str]:
        return answer["status"], answer["kind"]

    assert refused(create("one", "t", "mine", 101)) == (403, "QuotaExceeded")
    assert create("one", "t", "mine", 60)["name"] == "one"
    assert refused(create("two", "u", "mine", 10)) == (403, "QuotaExceeded")
    assert create("other", "v", "theirs", 1_000)["name"] == "other"
    more = asks("owner", "PATCH", "/v1/datastreams/one", {"quota": {"bytes_per_second": 101}})
    assert refused(more.json()) == (403, "QuotaExceeded")
    given = asks("admin", "PATCH", "/v1/datastreams/other", {"owner": "mine"})
    assert refused(given.json()) == (403, "QuotaExceeded")
    restli = asks("owner", "GET", "/datastream/one", None).json()
    restli["metadata"]["headrace.bytes-per-second"] = "101"
    assert asks("owner", "PUT", "/datastream/one", restli).status_code == 403
    assert asks("owner", "PATCH", "/v1/datastreams/one", {"quota": {"bytes_per_second": 100}}).is_success


def test_what_the_leader_changes_by_itself_is_in_the_same_audit(guarded: Guarded) -> None:
    site, owner = guarded.site, guarded.as_("owner")
    site.source.topics |= {"v": site.source.topics["t"]}
    metadata = {"owner": "mine", "system.ttl.ms": "600000"}
    body = a_body("brief", source={"cluster": "source", "topics": "v"}, metadata=metadata)
    assert owner.post("/v1/datastreams", json=body).status_code == 201
    site.tick()
    path = "/v1/datastreams/mine"
    some = {"partitions": {"t": "1"}, "for_seconds": 60}
    assert owner.post(f"{path}/pause-partitions", json=some).status_code == 200
    assert owner.post(f"{path}/pause", json={"for_seconds": 200, "reason": "a night"}).status_code == 200
    set_threshold("info")
    with capture_logs() as lines:
        for seconds in (61, 140, 600):
            site.clock.advance(seconds)
            site.tick(4)
    found = [one for one in lines if one["event"] == AUDIT]
    assert [(one["action"], one["datastream"]) for one in found] == [
        ("resume partitions", "mine"),
        ("resume", "mine"),
        ("delete", "brief"),
        ("remove", "brief"),
    ]
    assert {(one["principal"], one["role"], one["remote"]) for one in found} == {("headrace", "service", "")}
    assert (found[1]["before"]["/status"], found[1]["after"]["/status"]) == ('"PAUSED"', '"READY"')
    assert ("otto" in found[1]["reason"], "a night" in found[1]["reason"]) == (True, True)
    assert "time to live" in found[2]["reason"]
    assert (found[3]["requested_by"], found[3]["after"]) == ("system.ttl.ms", {})


def test_nobody_calls_with_the_role_of_the_service(guarded: Guarded) -> None:
    """Otherwise audit entries of the leader's own changes could be forged."""
    forged = guarded.file.read_text().replace('"role": "admin"', '"role": "service"')
    guarded.file.write_text(forged)
    assert guarded.admin.get("/v1/plan").status_code == 503
    with pytest.raises(InvalidRequest):
        principal_named("headrace", SERVICE.role, [])
