"""HEAD has the status and the headers of GET, and no body (RFC 9110)."""

from __future__ import annotations

import pytest
from httpx import Client

from tests.fakes.site import Site

VARYING = {"x-request-id", "content-length"}
PATHS = [
    ("/v1/health", {}),
    ("/v1/ready", {}),
    ("/metrics", {}),
    ("/ui/", {}),
    ("/ui/", {"Accept-Encoding": "gzip"}),
    ("/", {"Accept": "text/html"}),
    ("/v1/datastreams/orders", {}),
    ("/v1/datastreams?limit=1", {}),
    ("/v1/datastreams/nothing", {}),
    ("/v1/nothing", {}),
    ("/v1/rebalance", {}),
]


@pytest.fixture(scope="module")
def client() -> Client:
    site = Site()
    site.create()
    return site.client


@pytest.mark.parametrize(("path", "headers"), PATHS)
def test_head_is_get_without_a_body(client: Client, path: str, headers: dict[str, str]) -> None:
    head, get = (
        client.request(method, path, headers=headers, follow_redirects=False) for method in ("HEAD", "GET")
    )
    assert head.content == b""
    assert head.status_code == get.status_code
    shown = [{name: text for name, text in one.headers.items() if name not in VARYING} for one in (head, get)]
    assert shown[0] == shown[1]


def test_head_of_the_event_stream_ends(client: Client) -> None:
    assert client.head("/v1/events", headers={"Accept": "text/event-stream"}).status_code == 200


def test_a_refused_method_names_head(client: Client) -> None:
    refused = client.request("PURGE", "/v1/datastreams")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD, POST")
    assert client.put("/v1/rebalance", json={}).headers["Allow"] == "POST"


def test_restli_has_no_head(client: Client) -> None:
    assert client.head("/datastream").status_code == 400
