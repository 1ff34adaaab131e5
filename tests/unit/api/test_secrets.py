"""Test secrets that an earlier version stored: they are never shown, and they stay stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest
from structlog.testing import capture_logs

from mirror.model.datastreams.secrets import REDACTED
from tests.fakes.site import Site, a_body

SECRET: Final = "hunter2"
METADATA: Final = {
    "ssl.key.password": SECRET,
    "note": f"user=me password={SECRET}",
    "headrace.transforms": f"stamp-header:secret={SECRET}",
    "plain": "a note",
}
PATH: Final = "/v1/datastreams/orders"
MATCH: Final = {"If-Match": "*"}


@pytest.fixture
def secretive(site: Site) -> Site:
    """Return a site whose datastream `orders` holds secrets accepted by an earlier version."""
    site.create()
    stored = site.definitions.get(site.stored("orders").name)
    metadata = {**stored.datastream.metadata, **METADATA}
    site.definitions.replace(stored, replace(stored.datastream, metadata=metadata))
    site.tick()
    return site


def is_kept(site: Site) -> bool:
    stored = site.stored("orders").metadata
    return {key: stored.get(key) for key in METADATA} == METADATA


def test_no_answer_and_no_log_has_it(secretive: Site) -> None:
    client = secretive.client
    with capture_logs() as lines:
        answers = [
            client.get(PATH),
            client.get("/v1/datastreams"),
            client.get("/datastream/orders"),
            client.get("/datastream"),
            client.get("/v1/events"),
            client.get("/diag?q=status&type=datastream&content=orders"),
            client.get("/health"),
            client.patch(f"{PATH}?dry_run=true", json={"metadata": {"note": "none"}}, headers=MATCH),
            client.post(f"{PATH}/pause?dry_run=true", json={}),
            client.post(f"{PATH}/pause", json={}),
            client.post("/datastream/orders?action=resume", json={}),
            client.patch(PATH, json={"metadata": {"note": "none", "plain": "b"}}, headers=MATCH),
            client.patch(PATH, json={"policies": {"transforms": []}}, headers=MATCH),
            client.delete(f"{PATH}?dry_run=true"),
            client.delete(PATH),
        ]
        secretive.tick()
    assert [one.text for one in answers if SECRET in one.text] == []
    assert SECRET not in json.dumps(lines, default=str)
    shown = answers[0].json()
    assert shown["metadata"]["ssl.key.password"] == shown["metadata"]["note"] == REDACTED
    assert (shown["metadata"]["plain"], shown["policies"]["transforms"]) == ("a note", [REDACTED])
    assert "secret" in shown["problem"]["reason"]
    assert answers[2].json()["metadata"]["ssl.key.password"] == REDACTED
    change = next(one for one in answers[7].json()["changes"] if one["field"] == "/metadata/note")
    assert (change["before"], change["after"]) == (REDACTED, "none")


def test_what_was_read_can_be_sent_back(secretive: Site) -> None:
    client = secretive.client
    shown = client.get(PATH).json()
    put = client.put(PATH, json={**shown, "limits": {"max_tasks": 3}}, headers=MATCH)
    assert (put.status_code, is_kept(secretive)) == (200, True), put.text
    patch = client.patch(PATH, json={"limits": {"max_tasks": 4}}, headers=MATCH)
    assert (patch.status_code, is_kept(secretive)) == (200, True)
    entity = client.get("/datastream/orders").json()
    entity["metadata"]["maxTasks"] = "5"
    put = client.put("/datastream/orders", json=entity)
    assert (put.status_code, is_kept(secretive)) == (200, True), put.text
    assert secretive.stored("orders").limits.max_tasks == 5


@pytest.mark.parametrize("metadata", [{"note": REDACTED}, {"api-key": REDACTED}])
def test_what_stands_for_a_secret_is_none(secretive: Site, metadata: dict[str, str]) -> None:
    """An export applied elsewhere or under another name must not store the placeholder as the secret."""
    body = a_body("copy", source={"cluster": "source", "topics": "v"}, metadata={"owner": "b", **metadata})
    answer = secretive.client.post("/v1/datastreams", json=body)
    assert (answer.status_code, "secret" in answer.text) == (400, True)
    other = {"metadata": {"plain": REDACTED}}
    assert secretive.client.patch(PATH, json=other, headers=MATCH).status_code in (400, 422)
    assert is_kept(secretive)


def test_it_moves_to_no_other_key(secretive: Site) -> None:
    swapped = {"metadata": {"ssl.key.password": None, "plain": REDACTED}}
    assert secretive.client.patch(PATH, json=swapped, headers=MATCH).status_code in (400, 422)
    assert secretive.client.patch(PATH, json={"metadata": {"note": None}}, headers=MATCH).status_code == 200
    assert "note" not in secretive.stored("orders").metadata
    assert secretive.stored("orders").metadata["ssl.key.password"] == SECRET


def test_a_damaged_definition_does_not_say_it(secretive: Site) -> None:
    path = "/datastreams/orders"
    document = json.loads(secretive.session.read(path).data)
    for value in (f"{SECRET}\x07", [SECRET], 17):
        document["metadata"] |= {"ssl.key.password": value, "note": "x"}
        version = secretive.session.read(path).version
        secretive.session.write(path, json.dumps(document).encode(), version)
        secretive.tick()
        for asked in (PATH, "/v1/datastreams", "/datastream/orders", "/datastream", "/v1/health"):
            assert SECRET not in secretive.client.get(asked).text
