"""Test the permissions of each role: every endpoint is in the table, every role tried with every action."""

from __future__ import annotations

from typing import Final

import pytest
from fastapi import APIRouter
from fastapi.routing import iter_route_contexts

from api.access.rights import Action, Principal, PrincipalRights, Role, asked_for, reason_against
from api.access.table import NEEDS
from api.app import create_app, described_app
from mirror.control.caller import RequestedChange
from mirror.control.commands import ChangeStatus
from mirror.errors import Forbidden
from mirror.model.datastreams.datastream import Datastream
from tests.builders import a_datastream
from tests.fakes.site import Site

ROLES: Final = {
    "viewer": Principal("v", Role.VIEWER),
    "owner": Principal("o", Role.OWNER, frozenset({"mine", "ours"})),
    "operator": Principal("p", Role.OPERATOR),
    "admin": Principal("a", Role.ADMIN),
}
WHOSE: Final = {"MINE": {"mine"}, "FOREIGN": {"theirs"}, "BOTH": {"mine", "theirs"}, "UNKNOWN": {""}}
MAY: Final = {
    (Action.READ, None): {"viewer", "owner", "operator", "admin"},
    (Action.PAGES, None): {"viewer", "owner", "operator", "admin"},
    (Action.HEALTH, None): {"viewer", "owner", "operator", "admin"},
    (Action.METRICS, None): {"viewer", "owner", "operator", "admin"},
    (Action.CHANGE, None): {"owner", "operator", "admin"},
    (Action.CHANGE, "MINE"): {"owner", "operator", "admin"},
    (Action.CHANGE, "FOREIGN"): {"operator", "admin"},
    (Action.CHANGE, "BOTH"): {"operator", "admin"},
    (Action.CHANGE, "UNKNOWN"): {"operator", "admin"},
    (Action.HAND_OVER, "MINE"): {"owner", "admin"},
    (Action.HAND_OVER, "BOTH"): {"admin"},
    (Action.COMMIT_AS, "MINE"): {"operator", "admin"},
    (Action.COPY_INTERNAL, "MINE"): {"operator", "admin"},
    (Action.READ_GROUPS, None): {"operator", "admin"},
}


def endpoints() -> set[tuple[str, str]]:
    return {
        (method, str(one.path))
        for one in iter_route_contexts(described_app().routes)
        for method in one.methods or ("?",)
    }


def test_every_endpoint_is_in_the_table_and_the_table_has_no_other() -> None:
    assert endpoints() == set(NEEDS)


def test_what_changes_something_is_never_only_reading() -> None:
    reading = {Action.READ, Action.PAGES, Action.HEALTH, Action.METRICS, None}
    assert {key for key, action in NEEDS.items() if key[0] == "GET" and action not in reading} == set()
    computed = {("POST", "/v1/fleet/{subject}")}  # dry runs for another instance, which checks the caller
    assert {key for key, action in NEEDS.items() if key[0] != "GET" and action in reading} == computed


def test_an_endpoint_that_is_not_in_the_table_answers_nobody() -> None:
    site, router = Site(), APIRouter()
    router.add_api_route("/v1/forgotten", lambda: {}, methods=["GET", "POST"])
    site.app.include_router(router)
    for method in ("GET", "POST"):
        answer = site.client.request(method, "/v1/forgotten", json={})
        assert (answer.status_code, answer.json()["kind"]) == (403, "Forbidden")


@pytest.mark.parametrize(("action", "whose"), list(MAY), ids=str)
def test_what_a_role_may_do(action: Action, whose: str | None) -> None:
    owners = None if whose is None else frozenset(WHOSE[whose])
    may = {name for name, one in ROLES.items() if not reason_against(one, action, owners)}
    assert may == MAY[action, whose]


def of(owner: str, **more: str) -> Datastream:
    return a_datastream(metadata={"owner": owner, **more})


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        (RequestedChange(of("mine").name, None, of("mine")), {Action.CHANGE: {"mine"}}),
        (
            RequestedChange(of("mine").name, of("mine"), of("mine"), (of("b"),)),
            {Action.CHANGE: {"mine", "b"}},
        ),
        (RequestedChange(of("mine").name, of("mine"), of("b")), {Action.HAND_OVER: {"mine", "b"}}),
        (RequestedChange(of("mine").name, None, None), {Action.CHANGE: {""}}),
        (
            RequestedChange(of("mine").name, None, of("mine", **{"group.id": "billing"})),
            {Action.CHANGE: {"mine"}, Action.COMMIT_AS: {"mine"}},
        ),
    ],
    ids=["create", "tasks that are shared", "another owner", "damaged", "another group"],
)
def test_what_a_change_needs_rights_to(change: RequestedChange, needed: dict[Action, set[str]]) -> None:
    assert {action: set(owners) for action, owners in asked_for(change)} == needed


def test_whoever_lacks_one_of_the_rights_is_refused() -> None:
    rights = PrincipalRights(ROLES["owner"])
    rights.check(RequestedChange(of("mine").name, of("mine"), of("ours")))
    with pytest.raises(Forbidden, match="theirs"):
        rights.check(RequestedChange(of("mine").name, of("mine"), of("mine"), (of("theirs"),)))


def test_what_the_application_itself_holds_has_no_right_to_anything() -> None:
    """An endpoint that does not use the caller's use cases cannot write."""
    site = Site()
    site.create()
    app = create_app(site.app.state.services)
    with pytest.raises(Forbidden):
        app.state.services.control.delete(ChangeStatus(site.stored("orders").name, "delete"))
    assert site.client.post("/v1/datastreams/orders/pause", json={}).status_code == 200
