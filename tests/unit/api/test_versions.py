"""Test If-Match and ETag on every write of /v1/datastreams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from httpx import Client, Response

from mirror.coordination.stores.definitions import DefinitionStore
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from tests.fakes.node_store import Operation
from tests.fakes.site import Site

PATH: Final = "/v1/datastreams/orders"
WRITES: Final[dict[str, tuple[str, str, Any]]] = {
    "pause": ("POST", "/pause", {}),
    "stop": ("POST", "/stop", {"reason": "x"}),
    "pause-partitions": ("POST", "/pause-partitions", {"partitions": {"t": "0"}}),
    "resume-partitions": ("POST", "/resume-partitions", {"partitions": {"t": "1"}}),
    "restart-from": ("POST", "/restart-from", {"start": "earliest"}),
    "move": ("POST", "/move", {"partitions": ["t-0"], "instance": "one"}),
    "delete": ("DELETE", "", None),
    "patch": ("PATCH", "", {"metadata": {"note": "n"}}),
}
NO_TAGS: Final = ("", "1-0", '"', '"a" "b"', '"a"; x', "*, *", '"a\tb"', "\xe9", " " * 9_000 + "x")
STALE: Final = ('"1-0"', "W/{}", '"a,b"', '"\xe9"', '"x"' + ', "x"' * 1000)


@pytest.fixture
def orders(site: Site) -> str:
    """Create a READY datastream with a paused partition and return its ETag."""
    site.create()
    answer = site.client.post(f"{PATH}/pause-partitions", json={"partitions": {"t": "1"}})
    return str(answer.headers["ETag"])


def write(client: Client, kind: str, *tags: str) -> Response:
    method, path, body = WRITES[kind]
    headers = [("If-Match", one.encode("latin-1")) for one in tags]
    return client.request(method, PATH + path, json=body, headers=[(a.encode(), b) for a, b in headers])


def state(site: Site) -> tuple[Datastream, int, int]:
    stored = site.definitions.get(site.stored("orders").name)
    return stored.datastream, stored.version, len(site.leader.stores.requests.pending())


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_of_the_version_that_was_read_is_answered_with_the_next_one(
    site: Site, orders: str, kind: str
) -> None:
    assert site.client.get(PATH).headers["ETag"] == orders
    answer = write(site.client, kind, f'"other", {orders}')
    assert answer.status_code < 300, answer.text
    assert (answer.headers["ETag"] == orders) == (kind == "move"), "a move does not change the definition"
    assert site.client.get(PATH).headers["ETag"] == answer.headers["ETag"]
    if kind != "move":
        assert answer.json() == site.client.get(PATH).json()
        assert write(site.client, kind, orders).status_code == 412


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_of_another_version_writes_nothing(site: Site, orders: str, kind: str) -> None:
    before = state(site)
    for tag in STALE:
        answer = write(site.client, kind, tag.format(orders))
        assert (answer.status_code, answer.json()["kind"]) == (412, "StaleVersion"), tag
    assert state(site) == before
    assert write(site.client, kind, '"other"', orders).status_code < 300, "two headers count as one list"


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("tag", NO_TAGS, ids=range(len(NO_TAGS)))
def test_what_is_no_tag_is_refused(site: Site, orders: str, kind: str, tag: str) -> None:
    before = state(site)
    answer = write(site.client, kind, tag)
    assert (answer.status_code, answer.json()["kind"]) == (400, "InvalidRequest")
    assert len(answer.content) < 1_000
    assert state(site) == before


@pytest.mark.parametrize("kind", [one for one in WRITES if one != "patch"])
def test_actions_need_no_version(site: Site, orders: str, kind: str) -> None:
    assert write(site.client, kind).status_code < 300
    if kind not in {"pause", "stop"}:
        assert write(site.client, kind, "*").status_code < 300


@pytest.mark.parametrize("kind", [one for one in WRITES if one != "move"])
def test_who_is_overtaken_after_the_look_at_the_version_writes_nothing(
    site: Site, orders: str, kind: str
) -> None:
    """`move` does not write the definition: it is planned with the current definition."""
    other = DefinitionStore(site.server.session())
    before = other.get(DatastreamName("orders"))
    noted = replace(before.datastream, metadata={**before.datastream.metadata, "note": "2"})

    def overtake(operation: Operation) -> None:
        if operation.name in {"write", "change_together"} and operation.path == "/datastreams/orders":
            site.session.script = lambda _: None
            other.replace(before, noted)

    site.session.script = overtake
    answer = write(site.client, kind, orders)
    assert (answer.status_code, answer.json()["kind"]) == (412, "StaleVersion")
    assert site.stored("orders") == noted


def test_a_damaged_definition_has_no_version(site: Site, orders: str) -> None:
    site.session.write("/datastreams/orders", b"{", site.session.read("/datastreams/orders").version)
    assert "ETag" not in site.client.get(PATH).headers
    assert write(site.client, "delete", orders).status_code == 412
    assert write(site.client, "delete", "*").json()["status"] == "DAMAGED"
    assert site.client.get(PATH).status_code == 404


def test_what_is_asked_again_and_is_so_already_leaves_the_version(site: Site, orders: str) -> None:
    stopping = write(site.client, "stop")
    site.tick()
    stopped = site.client.get(PATH).headers["ETag"]
    assert stopped != stopping.headers["ETag"]
    assert write(site.client, "stop", stopped).headers["ETag"] == stopped


def test_a_tag_that_is_newer_than_what_this_instance_reads_is_looked_up_again(
    site: Site, orders: str
) -> None:
    """The instance's ZooKeeper server may lag behind the server that another instance wrote to."""
    other = DefinitionStore(site.server.session())
    before = other.get(DatastreamName("orders"))
    noted = replace(before.datastream, metadata={**before.datastream.metadata, "note": "2"})

    def arrive(operation: Operation) -> None:
        if operation.name == "sync":
            site.session.script = lambda _: None
            other.replace(before, noted)

    site.session.script = arrive
    newer = orders.replace(f'-{before.version}"', f'-{before.version + 1}"')
    assert newer != orders
    assert write(site.client, "pause", newer).status_code == 200
