"""Test filters and pagination of GET /v1/datastreams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, get_args
from urllib.parse import parse_qs, urlsplit

import pytest
from httpx import Client

from api.resources.datastreams.datastreams import ListedStatus
from mirror.model.datastreams.datastream import DatastreamStatus
from tests.builders import a_datastream
from tests.fakes.site import Site

PATH: Final = "/v1/datastreams"


def names(client: Client, **query: Any) -> list[str]:
    answer = client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()]


def pages(client: Client, **query: Any) -> Iterator[list[str]]:
    """Yield the pages, following the `next` links as a client does."""
    answer = client.get(PATH, params=query)
    while True:
        assert answer.status_code == 200, answer.text
        yield [one["name"] for one in answer.json()]
        further = answer.links.get("next")
        if further is None:
            return
        answer = client.get(further["url"])


@pytest.fixture
def crowd(site: Site) -> Site:
    """Return a site with `d-0` to `d-9`, of three owners, and a definition that cannot be parsed."""
    for number in range(10):
        status = DatastreamStatus.PAUSED if number % 3 == 0 else DatastreamStatus.READY
        owner = ("odd & 100%" if number % 2 else "even", "x")[number == 8]
        metadata = {"owner": owner, "system.creation.ms": "1"}
        site.definitions.create(a_datastream(f"d-{number}", f"t-{number}", status=status, metadata=metadata))
    site.session.create("/datastreams/broken", b"{")
    return site


def test_filters_leave_what_has_all_that_they_say(crowd: Site) -> None:
    client = crowd.client
    assert len(names(client)) == 11
    assert names(client, owner="even") == ["d-0", "d-2", "d-4", "d-6"]
    assert names(client, owner="even", status="PAUSED") == ["d-0", "d-6"]
    assert names(client, status=["PAUSED", "DAMAGED"]) == ["broken", "d-0", "d-3", "d-6", "d-9"]
    assert names(client, owner="nobody") == names(client, owner="") == []
    assert len(names(client, source="source", destination="destination")) == 10
    assert len(names(client, source="source-host:9092")) == 10
    assert names(client, source="destination") == names(client, destination="elsewhere:1") == []


def test_every_status_can_be_asked_for(client: Client) -> None:
    assert set(get_args(ListedStatus)) == {*DatastreamStatus, "DAMAGED"}


def test_pages_lead_from_one_to_the_next(crowd: Site) -> None:
    everything = names(crowd.client)
    for limit in (1, 2, 3, 5, 10, 11, 1000):
        found = list(pages(crowd.client, limit=limit))
        assert [one for page in found for one in page] == everything
        assert all(len(page) == limit for page in found[:-1])
        assert 1 <= len(found[-1]) <= limit
    assert list(pages(crowd.client, limit=2, owner="odd & 100%", status=["READY", "PAUSED"])) == [
        ["d-1", "d-3"],
        ["d-5", "d-7"],
        ["d-9"],
    ]
    assert "link" not in crowd.client.get(PATH).headers


def test_what_comes_and_goes_meanwhile_moves_nothing(crowd: Site) -> None:
    found = pages(crowd.client, limit=3)
    assert next(found) == ["broken", "d-0", "d-1"]
    crowd.definitions.create(a_datastream("a", "t-a", metadata={"owner": "x"}))
    crowd.definitions.create(a_datastream("d-10", "t-b", metadata={"owner": "x"}))
    for gone in ("d-0", "d-1", "d-5"):
        crowd.definitions.remove(crowd.stored(gone).name)
    assert list(found) == [["d-10", "d-2", "d-3"], ["d-4", "d-6", "d-7"], ["d-8", "d-9"]]


def test_names_of_any_kind_are_cursors(site: Site) -> None:
    hostile = sorted(["größe", "数据", "a b", "a&cursor=x", "a>; rel=x", '"', "~", "a%2Fb"])
    for name in hostile:
        site.definitions.create(a_datastream(name, "t", metadata={"owner": "x"}))
    assert [one for page in pages(site.client, limit=1) for one in page] == hostile
    link = site.client.get(PATH, params={"limit": 1, "owner": "x"}).links["next"]["url"]
    assert set(parse_qs(urlsplit(link).query)) == {"owner", "limit", "cursor"}


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": -1},
        {"limit": 1001},
        {"limit": "many"},
        {"limit": ""},
        {"status": "RUNNING"},
        {"status": ["READY", "ready"]},
        {"cursor": "%"},
        {"cursor": "a"},
        {"cursor": "größe"},
        {"cursor": "_____w"},
        {"cursor": "b3JkZXJz=b3JkZXJz"},
        {"cursor": "a" * 50_001},
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_cannot_be_asked_is_refused(crowd: Site, query: dict[str, Any]) -> None:
    answer = crowd.client.get(PATH, params=query)
    assert (answer.status_code, answer.json()["kind"]) == (400, "InvalidRequest")
    assert len(answer.content) < 2_000
