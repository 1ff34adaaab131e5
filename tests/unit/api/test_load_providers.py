"""Test load providers chosen by datastreams, on /v1 and on Brooklin's interface."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from httpx import Response

from mirror.model.topics import TopicDescription
from tests.fakes.site import Site, a_body

PATH: Final = "/v1/datastreams/orders"
POINTER: Final = "/placement/load_provider"
GROUP: Final = {"owner": "tests", "system.taskPrefix": "shared"}
HOSTILE: Final = ("", " ", "x" * 64, "x" * 100_000, "a\x00b", "a\nb", "a\x1b[31m", "é", "-a", "a,b", "../a")
"""Texts that are not the name of a load provider."""
INSTALLED: Final = {"self", "pinot", "none", "steady"}
SURROGATE: Final = "\ud800"
"""A character that cannot be encoded as JSON."""


def named(value: object) -> str:
    """Return a short id for a parametrized test."""
    return ascii(value)[:20]


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the metadata of a package with a load provider, as pip does, without importing it."""
    folder = tmp_path / "plug_in-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[headrace.load_providers]\nsteady = plug_in:steady\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+", text))


def body(provider: Any, name: str = "orders", **more: Any) -> dict[str, Any]:
    return a_body(name, placement={"load_provider": provider}, **more)


def keys(provider: str) -> dict[str, str]:
    return {"owner": "tests", "headrace-placement": f"provider {provider}"}


def patch(site: Site, changes: Any, name: str = "orders", **query: str) -> Response:
    """Send the changes as JSON, including values of wrong types."""
    headers = {"If-Match": "*", "content-type": "application/json"}
    return site.client.patch(
        f"/v1/datastreams/{name}", content=json.dumps(changes), headers=headers, params=query
    )


def post(site: Site, document: Any, path: str = "/v1/datastreams") -> Response:
    return site.client.post(path, content=json.dumps(document), headers={"content-type": "application/json"})


def restli(metadata: dict[str, str], name: str = "old", topics: str = "t") -> dict[str, Any]:
    """Return the body of a creation on Brooklin's interface."""
    return {
        "name": name,
        "connectorName": "headrace",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": f"kafka://source-host:9092/{topics}"},
        "metadata": metadata,
    }


def updated(site: Site, **metadata: str) -> Response:
    """Send the datastream back over Brooklin's interface with other metadata."""
    entity = site.client.get("/datastream/orders").json()
    entity["metadata"] |= metadata
    return site.client.put("/datastream/orders", json=entity)


@pytest.mark.usefixtures("plug_in")
def test_a_provider_that_is_not_installed_is_refused_with_those_that_are(site: Site) -> None:
    answers = [post(site, body("gone")), post(site, a_body(metadata=keys("gone")))]
    site.create()
    changes = {"placement": {"load_provider": "gone"}}
    answers += [patch(site, changes), patch(site, changes, dry_run="true")]
    answers += [patch(site, {"metadata": keys("gone")})]
    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["kind"]) == (400, "InvalidRequest"), answer.text
        assert [one["pointer"] for one in problem["errors"]] == [POINTER]
        assert "'gone'" in problem["detail"]
        assert words(problem["advice"]) >= INSTALLED
    for answer in (post(site, restli(keys("gone")), "/datastream"), updated(site, **keys("gone"))):
        assert answer.status_code == 400, answer.text
        assert "'gone'" in answer.text
        assert words(answer.text) >= INSTALLED
    assert "headrace-placement" not in site.stored("orders").metadata


@pytest.mark.usefixtures("plug_in")
@pytest.mark.parametrize("name", ["self", "pinot", "none", "steady"])
def test_a_provider_that_is_installed_is_taken_over_both_interfaces(site: Site, name: str) -> None:
    created = post(site, body(name))
    assert created.status_code == 201, created.text
    assert created.json() == site.client.get(PATH).json()
    assert created.json()["placement"]["load_provider"] == name
    brooklin = site.client.get("/datastream/orders").json()
    assert brooklin["metadata"]["headrace-placement"] == f"provider {name}"
    assert post(site, restli(keys(name), topics="u"), "/datastream").status_code == 201
    assert site.client.get("/v1/datastreams/old").json()["placement"]["load_provider"] == name
    assert patch(site, {"placement": {"load_provider": None}}).json()["placement"]["load_provider"] is None
    assert updated(site, **keys(name)).status_code == 200
    assert site.client.get(PATH).json()["placement"]["load_provider"] == name


