"""Dry runs of creations, deletions, pauses, stops, resumes: what they would do, and that nothing is done."""

from __future__ import annotations

from typing import Any, Final

import pytest
from httpx import Response

from mirror.model.topics import TopicDescription
from tests.fakes.site import Site, a_body

PATH: Final = "/v1/datastreams/orders"
DRY: Final = {"dry_run": "true"}
ACTIONS: Final[dict[str, tuple[str, str, Any]]] = {
    "pause": ("POST", f"{PATH}/pause", None),
    "stop": ("POST", f"{PATH}/stop", {"reason": "x"}),
    "resume": ("POST", f"{PATH}/resume", None),
    "delete": ("DELETE", PATH, None),
    "pause-partitions": ("POST", f"{PATH}/pause-partitions", {"partitions": {"t": "1"}}),
    "resume-partitions": ("POST", f"{PATH}/resume-partitions", {"partitions": {"t": "0"}}),
}


@pytest.fixture
def two(site: Site) -> Site:
    """Two datastreams, of which each has lanes."""
    site.source.create(TopicDescription("u", 2))
    site.create("orders")
    site.create("users", source={"cluster": "source", "topics": "u"})
    return site


def lanes(site: Site) -> set[str]:
    return {str(key.partition) for key in site.follower.workers.lanes}


def ask(
    site: Site, action: str, headers: dict[str, str] | None = None, *, dry_run: str = "false"
) -> Response:
    method, path, body = ACTIONS[action]
    return site.client.request(method, path, json=body, params={"dry_run": dry_run}, headers=headers or {})


def partitions(found: list[dict[str, Any]]) -> list[str]:
    return [one["partition"] for one in found]


def summary(answer: Response) -> tuple[Any, ...]:
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["moves"], found["restarts"]) == ([], [])
    return (
        [(one["field"], one["before"], one["after"]) for one in found["changes"]],
        partitions(found["starts"]),
        partitions(found["stops"]),
        (found["tasks_before"], found["tasks_after"]),
    )


@pytest.mark.parametrize(
    ("action", "status"), [("pause", "PAUSED"), ("stop", "STOPPING"), ("delete", "DELETING")]
)
def test_what_would_stop_is_said_and_goes_on(two: Site, action: str, status: str) -> None:
    before = two.client.get(PATH)
    answer = ask(two, action, dry_run="true")
    assert summary(answer) == ([("/status", "READY", status)], [], ["t-0", "t-1"], (1, 0))
    assert {one["from_instance"] for one in answer.json()["stops"]} == {"one"}
    two.tick()
    after = two.client.get(PATH)
    assert (after.json(), after.headers["ETag"]) == (before.json(), before.headers["ETag"])
    assert lanes(two) == {"t-0", "t-1", "u-0", "u-1"}
    assert [one for one in two.client.get("/v1/events").json() if one["kind"] == "command"] == []
    assert ask(two, action).status_code in {200, 202}
    two.tick()
    assert lanes(two) == {"u-0", "u-1"}, "what was said came true"
    tasks = two.client.get("/v1/plan").json()["tasks"]
    assert [one["datastream"] for one in tasks] == ["users"]


def test_what_would_start_again_is_said(two: Site) -> None:
    ask(two, "pause")
    two.tick()
    answer = ask(two, "resume", dry_run="true")
    assert summary(answer) == ([("/status", "PAUSED", "READY")], ["t-0", "t-1"], [], (0, 1))
    two.tick()
    assert lanes(two) == {"u-0", "u-1"}


def test_pauses_of_partitions_are_shown_by_their_lanes(two: Site) -> None:
    paused = ask(two, "pause-partitions", dry_run="true")
    assert summary(paused) == ([("/pauses/t", None, [1])], [], ["t-1"], (1, 1))
    ask(two, "pause-partitions")
    two.client.post(f"{PATH}/pause-partitions", json={"partitions": {"t": "0"}})
    two.tick()
    resumed = ask(two, "resume-partitions", dry_run="true")
    assert summary(resumed) == ([("/pauses/t", [0, 1], [1])], ["t-0"], [], (1, 1))


def test_a_creation_is_shown_with_its_lanes_and_tasks(two: Site) -> None:
    two.source.create(TopicDescription("v", 2))
    two.tick()
    body = a_body("new", source={"cluster": "source", "topics": "v"}, limits={"max_partitions_per_task": 1})
    answer = two.client.post("/v1/datastreams", json=body, params=DRY)
    changes, starts, stops, tasks = summary(answer)
    assert (starts, stops, tasks) == (["v-0", "v-1"], [], (0, 2))
    ((field, before, after),) = changes
    assert (field, before, after["name"], after["status"]) == ("", None, "new", "INITIALIZING")
    assert two.client.get("/v1/datastreams/new").status_code == 404
    created = two.client.post("/v1/datastreams", json=body)
    assert created.status_code == 201
    two.tick()
    assert lanes(two) >= {"v-0", "v-1"}


def test_a_creation_into_a_group_shows_what_becomes_of_the_others(two: Site) -> None:
    two.source.create(TopicDescription("v", 2))
    two.tick()
    metadata = {"owner": "tests", "system.taskPrefix": "orders"}
    body = a_body("new", source={"cluster": "source", "topics": "v"}, metadata=metadata)
    found = two.client.post("/v1/datastreams", json=body, params=DRY).json()
    assert (partitions(found["starts"]), found["stops"]) == (["v-0", "v-1"], [])
    assert found["tasks_before"] == 1


def test_a_repeated_creation_would_do_nothing(two: Site) -> None:
    key = {"Idempotency-Key": "k"}
    body = a_body("new", source={"cluster": "source", "topics": "nothing"})
    two.client.post("/v1/datastreams", json=body, headers=key)
    again = two.client.post("/v1/datastreams", json=body, headers=key, params=DRY)
    assert summary(again) == ([], [], [], (0, 0))
    other = two.client.post("/v1/datastreams", json=body | {"start": "latest"}, headers=key, params=DRY)
    assert other.status_code == 422


def test_a_dry_run_is_refused_as_the_call_would_be(two: Site) -> None:
    assert ask(two, "resume", dry_run="true").status_code == 409
    assert ask(two, "pause", {"If-Match": '"0-0"'}, dry_run="true").status_code == 412
    assert ask(two, "delete", {"If-Match": "x"}, dry_run="true").status_code == 400
    assert two.client.delete("/v1/datastreams/nobody", params=DRY).status_code == 404
    for wrong, status in (
        (a_body("orders"), 409),
        (a_body("new", source={"cluster": "elsewhere", "topics": "t"}), 400),
        (a_body("new"), 400),
        (a_body("new", metadata={}), 400),
    ):
        answer = two.client.post("/v1/datastreams", json=wrong, params=DRY)
        real = two.client.post("/v1/datastreams", json=wrong)
        assert (answer.status_code, answer.json()["detail"]) == (real.status_code, real.json()["detail"])
        assert answer.status_code in {status, 422}
    assert ask(two, "pause", dry_run="perhaps").status_code == 400
