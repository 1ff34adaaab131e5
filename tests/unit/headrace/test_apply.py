"""Test `headrace apply`: changes are shown before they are made, concurrent changes not overwritten."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.console.client import RestClient
from headrace.console.datastreams.difference import PruneScope, StepKind, carry_out, find_difference
from headrace.console.datastreams.manifests import read_manifests
from mirror.errors import InvalidRequest
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace, Serve

ORDERS = """
name: orders
owner: team-a
source: {cluster: source, topics: t}
limits: {max_tasks: 4}
"""
CLICKS = """
name: clicks
owner: team-a
source: {cluster: source, topics: u}
destination: {cluster: destination, name: copy.*}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "datastreams.yaml"
    file.write_text(f"{ORDERS}---{CLICKS}")
    return file


def names(site: Site) -> dict[str, str]:
    return {one["name"]: one["status"] for one in site.client.get("/v1/datastreams").json()}


def get(site: Site, name: str) -> dict[str, Any]:
    found: dict[str, Any] = site.client.get(f"/v1/datastreams/{name}").json()
    return found


def test_what_is_missing_is_created_and_then_nothing_is_to_be_done(
    site: Site, headrace: Headrace, file: Path
) -> None:
    done = headrace("apply", "-f", str(file), "--yes")
    assert done.code == 0, done.err
    for text in (
        "/limits/max_tasks",
        "2 to create",
        "orders: created",
        "clicks: created",
    ):
        assert text in done.out
    assert set(names(site)) == {"orders", "clicks"}
    site.tick()
    again = headrace("apply", "-f", str(file), "--yes")
    assert (again.code, again.err) == (0, "")
    assert re.findall(r"\d+", again.out.splitlines()[-1]) == ["0", "0", "0", "2"]
    assert headrace("apply", "-f", str(file), "--check").code == 0


def test_a_change_is_shown_with_its_lanes_before_it_is_made(
    site: Site, headrace: Headrace, file: Path
) -> None:
    headrace("apply", "-f", str(file), "--yes")
    site.tick()
    file.write_text(
        file.read_text().replace("topics: t", "topics: nothing").replace("max_tasks: 4", "max_tasks: 5")
    )
    for option, code in (("--dry-run", 0), ("--check", 3)):
        shown = headrace("apply", "-f", str(file), option)
        assert shown.code == code, shown.err
        for text in (
            "orders would change",
            "/limits/max_tasks",
            "/source/topics",
            "2 partitions would stop",
            "t-0",
        ):
            assert text in shown.out
        assert get(site, "orders")["limits"]["max_tasks"] == 4
    assert headrace("apply", "-f", str(file), "--yes", "--reason", "ticket 7", "--by", "me").code == 0
    assert get(site, "orders")["limits"]["max_tasks"] == 5


def test_what_is_left_out_of_a_file_has_its_default_again(site: Site, headrace: Headrace, file: Path) -> None:
    headrace("apply", "-f", str(file), "--yes")
    file.write_text(file.read_text().replace("limits: {max_tasks: 4}\n", ""))
    assert headrace("apply", "-f", str(file), "--yes").code == 0
    assert get(site, "orders")["limits"]["max_tasks"] is None


def test_objectives_of_a_file_are_applied(site: Site, headrace: Headrace, file: Path) -> None:
    headrace("apply", "-f", str(file), "--yes")
    file.write_text(f"{ORDERS}objectives:\n- {{milliseconds: 2000, target_percent: 99.5}}\n---{CLICKS}")
    done = headrace("apply", "-f", str(file), "--yes")
    assert (done.code, "/objectives" in done.out) == (0, True), done.err
    (found,) = get(site, "orders")["objectives"]
    assert (found["milliseconds"], found["target_percent"], found["window_seconds"]) == (2000, 99.5, 60)
    assert headrace("apply", "-f", str(file), "--check").code == 0


def test_what_get_shows_can_be_applied(site: Site, headrace: Headrace, file: Path, tmp_path: Path) -> None:
    headrace("apply", "-f", str(file), "--yes")
    site.tick()
    site.client.post("/v1/datastreams/orders/pause", json={"reason": "failover"})
    for command in ("list", "get"):
        for output in ("yaml", "json"):
            name = () if command == "list" else ("orders",)
            copy = tmp_path / f"{command}.{output}"
            copy.write_text(headrace("datastream", command, *name, "-o", output).out)
            done = headrace("apply", "-f", str(copy), "--check")
            assert done.code == 0, (command, output, done.out, done.err)
    assert names(site)["orders"] == "PAUSED"