@pytest.fixture
def group(site: Site) -> Site:
    """Return a site with two datastreams that share tasks: `a` has topic t and `b` topic u."""
    site.source.create(TopicDescription("u", 2))
    site.create("a", metadata=GROUP)
    site.create("b", metadata=GROUP, source={"cluster": "source", "topics": "u"})
    return site


def test_members_that_choose_a_provider_choose_the_same(group: Site) -> None:
    own, count = ({"placement": {"load_provider": name}} for name in ("self", "none"))
    assert patch(group, own, "b").status_code == 200, "the other member has no preference"
    for query in ({"dry_run": "true"}, {}):
        refused = patch(group, count, "a", **query)
        assert (refused.status_code, "load provider" in refused.text) == (400, True)
    late = a_body("c", metadata=GROUP, source={"cluster": "source", "topics": "v"})
    refused = post(group, late | count)
    assert (refused.status_code, "load provider" in refused.text) == (400, True)
    over_brooklin = restli(keys("none") | GROUP, "d", "w")
    refused = post(group, over_brooklin, "/datastream")
    assert (refused.status_code, "load provider" in refused.text) == (400, True)
    assert post(group, late | own).status_code == 201
    assert patch(group, own, "a").status_code == 200
    for name in "abc":
        assert patch(group, {"placement": None}, name).status_code == 200
    assert patch(group, count, "a").status_code == 200


@pytest.mark.parametrize("hostile", [*HOSTILE, 5, 1.5, True, [], ["self"], {}, {"name": "self"}], ids=named)
def test_what_names_no_provider_is_refused_by_the_field(site: Site, hostile: Any) -> None:
    site.create()
    before = site.stored("orders")
    changes = {"placement": {"load_provider": hostile}}
    answers = [post(site, body(hostile, "other")), patch(site, changes), patch(site, changes, dry_run="true")]
    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["kind"]) == (400, "InvalidRequest"), answer.text
        assert [one["pointer"] for one in problem["errors"]] == [POINTER], problem
        assert len(answer.content) < 2_000, "the value must not be echoed in full"
        assert answer.text.isprintable()
    assert site.stored("orders") == before
    assert [one["name"] for one in site.client.get("/v1/datastreams").json()] == ["orders"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=named)
def test_a_key_that_names_no_provider_is_refused_over_both_interfaces(site: Site, hostile: str) -> None:
    site.create()
    before = site.stored("orders")
    created = post(site, a_body("other", metadata=keys(hostile)))
    changed = patch(site, {"metadata": keys(hostile)})
    over_brooklin = post(site, restli(keys(hostile)), "/datastream")
    assert (created.status_code, created.json()["kind"]) == (400, "InvalidRequest"), created.text
    assert (changed.status_code, changed.json()["kind"]) == (422, "RefusedFields"), changed.text
    assert over_brooklin.status_code == 400, over_brooklin.text
    for answer in (created, changed):
        assert [one["pointer"] for one in answer.json()["errors"]] == ["/metadata/headrace-placement"]
    assert "headrace-placement" in over_brooklin.text
    assert max(len(one.content) for one in (created, changed, over_brooklin)) < 4_000
    assert site.stored("orders") == before
    assert [one["name"] for one in site.client.get("/v1/datastreams").json()] == ["orders"]


def test_half_of_a_character_is_refused_wherever_it_stands(site: Site) -> None:
    site.create()
    before = site.stored("orders")
    for answer in (
        post(site, body(SURROGATE, "other")),
        post(site, a_body("other", metadata=keys(SURROGATE))),
        patch(site, {"placement": {"load_provider": SURROGATE}}),
        patch(site, {"metadata": keys(SURROGATE)}),
        post(site, restli(keys(SURROGATE)), "/datastream"),
    ):
        assert answer.status_code == 400, answer.text
        assert answer.text.isascii()
    assert site.stored("orders") == before
