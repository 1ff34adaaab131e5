"""Test that tenants cannot affect each other over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from api.access.listener_settings import AccessSettings, CertificateSettings, TlsSettings
from api.access.rights import Role
from api.access.tokens import check_not_reserved
from api.settings import ApiSettings
from headrace.process.access import access_of_settings
from mirror.coordination.stores.requests import MOST_OF_GROUP, MOST_PENDING, RebalanceRequest
from mirror.errors import ConfigError, InvalidRequest
from mirror.instance.health import Health
from mirror.jobs.groups.record import FollowedGroup, GroupKeys, write_group
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicPartition
from mirror.settings import KafkaCluster
from tests.fakes.clock import ManualClock
from tests.fakes.site import ADDRESSES, a_body
from tests.unit.api.guarded import Guarded

PATH: Final = "/v1/datastreams"
KEY: Final = {"Idempotency-Key": "8e03978e"}


def creation(owner: str, name: str, **more: Any) -> dict[str, Any]:
    """Return the body of a creation that selects a topic of the same name."""
    return a_body(
        name, **{"source": {"cluster": "source", "topics": name}, "metadata": {"owner": owner}, **more}
    )


def test_an_idempotency_key_belongs_to_its_principal(guarded: Guarded) -> None:
    first = guarded.as_("owner").post(PATH, json=creation("mine", "a"), headers=KEY)
    assert first.status_code == 201
    other = guarded.as_("operator")
    assert other.post(PATH, json=creation("theirs", "b"), headers=KEY).status_code == 201
    taken = other.post(PATH, json=creation("mine", "a"), headers=KEY)
    assert (taken.status_code, taken.json()["kind"]) == (409, "AlreadyExists")
    again = guarded.as_("owner").post(PATH, json=creation("mine", "a"), headers=KEY)
    assert (again.status_code, again.json()) == (201, first.json())


def test_an_identity_of_brooklins_client_belongs_to_its_principal(guarded: Guarded) -> None:
    owner, operator = guarded.as_("owner"), guarded.as_("operator")
    assert operator.post(PATH, json=creation("theirs", "model")).status_code == 201
    document = operator.get("/datastream/model").json()
    assert guarded.admin.delete(f"{PATH}/model").is_success
    guarded.site.tick()
    headers = {"X-RestLi-Protocol-Version": "2.0.0"}
    document["metadata"] = {"owner": "mine", "datastreamUUID": "0-1"}
    for caller, status in ((owner, 201), (operator, 409), (owner, 201)):
        assert caller.post("/datastream", json=document, headers=headers).status_code == status


def test_internal_topics_take_an_operator(guarded: Guarded) -> None:
    owner, operator = guarded.as_("owner"), guarded.as_("operator")
    wanted = creation(
        "mine", "a", source={"cluster": "source", "topics": "__consumer_offsets", "internal": True}
    )
    for query in ("", "?dry_run=true"):
        refused = owner.post(f"{PATH}{query}", json=wanted)
        assert (refused.status_code, refused.json()["kind"]) == (403, "Forbidden")
    change = {"source": {"internal": True}}
    assert owner.patch(f"{PATH}/mine", json=change, headers={"If-Match": "*"}).status_code == 403
    assert operator.post(PATH, json=wanted).status_code == 201
    wider = {"source": {"topics": "__.*"}}
    assert owner.patch(f"{PATH}/a", json=wider, headers={"If-Match": "*"}).status_code == 403
    assert owner.patch(f"{PATH}/a", json={"metadata": {"note": "n"}}, headers={"If-Match": "*"}).is_success
    less = {"source": {"topics": "other", "internal": False}}
    assert owner.patch(f"{PATH}/a", json=less, headers={"If-Match": "*"}).is_success


def test_brooklins_clients_do_not_widen_internal_topics(guarded: Guarded) -> None:
    owner = guarded.as_("owner")
    wanted = creation("mine", "a", source={"cluster": "source", "topics": "__t", "internal": True})
    assert guarded.as_("operator").post(PATH, json=wanted).status_code == 201
    document = owner.get("/datastream/a").json()
    document["source"]["connectionString"] = document["source"]["connectionString"].replace("__t", "__.*")
    assert owner.put("/datastream/a", json=document).status_code == 403


@pytest.fixture
def closed(tmp_path: Path) -> Guarded:
    """Return a site whose source limits the groups of datastreams to `shared-*`, `mine` and `theirs`."""
    groups = {"source": ["shared-*", "mine", "theirs"], "destination": ["*"]}
    return Guarded(
        tmp_path,
        {
            alias: KafkaCluster(bootstrap_servers=address, groups=groups[alias])
            for alias, address in ADDRESSES.items()
        },
    )


def positions(closed: Guarded, role: str, group: str, **more: str) -> Any:
    path = f"{PATH}/mine/translation/groups/{group}"
    answer = closed.as_(role).get(path, params=more)
    found = answer.json()
    if answer.is_success:
        return [(one["topic"], one["offset"]) for one in (*found["positions"], *found["untranslated"])]
    return answer.status_code, found["kind"]


def test_followed_groups_are_those_that_the_cluster_allows(closed: Guarded) -> None:
    site = closed.site
    keys = GroupKeys(GroupName("mine"), DatastreamName("mine"))
    for group in ("shared-a", "secret"):
        site.followed[keys.of(group)] = write_group(FollowedGroup(group))
    body = {"groups": {"include": ".*"}}
    assert closed.as_("owner").patch(f"{PATH}/mine", json=body, headers={"If-Match": "*"}).is_success
    path = f"{PATH}/mine/consumer-groups"

    def seen(role: str) -> list[str]:
        return [one["group"] for one in closed.as_(role).get(path).json()["groups"]]

    assert (seen("viewer"), seen("operator")) == (["shared-a"], ["secret", "shared-a"])
    assert closed.as_("viewer").get(f"{path}/secret").status_code == 403
    assert closed.as_("operator").get(f"{path}/secret").json()["reasons"] == ["not allowed"]


def test_positions_of_groups_are_read_of_the_topics_of_the_datastream(closed: Guarded) -> None:
    for side in (closed.site.source, closed.site.destination):
        side.committed |= {
            ("shared-1", TopicPartition("t", 0)): 7,
            ("shared-1", TopicPartition("u", 0)): 8,
            ("shared-2", TopicPartition("u", 0)): 9,
        }
    for direction in ("to-destination", "to-source"):
        for role in ("viewer", "owner", "operator"):
            assert positions(closed, role, "shared-1", direction=direction) == [("t", 7)]
            assert positions(closed, role, "shared-2", direction=direction) == (404, "NotFound")


def test_groups_that_are_not_for_datastreams_are_read_by_operators(closed: Guarded) -> None:
    closed.site.source.committed["payroll", TopicPartition("t", 0)] = 7
    for role in ("viewer", "owner"):
        for group in ("payroll", "nobody"):
            assert positions(closed, role, group) == (403, "Forbidden")
            assert positions(closed, role, group, direction="to-source") == (403, "Forbidden")
    assert positions(closed, "operator", "payroll") == [("t", 7)]


def test_a_full_queue_of_requests_is_busy_for_a_while(guarded: Guarded) -> None:
    queue = guarded.site.leader.stores.requests
    for number in range(MOST_PENDING):
        queue.add(RebalanceRequest(GroupName(f"g-{number}"), False, "me", "", 1))
    answer = guarded.as_("owner").post("/v1/rebalance", json={"datastream": "mine"})
    assert (answer.status_code, answer.json()["kind"]) == (503, "Busy")
    assert int(answer.headers["Retry-After"]) > 0


def test_requests_of_one_owner_leave_those_of_others_waiting(guarded: Guarded) -> None:
    theirs = guarded.admin.post("/v1/rebalance", json={"datastream": "theirs"}).json()["request"]
    mine = [
        guarded.as_("owner").post("/v1/rebalance", json={"datastream": "mine"}).json()["request"]
        for _ in range(MOST_OF_GROUP + 1)
    ]
    states = {one: guarded.admin.get(f"/v1/operations/{one}").json()["state"] for one in (theirs, *mine)}
    assert states == {mine[0]: "failed"} | dict.fromkeys([theirs, *mine[1:]], "queued")


LOOK_ALIKES: Final = ["\u043erders", "orders\uff11", "orders\u0301", "a%2Fb", "=1+1", "@orders"]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_names_that_can_be_taken_for_others_are_refused(guarded: Guarded, name: str) -> None:
    fields = {
        "/name": creation("mine", "a") | {"name": name},
        "/owner": creation(name, "a"),
        "/metadata/system.taskPrefix": creation(
            "mine", "a", metadata={"owner": "mine", "system.taskPrefix": name}
        ),
    }
    for pointer, body in fields.items():
        answer = guarded.admin.post(PATH, json=body)
        assert (answer.status_code, answer.json()["kind"]) in {
            (400, "InvalidRequest"),
            (422, "RefusedFields"),
            (422, "InvalidRequest"),
        }
        assert pointer in {one["pointer"] for one in answer.json()["errors"]}
    for change in ({"owner": name}, {"metadata": {"owner": name}}):
        assert guarded.admin.patch(f"{PATH}/mine", json=change, headers={"If-Match": "*"}).status_code >= 400


@pytest.mark.parametrize("name", ["orders-1.v2", "заказы", "注文リスト", "bestellungen-für-alle"])
def test_names_of_one_script_are_taken(guarded: Guarded, name: str) -> None:
    assert guarded.admin.post(PATH, json=creation("mine", "a") | {"name": name}).status_code == 201


@pytest.mark.parametrize("name", ["headrace", "Monitor", "brooklin", "oidc:ada", "h\u0435adrace"])
def test_reserved_principals_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_not_reserved(name)
    check_not_reserved("ci")


def test_a_certificate_is_no_reserved_principal() -> None:
    one = CertificateSettings(subject="CN=x", role=Role.VIEWER)
    api = ApiSettings(
        access=AccessSettings(certificates={"monitor": one}),
        tls=TlsSettings(certificate_file="c", key_file="k", client_ca_file="a"),
    )
    with pytest.raises(ConfigError):
        access_of_settings(api, "localhost:1", ManualClock(), Health())
