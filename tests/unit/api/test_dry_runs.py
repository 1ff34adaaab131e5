"""Test dry runs of creations, deletions, actions and moves: they report the effect and change nothing."""

from __future__ import annotations

from typing import Any, Final

import pytest
from httpx import Response

from mirror.model.topics import TopicDescription
from tests.fakes.site import Site, a_body, settle, two_sites
from tests.unit.api.test_plans import make_heavy

PATH: Final = "/v1/datastreams/orders"
DRY: Final = {"dry_run": "true"}
ACTIONS: Final[dict[str, tuple[str, str, Any]]] = {
    "pause": ("POST", f"{PATH}/pause", {}),
    "stop": ("POST", f"{PATH}/stop", {"reason": "x"}),
    "resume": ("POST", f"{PATH}/resume", {}),
    "delete": ("DELETE", PATH, None),
    "pause-partitions": ("POST", f"{PATH}/pause-partitions", {"partitions": {"t": "1"}}),
    "resume-partitions": ("POST", f"{PATH}/resume-partitions", {"partitions": {"t": "0"}}),
}


@pytest.fixture
def two(site: Site) -> Site:
    """Return a site with two datastreams, both with lanes."""
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
    ("action", "status", "left"), [("pause", "PAUSED", 1), ("stop", "STOPPING", 0), ("delete", "DELETING", 0)]
)
def test_what_would_stop_is_said_and_goes_on(two: Site, action: str, status: str, left: int) -> None:
    before = two.client.get(PATH)
    answer = ask(two, action, dry_run="true")
    assert summary(answer) == ([("/status", "READY", status)], [], ["t-0", "t-1"], (1, left))
    assert {one["from_instance"] for one in answer.json()["stops"]} == {"one"}
    two.tick()
    after = two.client.get(PATH)
    assert (after.json(), after.headers["ETag"]) == (before.json(), before.headers["ETag"])
    assert lanes(two) == {"t-0", "t-1", "u-0", "u-1"}
    told = [one["sentence"] for one in two.client.get("/v1/events").json() if one["kind"] == "command"]
    assert all("created" in one for one in told)
    assert ask(two, action).status_code in {200, 202}
    two.tick()
    assert lanes(two) == {"u-0", "u-1"}, "the dry run must predict the result"
    tasks = two.client.get("/v1/plan").json()["tasks"]
    assert [one["datastream"] for one in tasks] == ["orders"] * left + ["users"]


def test_what_would_start_again_is_said(two: Site) -> None:
    ask(two, "pause")
    two.tick()
    answer = ask(two, "resume", dry_run="true")
    assert summary(answer) == ([("/status", "PAUSED", "READY")], ["t-0", "t-1"], [], (1, 1))
    two.tick()
    assert lanes(two) == {"u-0", "u-1"}


def test_a_pause_and_a_resume_leave_every_partition_in_its_task(two: Site) -> None:
    make_heavy(two)
    two.client.post("/v1/rebalance", json={"datastream": "orders", "full": True})
    two.tick()
    before = two.client.get("/v1/plan").json()
    assert len([one for one in before["tasks"] if one["datastream"] == "orders"]) == 2
    for action, left in (("pause", {"u-0", "u-1"}), ("resume", {"t-0", "t-1", "u-0", "u-1"})):
        shown = ask(two, action, dry_run="true").json()
        assert (shown["tasks_before"], shown["tasks_after"]) == (2, 2)
        ask(two, action)
        two.tick(2)
        now = two.client.get("/v1/plan").json()
        assert (now["epoch"], now["tasks"]) == (before["epoch"], before["tasks"])
        assert lanes(two) == left


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


def test_a_move_is_shown_with_its_lanes_and_what_it_costs_and_comes_true() -> None:
    one, two = two_sites()
    one.create()
    settle(one, two)
    make_heavy(one)
    (task,) = one.client.get("/v1/plan").json()["tasks"]
    there = "two" if task["instance"] == "one" else "one"
    body = {"partitions": ["t-1", "t-9"], "instance": there}
    before = one.server.dump()
    answer = one.client.post(f"{PATH}/move", json=body, params=DRY)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert one.server.dump() == before
    assert "location" not in answer.headers
    (lane,) = found["moves"]
    assert lane == {
        "partition": "t-1",
        "from_task": "orders-0",
        "to_task": "orders-1",
        "from_instance": task["instance"],
        "to_instance": there,
        "reason": "",
        "bytes_per_second": 80.0,
        "backlog_records": None,
    }
    assert (found["changes"], found["starts"], found["stops"], found["restarts"]) == ([], [], [], [])
    assert (found["tasks_before"], found["tasks_after"]) == (1, 2)
    assert found["interrupted_bytes_per_second"] == 80.0
    (reason,) = found["reasons"]
    assert "t-9" in reason
    assert one.client.post(f"{PATH}/move", json=body).status_code == 202
    settle(one, two)
    homes = {one["task"]: one["instance"] for one in two.client.get("/v1/plan").json()["tasks"]}
    assert homes == {"orders-0": task["instance"], "orders-1": there}, "the dry run must predict the result"


def test_what_a_move_would_not_move_is_said(two: Site) -> None:
    def reasons(*partitions: str) -> Any:
        body = {"partitions": partitions, "instance": "one"}
        found = two.client.post(f"{PATH}/move", json=body, params=DRY).json()
        assert (found["moves"], found["interrupted_bytes_per_second"]) == ([], 0)
        return found["reasons"]

    (settled,) = reasons("t-0")
    assert settled.startswith("t-0: ")
    (nothing,) = reasons("t-8", "t-9")
    assert "would fail" in nothing
    names = [f"x-{number}" for number in range(12)]
    assert "x-0, x-1, x-2, x-3, x-4, x-5, x-6, x-7, x-8, x-9 and 2 more: " in reasons("t-0", *names)[0]


def test_a_move_of_what_is_paused_changes_its_task_only() -> None:
    one, two = two_sites()
    one.create()
    settle(one, two)
    one.client.post(f"{PATH}/pause-partitions", json={"partitions": {"t": "1"}})
    settle(one, two)
    (task,) = one.client.get("/v1/plan").json()["tasks"]
    there = "two" if task["instance"] == "one" else "one"
    body = {"partitions": ["t-1"], "instance": there}
    found = one.client.post(f"{PATH}/move", json=body, params=DRY).json()
    assert (found["moves"], found["tasks_after"]) == ([], 2)
    (reason,) = found["reasons"]
    assert reason.startswith("t-1: ")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"partitions": ["t-0"], "instance": "nobody"}, {}, 400),
        ({"partitions": ["?"], "instance": "one"}, {}, 400),
        ({"partitions": ["t-0"], "instance": "one"}, {"If-Match": '"0-0"'}, 412),
    ],
)
def test_a_dry_run_of_a_move_is_refused_as_the_move_would_be(
    two: Site, body: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    answers = [
        two.client.post(f"{PATH}/move", json=body, params=query, headers=headers) for query in (DRY, {})
    ]
    assert [one.status_code for one in answers] == [status, status]
    assert answers[0].json()["detail"] == answers[1].json()["detail"]
    ask(two, "pause")
    assert two.client.post(f"{PATH}/move", json=body, params=DRY).status_code in {400, 409}