def test_a_folder_and_stdin_are_read(
    site: Site, headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.yml").write_text(ORDERS)
    (folder / "notes.txt").write_text("not: yaml: at all")
    monkeypatch.setattr(sys, "stdin", io.StringIO(CLICKS))
    assert headrace("apply", "-f", str(folder), "-f", "-", "--yes").code == 0
    assert set(names(site)) == {"orders", "clicks"}


def test_nothing_is_deleted_that_is_not_the_owners(site: Site, headrace: Headrace, file: Path) -> None:
    headrace("apply", "-f", str(file), "--yes")
    site.create("theirs", owner="team-b", metadata={}, destination={"cluster": "destination", "name": "b.*"})
    file.write_text(ORDERS)
    assert headrace("apply", "-f", str(file), "--yes").code == 0
    shown = headrace("apply", "-f", str(file), "--prune", "--owner", "team-a", "--check")
    assert shown.code == 3
    assert "clicks (owner team-a)" in shown.out
    assert "1 to delete" in shown.out
    assert "theirs" not in shown.out
    assert headrace("apply", "-f", str(file), "--prune", "--owner", "team-a", "--yes").code == 0
    assert names(site)["clicks"] == "DELETING"
    assert {"orders", "theirs"} <= set(names(site))
    assert headrace("apply", "-f", str(file), "--prune", "--owner", "team-a", "--check").code == 0


def test_a_label_limits_what_is_deleted(site: Site, headrace: Headrace, file: Path) -> None:
    for name, label in (("ours", "ci"), ("others", "hand")):
        place = {"cluster": "destination", "name": f"{name}.*"}
        site.create(name, destination=place, metadata={"owner": "team-a", "made-by": label})
    done = headrace("apply", "-f", str(file), "--prune", "--label", "made-by=ci", "--yes")
    assert done.code == 0, done.err
    assert names(site)["ours"] == "DELETING"
    assert names(site)["others"] == "READY"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prune", "--yes"], "--owner"),
        (["--owner", "me", "--yes"], "--prune"),
        (["--prune", "--label", "x", "--yes"], "--label"),
        ([], "--yes"),
        (["--json"], "--yes"),
    ],
)
def test_wrong_use_does_nothing(
    options: list[str], said: str, site: Site, headrace: Headrace, file: Path
) -> None:
    done = headrace("apply", "-f", str(file), *options)
    assert done.code == 2
    assert said in done.err
    assert names(site) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("source: {}", "has no name"),
        (f"{ORDERS}---{ORDERS}", "orders is defined"),
        ("just a text", "has no name"),
        ("", "no definition"),
        ("name: orders\nname: orders", "duplicate"),
    ],
)
def test_files_that_are_no_definitions_are_refused_whole(
    text: str, said: str, site: Site, headrace: Headrace, file: Path
) -> None:
    file.write_text(text)
    done = headrace("apply", "-f", str(file), "--yes")
    assert done.code == 2
    assert said in done.err


def test_nothing_is_done_where_a_change_cannot_be(site: Site, headrace: Headrace, file: Path) -> None:
    site.create("orders", owner="team-a", metadata={})
    file.write_text(file.read_text().replace("cluster: source, topics: t", "cluster: destination, topics: t"))
    done = headrace("apply", "-f", str(file), "--yes")
    assert done.code == 1
    assert "cannot apply orders" in done.err
    assert "/source/cluster" in done.err
    assert set(names(site)) == {"orders"}


def test_what_changed_since_it_was_shown_is_refused(site: Site, serve: Serve, file: Path) -> None:
    site.create("orders", owner="team-a", metadata={})
    gone = {"cluster": "destination", "name": "gone.*"}
    site.create("gone", owner="team-a", metadata={}, destination=gone)
    client = RestClient("test")
    found = find_difference(client, read_manifests([str(file)]), PruneScope("team-a"))
    assert [(step.kind, step.name) for step in found.steps] == [
        (StepKind.CHANGE, "orders"),
        (StepKind.CREATE, "clicks"),
        (StepKind.DELETE, "gone"),
    ]
    for name, body in (("orders", {"limits": {"max_tasks": 7}}), ("gone", {"limits": {"max_tasks": 7}})):
        changed = site.client.patch(f"/v1/datastreams/{name}", json=body, headers={"If-Match": "*"})
        assert changed.status_code == 200, changed.text
    place = {"cluster": "destination", "name": "other.*"}
    site.create("clicks", owner="somebody", metadata={}, destination=place)
    failed = carry_out(client, found.steps, "", "")
    assert set(failed) == {"orders", "clicks", "gone"}
    assert get(site, "orders")["limits"]["max_tasks"] == 7
    assert get(site, "clicks")["owner"] == "somebody"
    assert get(site, "gone")["status"] == "READY"


def test_where_nobody_answers_the_rest_is_not_tried(site: Site, serve: Serve, file: Path) -> None:
    client = RestClient("test")
    found = find_difference(client, read_manifests([str(file)]), None)

    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("gone")

    serve(httpx.MockTransport(away))
    failed = carry_out(RestClient("test"), found.steps, "", "")
    assert failed["clicks"] == "not tried"
    assert failed["orders"].startswith("outcome unknown")


def test_the_answer_for_programs(site: Site, headrace: Headrace, file: Path) -> None:
    site.create("orders", owner="team-a", metadata={})
    found = json.loads(headrace("apply", "-f", str(file), "--check", "--json").out)
    assert [one["name"] for one in found["create"]] == ["clicks"]
    assert [one["name"] for one in found["change"]] == ["orders"]
    assert (found["applied"], found["failed"], found["refused"]) == (False, {}, {})
    done = json.loads(headrace("apply", "-f", str(file), "--yes", "--json").out)
    assert done["applied"] is True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_a_person_is_asked(
    answer: str, code: int, site: Site, headrace: Headrace, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Keyboard(answer))
    done = headrace("apply", "-f", str(file))
    assert done.code == code
    assert "changes?" in done.err
    assert bool(names(site)) is (code == 0)
    assert ("no changes" in done.err) is (code == 1)


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        read_manifests([str(file)])
    with file.open("wb") as grown:
        grown.truncate(17 * 1024 * 1024)
    with pytest.raises(InvalidRequest, match="larger than 16 MiB"):
        read_manifests([str(file)])
