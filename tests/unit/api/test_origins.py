"""Test the detection of browser requests sent by pages of other sites."""

from __future__ import annotations

import pytest

from api.access.origins import check_origin
from mirror.errors import Forbidden
from tests.fakes.site import Site

HOSTS = frozenset({"headrace.example"})
ORIGINS = frozenset({"https://console.example"})


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:32311",
        "[::1]:32311",
        "[::1]",
        "localhost",
        "LOCALHOST:1",
        "headrace.example",
        "10.0.0.7:80",
        "Headrace.Example.:443",
        "",
    ],
)
def test_addresses_and_names_of_the_service_are_hosts(host: str) -> None:
    check_origin("POST", {"host": host}, HOSTS, ORIGINS)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:32311",
        "headrace.example.evil.example",
        "127.0.0.1.evil.example",
        "a@127.0.0.1",
        "127.0.0.1/",
        "127.0.0.1:80:80",
        "0x7f.1",
        "[evil]",
        "localhost\t",
        " ",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_name_that_was_made_to_mean_this_machine_is_none(host: str, method: str) -> None:
    with pytest.raises(Forbidden, match="host"):
        check_origin(method, {"host": host}, HOSTS, ORIGINS)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1",
        "http://127.0.0.1:80",
        "file://",
        "",
        "http://[::1",
        "https://console.example.evil",
        "https://127.0.0.1:32311@evil.example",
        "ftp://127.0.0.1:32311",
    ],
)
def test_another_page_changes_nothing(origin: str) -> None:
    headers = {"host": "127.0.0.1:32311", "origin": origin}
    for method in ("POST", "PUT", "PATCH", "DELETE", "PURGE"):
        with pytest.raises(Forbidden, match="page"):
            check_origin(method, headers, HOSTS, ORIGINS)
    check_origin("GET", headers, HOSTS, ORIGINS)


def test_pages_of_the_service_and_those_that_are_named_may() -> None:
    host = {"host": "127.0.0.1:32311"}
    check_origin("POST", {**host, "origin": "http://127.0.0.1:32311"}, HOSTS, ORIGINS)
    check_origin("POST", {**host, "origin": "https://console.example"}, HOSTS, ORIGINS)
    check_origin("POST", {**host, "sec-fetch-site": "same-origin"}, HOSTS, ORIGINS)
    with pytest.raises(Forbidden):
        check_origin("POST", {**host, "sec-fetch-site": "cross-site"}, HOSTS, ORIGINS)


def test_a_page_pauses_nothing_where_nobody_is_asked_who_they_are() -> None:
    site = Site()
    site.create()
    for path in ("/v1/datastreams/orders/pause", "/datastream/orders?action=pause"):
        assert site.client.post(path, json={}, headers={"Origin": "http://evil.example"}).status_code == 403
    assert site.client.get("/v1/datastreams", headers={"Host": "evil.example"}).status_code == 403
    assert site.stored("orders").status == "READY"


def test_the_page_of_the_interface_loads_nothing() -> None:
    page = Site().client.get("/v1/docs")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert [tag for tag in ("<script", "<link", "<img", "src=", "http:", "https:") if tag in page.text] == []


FORMS = [
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain;charset=UTF-8",
    "TEXT/PLAIN",
]


@pytest.mark.parametrize("kind", FORMS)
def test_what_a_form_can_send_changes_nothing_on_either_surface(kind: str) -> None:
    """A browser may send neither Origin nor Sec-Fetch-Site."""
    site = Site()
    site.create()
    sent = {"Content-Type": kind}
    for path in (
        "/v1/datastreams/orders/pause",
        "/v1/groups/orders/pause",
        "/datastream/orders?action=pause",
    ):
        for content in (b"", b"{}"):
            answer = site.client.post(path, content=content, headers=sent)
            assert (answer.status_code, "Content-Type" in answer.text) == (415, True), path
    for method in ("PUT", "DELETE"):
        assert (
            site.client.request(method, "/datastream/orders", content=b"{}", headers=sent).status_code == 415
        )
    assert site.client.get("/v1/datastreams", headers=sent).status_code == 200
    assert site.stored("orders").status == "READY"


@pytest.mark.parametrize("kind", ["", "text/html", "application/octet-stream", "json", "text/x+json"])
def test_an_action_needs_a_body_of_json(kind: str) -> None:
    site = Site()
    site.create()
    sent = {"Content-Type": kind} if kind else {}
    for content in (b"", b"{}"):
        answer = site.client.post("/v1/datastreams/orders/pause", content=content, headers=sent)
        assert (answer.status_code, answer.json()["kind"]) == (415, "BodyNotJson")
    assert site.stored("orders").status == "READY"
    empty = site.client.post(
        "/v1/datastreams/orders/pause", content=b"", headers={"Content-Type": "application/json"}
    )
    assert empty.status_code == 400
    for action, kind in (("pause", "application/json"), ("resume", "Application/JSON; charset=utf-8")):
        answer = site.client.post(
            f"/v1/datastreams/orders/{action}", content=b"{}", headers={"Content-Type": kind}
        )
        assert answer.status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("kind", ["", "text/html", "application/octet-stream"])
def test_a_change_needs_a_body_of_json(method: str, kind: str) -> None:
    site = Site()
    site.create()
    sent = {"If-Match": "*"} | ({"Content-Type": kind} if kind else {})
    answer = site.client.request(method, "/v1/datastreams/orders", content=b"{}", headers=sent)
    assert (answer.status_code, answer.json()["kind"]) == (415, "BodyNotJson")
    merge_patch = {**sent, "Content-Type": "application/merge-patch+json"}
    answer = site.client.patch("/v1/datastreams/orders", content=b'{"owner": "x"}', headers=merge_patch)
    assert answer.status_code == 200


def test_actions_of_brooklins_clients_have_no_body() -> None:
    site = Site()
    site.create()
    assert site.client.post("/datastream/orders?action=pause").status_code == 200
    assert site.stored("orders").status == "PAUSED"
