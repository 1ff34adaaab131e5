"""Test responses to unauthorized calls: bad tokens, foreign datastreams, forged names, path tricks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from httpx import Response
from structlog.testing import capture_logs

from api.access.gate import LISTENER, SUBJECT, AccessMethods
from api.access.rights import Action
from api.access.table import NEEDS
from api.access.tokens import TokenFile, revoke
from api.brooklin.protocol import BrooklinSurface
from mirror.control.audit import AUDIT
from mirror.loggers import set_threshold
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import DatastreamName
from tests.fakes.clock import ManualClock
from tests.fakes.in_process import client_of
from tests.fakes.site import HOSTS, Site, a_body
from tests.unit.api.guarded import PEOPLE, Guarded

NAMES: Final = {
    "name": "theirs",
    "name:path": "theirs",
    "subject": "health",
    "operation": "move-1",
    "identity": "1",
    "group:path": "g",
}


def calls() -> Iterator[tuple[str, str, Action | None]]:
    for (method, template), action in NEEDS.items():
        path = template
        for name, value in NAMES.items():
            path = path.replace(f"{{{name}}}", value)
        yield method, path, action


def kind_of(answer: Response) -> str:
    """Return the error kind from a response of either REST interface."""
    body = answer.json()
    return str(body.get("kind") or body["exceptionClass"].rpartition(".")[2])


def test_without_a_token_nobody_gets_anything(guarded: Guarded) -> None:
    nobody = guarded.site.client
    for method, path, action in calls():
        if action is Action.PAGES:
            continue  # covered by tests/unit/api/test_web_pages.py
        answer = nobody.request(method, path, content=b"{not even JSON")
        assert answer.status_code == 401, (method, path)
        assert "orders" not in answer.text
        if not path.startswith("/v1/fleet"):
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert (
        "x-restli-error-response"
        in nobody.get("/datastream", headers={"X-RestLi-Protocol-Version": "2.0.0"}).headers
    )


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer hr_00000000_" + "0" * 64,
        "Bearer {id}",
        "Bearer hr_{id}_" + "0" * 64,
        "Bearer hr_{id}_é",
        "Basic YWRtaW46YWRtaW4=",
        "Headrace 00.00",
        "{token}",
    ],
)
def test_what_is_no_token_opens_nothing(guarded: Guarded, header: str) -> None:
    given = header.format(id=guarded.ids["admin"], token=guarded.tokens["admin"]).encode()
    answer = guarded.site.client.get("/v1/datastreams", headers={b"Authorization": given})
    assert (answer.status_code, kind_of(answer)) == (401, "NotAuthenticated")
    assert guarded.tokens["admin"][-8:] not in answer.text


def test_a_token_counts_in_one_header_only(guarded: Guarded) -> None:
    token, client = guarded.tokens["admin"], guarded.site.client
    assert client.get("/v1/datastreams", params={"access_token": token}).status_code == 401
    assert client.get("/v1/datastreams", headers={"Cookie": f"token={token}"}).status_code == 401
    two = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    assert client.get("/v1/datastreams", headers=two).status_code == 401
    assert client.get("/v1/datastreams", headers=two[:1]).status_code == 200


def test_a_token_ends_when_it_expires_and_when_it_is_revoked(guarded: Guarded) -> None:
    guarded.tokens["short"] = guarded.add(PEOPLE["viewer"], "short", guarded.clock.now_ms() + 1_000)
    assert guarded.as_("short").get("/v1/plan").status_code == 200
    guarded.clock.advance(1)
    assert "expired" in guarded.as_("short").get("/v1/plan").json()["detail"]
    revoke(guarded.file, guarded.ids["admin"])
    assert guarded.admin.get("/v1/plan").status_code == 401
    assert guarded.as_("operator").get("/v1/plan").status_code == 200


@pytest.mark.parametrize("how", ["gone", "damaged", "writable"])
def test_tokens_that_cannot_be_read_let_nobody_in(guarded: Guarded, how: str) -> None:
    whole = guarded.file.read_text()
    if how == "gone":
        guarded.file.unlink()
    elif how == "damaged":
        guarded.file.write_text(whole + "{")
    else:
        guarded.file.chmod(0o666)
    for _ in range(2):
        assert guarded.admin.get("/v1/plan").status_code == 503
    guarded.file.unlink(missing_ok=True)
    guarded.file.write_text(whole)
    guarded.file.chmod(0o600)
    assert guarded.admin.get("/v1/plan").status_code == 200


def test_no_secret_is_stored_logged_or_answered(guarded: Guarded) -> None:
    with capture_logs() as lines:
        guarded.as_("operator").post("/v1/datastreams/mine/pause", json={"reason": "a test"})
        guarded.site.client.get("/v1/plan", headers={"Authorization": "Bearer hr_0_something"})
    texts = [guarded.file.read_text(), json.dumps(lines, default=str), guarded.admin.get("/v1/events").text]
    for token in guarded.tokens.values():
        assert [text for text in texts if token.rpartition("_")[2] in text] == []
    assert "something" not in texts[1]


def test_a_viewer_reads_everything_and_changes_nothing(guarded: Guarded) -> None:
    viewer, before = guarded.as_("viewer"), guarded.site.definitions.all()
    for method, path, action in calls():
        if action is None:
            continue
        answer = viewer.request(method, path, json={})
        if action is Action.CHANGE:
            assert answer.status_code == 403, (method, path)
        else:
            assert answer.status_code not in (401, 403), (method, path)
    assert guarded.site.definitions.all() == before


def changes_of(name: str) -> list[tuple[str, str, Any]]:
    """Return every call that would change the datastream or its tasks."""
    path, body = f"/v1/datastreams/{name}", a_body(name, metadata={"owner": "mine"})
    definition = {key: value for key, value in body.items() if key != "name"}
    return [
        ("DELETE", path, None),
        ("DELETE", f"{path}?dry_run=true", None),
        ("PUT", path, definition),
        ("PATCH", path, {"owner": "mine"}),
        ("PATCH", f"{path}?dry_run=true", {"limits": {"max_tasks": 3}}),
        *(("POST", f"{path}/{action}", {}) for action in ("pause", "resume", "stop")),
        *(("POST", f"{path}/{one}-partitions", {"partitions": {"t": "*"}}) for one in ("pause", "resume")),
        ("POST", f"{path}/move", {"partitions": ["u-0"], "instance": "one"}),
        ("POST", f"{path}/plan", {}),
        ("POST", "/v1/rebalance", {"datastream": name, "dry_run": True}),
        ("POST", "/v1/rebalance", {"datastream": name, "dry_run": False}),
        ("DELETE", f"/datastream/{name}", None),
        *(("POST", f"/datastream/{name}?action={action}", {}) for action in ("pause", "resume", "stop")),
        ("POST", f"/datastream/{name}?action=stop", {"force": True}),
        ("POST", f"/datastream/{name}?action=pauseSourcePartitions", {"sourcePartitions": {"u": "*"}}),
        ("POST", f"/datastream/{name}?action=movePartitions", {"partitions": "u-0", "targetHost": "one"}),
    ]


def test_an_owner_changes_nothing_that_belongs_to_another(guarded: Guarded) -> None:
    owner, before = guarded.as_("owner"), guarded.site.definitions.all()
    encoded = "".join(f"%{one:02X}" for one in b"theirs")
    for name in ("theirs", encoded):
        for method, path, body in changes_of(name):
            answer = owner.request(method, path, json=body, headers={"If-Match": "*"})
            if "rebalance" not in path or name == "theirs":
                assert answer.status_code == 403, (method, path, answer.text)
    assert guarded.site.definitions.all() == before
    for answer in (
        owner.post("/v1/datastreams/mine/pause", json={}),
        owner.post("/v1/datastreams/mine/resume", json={}),
        owner.patch("/v1/datastreams/mine", json={"limits": {"max_tasks": 2}}, headers={"If-Match": "*"}),
        owner.post("/v1/datastreams/mine/plan", json={}),
    ):
        assert answer.is_success, answer.text


def test_an_owner_neither_takes_nor_gives_nor_creates_for_another(guarded: Guarded) -> None:
    owner, match = guarded.as_("owner"), {"If-Match": "*"}
    guarded.site.source.topics |= {"v": guarded.site.source.topics["t"]}
    body = a_body("new", source={"cluster": "source", "topics": "v"}, metadata={"owner": "theirs"})
    assert owner.post("/v1/datastreams", json=body).status_code == 403
    assert owner.patch("/v1/datastreams/mine", json={"owner": "theirs"}, headers=match).status_code == 403
    mine = {**body, "metadata": {"owner": "mine"}}
    assert owner.post("/v1/datastreams", json=mine).status_code == 201
    operator = guarded.as_("operator")
    assert operator.patch("/v1/datastreams/mine", json={"owner": "b"}, headers=match).status_code == 403
    assert guarded.admin.patch("/v1/datastreams/mine", json={"owner": "b"}, headers=match).status_code == 200


@pytest.mark.parametrize("key", ["system.taskPrefix", "group.id"])
def test_an_owner_joins_no_group_of_another(guarded: Guarded, key: str) -> None:
    guarded.site.source.topics |= {"v": guarded.site.source.topics["t"]}
    metadata = {"owner": "mine", key: "theirs"}
    body = a_body("new", source={"cluster": "source", "topics": "v"}, metadata=metadata)
    assert guarded.as_("owner").post("/v1/datastreams", json=body).status_code == 403
    address = "kafka://source-host:9092/v"
    restli = {"name": "new", "connectorName": "headrace", "source": {"connectionString": address}}
    answer = guarded.as_("owner").post("/datastream", json={**restli, "metadata": metadata})
    assert answer.status_code == 403
    if key == "group.id":
        assert guarded.as_("operator").post("/v1/datastreams", json=body).status_code == 201


def test_of_a_batch_nothing_is_written_where_one_is_anothers(guarded: Guarded) -> None:
    """Two owners share tasks: changing them requires rights to both datastreams."""
    guarded.site.source.topics |= {"v": guarded.site.source.topics["t"]}
    metadata = {"owner": "mine", "system.taskPrefix": "mine"}
    body = a_body("guest", source={"cluster": "source", "topics": "v"}, metadata=metadata)
    assert guarded.admin.post("/v1/datastreams", json=body).status_code == 201
    given = guarded.admin.patch("/v1/datastreams/guest", json={"owner": "theirs"}, headers={"If-Match": "*"})
    assert (given.status_code, "owner" in given.text) == (400, True)
    stored = guarded.site.definitions.get(DatastreamName("guest"))  # allowed by earlier versions
    parted = {**stored.datastream.metadata, "owner": "theirs"}
    guarded.site.definitions.replace(stored, replace(stored.datastream, metadata=parted))
    guarded.site.tick()
    headers = {"X-RestLi-Protocol-Version": "2.0.0", "X-RestLi-Method": "batch_update"}
    entities = {name: guarded.admin.get(f"/datastream/{name}").json() for name in ("guest", "mine")}
    for one in entities.values():
        one["metadata"]["maxTasks"] = "5"
    call = ("PUT", "/datastream?ids=List(guest,mine)")
    owner, before = guarded.as_("owner"), guarded.site.definitions.all()
    assert owner.request(*call, json={"entities": entities}, headers=headers).status_code == 403
    for change in ({"limits": {"max_tasks": 2}}, {"placement": {"strategy": "simple"}}):
        answer = owner.patch("/v1/datastreams/mine", json=change, headers={"If-Match": "*"})
        assert answer.status_code == 403, "the tasks also belong to another owner"
    for path in ("rebalance", "datastreams/mine/plan", "datastreams/mine/move"):
        sent: dict[str, Any] = {"datastream": "mine"} if path == "rebalance" else {}
        sent = {"partitions": ["t-0"], "instance": "one"} if path.endswith("move") else sent
        assert owner.post(f"/v1/{path}", json=sent).status_code == 403, path
    for action in ("pause", "resume"):
        path = f"/v1/groups/mine/{action}"
        for url in (path, f"{path}?dry_run=true"):
            assert owner.post(url, json={}, headers={"If-Match": "*"}).status_code == 403, url
    forced = owner.post("/datastream/mine?action=pause", json={"force": True})
    assert (forced.status_code, guarded.site.definitions.all()) == (403, before)
    assert owner.post("/v1/datastreams/mine/pause", json={}).status_code == 200
    plan = guarded.admin.post("/v1/datastreams/guest/plan", json={})
    assert owner.post(f"/v1/plans/{plan.json()['id']}/apply", json={}).status_code == 403


DETOURS: Final = [
    "/v1/../v1/datastreams",
    "/v1/health/../datastreams",
    "/v1/fleet/../datastreams",
    "/v1/fleet/%2e%2e/datastreams",
    "//v1/datastreams",
    "//datastream",
    "/./v1/plan",
    "/v1/datastreams/",
    "/V1/datastreams",
    "/health/",
    "/health%2f",
    "/v1/health;x=/v1/datastreams",
    "/metrics/..",
    "/v1/docs/oauth2-redirect",
    "/docs",
    "/openapi.json",
]


def test_there_is_no_way_around(tmp_path: Path) -> None:
    (tmp_path / "tokens").touch(0o600)
    open_to_all = frozenset({Action.HEALTH, Action.METRICS})
    client = Site(
        access=AccessMethods(
            TokenFile(tmp_path / "tokens", ManualClock()), hosts=HOSTS, open_to_all=open_to_all
        )
    ).client
    for path in DETOURS:
        for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE", "PURGE"):
            plain = client.request(method, path, follow_redirects=False)
            assert plain.status_code == 401, (method, path)
            signed = client.request(
                method, path, headers={"Authorization": "Headrace 0.0"}, follow_redirects=False
            )
            assert signed.status_code in (401, 404, 405), (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-HTTP-Method-Override": "DELETE"},
        {"X-RestLi-Method": "delete"},
        {"X-RestLi-Method": "batch_update"},
        {"X-HTTP-Method": "DELETE", "X-Method-Override": "DELETE"},
        {"X-Forwarded-User": "ada", "X-Remote-User": "ada", "Forwarded": "for=127.0.0.1"},
        {"X-Original-URL": "/v1/rebalance", "X-Rewrite-URL": "/v1/rebalance"},
        {"X-Headrace-Signature": "0", "Owner": "theirs", "Principal": "ada"},
    ],
)
def test_no_header_makes_more_of_a_call(guarded: Guarded, headers: dict[str, str]) -> None:
    before = guarded.site.definitions.all()
    for path in ("/datastream/theirs", "/v1/datastreams/theirs"):
        assert guarded.as_("viewer").get(path, headers=headers).status_code in (200, 400)
        assert guarded.as_("viewer").post(f"{path}/pause", json={}, headers=headers).status_code in (400, 403)
        assert guarded.as_("owner").delete(path, headers=headers).status_code in (400, 403)
        assert guarded.site.client.get(path, headers=headers).status_code in (400, 401)
    assert guarded.site.definitions.all() == before


def test_who_asked_cannot_be_forged(guarded: Guarded) -> None:
    owner = guarded.as_("owner")
    headers = {"X-Forwarded-For": "10.9.8.7", "X-Request-ID": "audit-1"}
    set_threshold("info")
    with capture_logs() as lines:
        body = {"reason": "a test", "requested_by": "ada"}
        owner.post("/v1/datastreams/mine/pause", json=body, headers=headers)
        owner.post("/v1/rebalance", json={"datastream": "mine", "requested_by": "ada"}, headers=headers)
        owner.post("/datastream/mine?action=resume", headers=headers)
        moved = owner.post("/v1/datastreams/mine/move", json={"partitions": ["t-0"], "instance": "one"})
    audits = [one for one in lines if one["event"] == AUDIT]
    assert [one["action"] for one in audits] == ["pause", "resume", "move"]
    assert {(one["principal"], one["role"]) for one in audits} == {("otto", "owner")}
    first = audits[0]
    assert (first["call"], first["requested_by"]) == ("audit-1", "otto (for ada)")
    assert "10.9.8.7" not in json.dumps(audits)
    assert (first["before"]["/status"], first["after"]["/status"]) == ('"READY"', '"PAUSED"')
    sentences = [one["sentence"] for one in guarded.admin.get("/v1/events").json()]
    assert any(all(name in one for name in ("otto", "ada", "127.0.0.1")) for one in sentences), sentences
    assert "10.9.8.7" not in json.dumps(sentences)
    assert moved.json()["operation"]["requested_by"].startswith("otto")


def test_certificates_and_listeners_are_principals_as_the_settings_say(guarded: Guarded) -> None:
    access = guarded.access(
        certificates={"CN=ci,O=example": PEOPLE["owner"]}, listeners={"brooklin": PEOPLE["operator"]}
    )
    site = Site(guarded.site.server, "two", access=access)

    def answer(state: dict[str, str], path: str, token: str = "") -> int:
        async def shown(scope: Any, receive: Any, send: Any) -> None:
            await site.app({**scope, "state": dict(state)}, receive, send)

        client = client_of(shown)  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return client.post(path, json={}, headers=headers).status_code

    pause = "/v1/datastreams/{}/pause"
    assert answer({}, pause.format("mine")) == 401
    assert answer({SUBJECT: "CN=ci"}, pause.format("mine")) == 401
    assert answer({SUBJECT: "CN=ci,O=example"}, pause.format("theirs")) == 403
    assert answer({SUBJECT: "CN=ci,O=example"}, pause.format("mine")) == 200
    assert answer({SUBJECT: "CN=ci,O=example"}, pause.format("mine"), "hr_wrong") == 401
    assert answer({LISTENER: "brooklin"}, "/datastream/theirs?action=pause") == 200
    assert guarded.site.stored("theirs").status is DatastreamStatus.PAUSED


def test_brooklins_listener_has_brooklins_interface_and_nothing_else(guarded: Guarded) -> None:
    access = guarded.access(listeners={"brooklin": PEOPLE["viewer"]})
    client = client_of(BrooklinSurface(Site(access=access).app, "brooklin"))  # type: ignore[arg-type]
    assert client.get("/datastream").status_code == 200
    assert client.get("/datastream/none").status_code == 404
    assert client.delete("/datastream/none").status_code == 403
    for path in ("/v1/datastreams", "/metrics", "/datastream/../v1/plan", "//v1/plan", "/", "/v1/docs"):
        answer = client.get(path)
        assert (answer.status_code, "task" in answer.text) == (404, False), path


def test_health_and_metrics_can_be_open_to_all(guarded: Guarded) -> None:
    site = Site(access=guarded.access(open_to_all=frozenset({Action.HEALTH})))
    site.tick()
    found = {path: site.client.get(path).status_code for path in ("/v1/health", "/health", "/metrics")}
    assert found == {"/v1/health": 200, "/health": 200, "/metrics": 401}
    wrong = site.client.get("/v1/health", headers={"Authorization": "Bearer x"})
    assert wrong.status_code == 401


def test_instances_still_ask_each_other(guarded: Guarded) -> None:
    other = Site(guarded.site.server, "two", access=guarded.access())
    for _ in range(2):
        guarded.site.tick()
        other.tick()
    states = {one["name"]: one["state"] for one in guarded.admin.get("/v1/instances").json()}
    assert states == {"one": "answered", "two": "answered"}
