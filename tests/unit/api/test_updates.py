"""Test PUT and PATCH of /v1/datastreams/{name}."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client, Response

from assigner.planner import LoadPlanner
from mirror.coordination.placement import SimplePlanner
from mirror.errors import Unreachable
from mirror.lane.ledger import Ledger
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.datastream import DatastreamStatus, LatencyObjective
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import GroupName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.ports import Planner
from tests.fakes.site import Site, a_body, settle
from tests.unit.api.test_plans import make_heavy

PATHS = "/v1/datastreams"
PATH = f"{PATHS}/orders"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def orders(site: Site) -> str:
    """Create a READY datastream and return its ETag."""
    site.create()
    return str(site.client.get(PATH).headers["ETag"])


def patch(client: Client, etag: str | None, changes: object, **parameters: str) -> Response:
    headers = {"If-Match": etag} if etag is not None else {}
    return client.patch(PATH, json=changes, headers={**headers, **MERGE}, params=parameters)


def copied_to(offset: int, topic: str) -> LaneProgress:
    """Return the stored progress of a lane that has copied up to an offset."""
    return LaneProgress(Ledger(offset), OffsetMap(), target_topic=topic)


def pointers(answer: Response) -> set[str]:
    return {one["pointer"] for one in answer.json()["errors"]}


def test_a_dry_run_says_what_stops_and_what_selects_nothing(site: Site) -> None:
    site.source.create(TopicDescription("clicks", 6))
    site.create(source={"cluster": "source", "topics": "t|clicks"})
    found = patch(site.client, "*", {"source": {"topics": "t|clcks"}}, dry_run="true").json()
    assert len(found["stops"]) == 6
    assert any("clicks (6)" in one for one in found["reasons"])
    assert any("'clcks'" in one for one in found["reasons"])


def test_an_alternative_that_selects_nothing_is_a_remark_until_it_does(site: Site) -> None:
    site.create(source={"cluster": "source", "topics": "t|clcks"})
    problem = site.client.get(PATH).json()["problem"]
    assert "'clcks'" in problem["reason"]
    assert not problem["sets_aside"]
    site.source.create(TopicDescription("clcks", 1))
    settle(site)
    assert site.client.get(PATH).json()["problem"] is None


def test_a_patch_changes_what_it_names_and_answers_the_next_version(site: Site, orders: str) -> None:
    answer = patch(
        site.client,
        orders,
        {
            "source": {"exclude": "x"},
            "limits": {"max_tasks": 4},
            "objective": {"milliseconds": 500},
            "metadata": {"owner": "others", "headrace.bytes-per-second": "1000", "note": "n"},
        },
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["ETag"] != orders
    stored = site.stored("orders")
    assert (stored.selection.include, stored.selection.exclude) == ("t", "x")
    assert (stored.limits, stored.objective) == (TaskLimits(1, 4), LatencyObjective(500))
    assert stored.metadata["owner"] == "others"
    assert stored.policy.bytes_per_second == 1000
    assert stored.status is DatastreamStatus.READY
    read = site.client.get(PATH)
    assert (read.json(), read.headers["ETag"]) == (answer.json(), answer.headers["ETag"])
    again = patch(
        site.client, read.headers["ETag"], {"objective": None, "metadata": {"note": None}, "limits": None}
    )
    assert again.json()["objective"] is None
    assert "note" not in again.json()["metadata"]
    assert site.stored("orders").limits == TaskLimits()


def test_what_a_get_answers_can_be_put_back_changed(site: Site, orders: str) -> None:
    document = site.client.get(PATH).json()
    same = site.client.put(PATH, json=document, headers={"If-Match": orders})
    assert (same.status_code, same.headers["ETag"]) == (200, orders), "nothing must be written"
    document["limits"]["min_tasks"] = 2
    answer = site.client.put(PATH, json=document, headers={"If-Match": orders})
    assert answer.status_code == 200, answer.text
    assert site.stored("orders").limits == TaskLimits(2)


def test_what_is_left_out_of_a_put_has_its_default_and_what_lasts_stays(site: Site, orders: str) -> None:
    patch(site.client, "*", {"limits": {"max_tasks": 4}, "objective": {"milliseconds": 5}})
    body = {"source": {"topics": "t"}, "metadata": {"owner": "me"}}
    answer = site.client.put(PATH, json=body, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.text
    stored = site.stored("orders")
    assert (stored.limits, stored.objective, stored.metadata["owner"]) == (TaskLimits(), None, "me")
    assert stored.destination == "destination"
    assert stored.created_ms is not None


def test_objectives_are_replaced_together_and_taken_away(site: Site, orders: str) -> None:
    wish = {"milliseconds": 2000, "target_percent": 99.5}
    first = patch(site.client, orders, {"objectives": [wish]})
    full = {**wish, "percentile": 99.0, "window_seconds": 60, "period_days": 30}
    assert first.json()["objectives"] == [full]
    assert site.stored("orders").objectives == (Objective(2000, 99.5),)
    plan = patch(site.client, "*", {"objectives": [wish, {**wish, "period_days": 7}]}, dry_run="true").json()
    assert [one["field"] for one in plan["changes"]] == ["/objectives"]
    assert (plan["restarts"], plan["starts"], plan["stops"], plan["moves"]) == ([], [], [], [])
    twice = patch(site.client, "*", {"objectives": [wish, full]})
    assert (twice.status_code, [one["pointer"] for one in twice.json()["errors"]]) == (422, ["/objectives"])
    assert patch(site.client, "*", {"objectives": None}).json()["objectives"] == []
    assert "headrace-objectives" not in site.stored("orders").metadata


def test_choices_about_placement_are_patched_one_by_one_and_taken_away(site: Site, orders: str) -> None:
    nothing = dict.fromkeys(
        (
            "capacity_bytes_per_second",
            "capacity_messages_per_second",
            "utilisation_percent",
            "scale_in_headroom",
            "strategy",
            "load_provider",
        )
    )
    first = patch(site.client, orders, {"placement": {"capacity_bytes_per_second": 2_000_000}})
    assert first.json()["placement"] == {**nothing, "capacity_bytes_per_second": 2_000_000}
    plan = patch(site.client, "*", {"placement": {"utilisation_percent": 50}}, dry_run="true").json()
    assert [one["field"] for one in plan["changes"]] == ["/placement/utilisation_percent"]
    second = patch(site.client, "*", {"placement": {"utilisation_percent": 50}}).json()
    assert second["placement"] == first.json()["placement"] | {"utilisation_percent": 50}
    assert site.stored("orders").metadata["headrace-placement"] == "capacity 2000000, utilisation 50"
    hostile = patch(site.client, "*", {"placement": {"utilisation_percent": 0}})
    assert hostile.status_code == 400
    assert [one["pointer"] for one in hostile.json()["errors"]] == ["/placement/utilisation_percent"]
    assert patch(site.client, "*", {"placement": None}).json()["placement"] == nothing
    assert "headrace-placement" not in site.stored("orders").metadata


def test_a_patch_changes_choices_by_their_fields(site: Site, orders: str) -> None:
    wish = {
        "owner": "others",
        "destination": {"grow_existing": True},
        "guarantee": "at-least-once",
        "policies": {"path": "record", "transforms": ["drop-header:a", "keep-keys:b"]},
        "quota": {"bytes_per_second": 1000},
    }
    answer = patch(site.client, orders, wish, dry_run="true").json()
    assert [one["field"] for one in answer["changes"]] == [
        "/destination/grow_existing",
        "/guarantee",
        "/owner",
        "/policies/path",
        "/policies/transforms",
        "/quota/bytes_per_second",
    ]
    assert patch(site.client, orders, wish).status_code == 200
    stored = site.stored("orders")
    assert {key: value for key, value in stored.metadata.items() if key != "system.creation.ms"} == {
        "owner": "others",
        "headrace.grow-existing": "true",
        "headrace.guarantee": "at-least-once",
        "headrace.path": "record",
        "headrace.transforms": "drop-header:a\nkeep-keys:b",
        "headrace.bytes-per-second": "1000",
    }
    back = {"guarantee": None, "policies": None, "quota": {"bytes_per_second": None}}
    assert patch(site.client, "*", back).status_code == 200
    left = site.stored("orders").metadata.keys() - {"system.creation.ms"}
    assert left == {"owner", "headrace.grow-existing"}


def test_a_choice_may_still_be_changed_by_its_key(site: Site, orders: str) -> None:
    keys = {"owner": "others", "headrace.path": "record", "headrace.bytes-per-second": "5"}
    answer = patch(site.client, orders, {"metadata": keys}).json()
    assert (answer["owner"], answer["policies"]["path"]) == ("others", "record")
    assert (answer["quota"], "headrace.path" in answer["metadata"]) == ({"bytes_per_second": 5}, False)
    patch(site.client, "*", {"metadata": {"headrace.path": None}, "quota": None})
    assert "headrace.path" not in site.stored("orders").metadata
    assert site.stored("orders").policy.bytes_per_second == 0


def test_what_is_written_otherwise_and_means_the_same_stays_as_it_is(site: Site) -> None:
    keys = {
        "headrace.bytes-per-second": "007",
        "headrace.path": "auto",
        "headrace.transforms": "keep-keys:b\n\n",
    }
    site.create(metadata={"owner": "tests", **keys})
    read = site.client.get(PATH)
    etag = {"If-Match": read.headers["ETag"]}
    assert read.json()["policies"]["transforms"] == ["keep-keys:b"]
    same = site.client.put(PATH, json=read.json(), headers=etag)
    assert same.headers["ETag"] == read.headers["ETag"]
    patch(site.client, "*", {"policies": {"path": "record"}, "quota": {"bytes_per_second": 7}})
    assert keys.items() - {("headrace.path", "auto")} <= site.stored("orders").metadata.items()
    assert site.stored("orders").metadata["headrace.path"] == "record"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"owner": "a", "metadata": {"owner": "b"}}, {"/owner", "/metadata/owner"}),
        (
            {"quota": None, "metadata": {"headrace.bytes-per-second": "5"}},
            {"/quota/bytes_per_second", "/metadata/headrace.bytes-per-second"},
        ),
        ({"owner": ""}, {"/owner"}),
        ({"metadata": {"owner": None}}, {"/owner"}),
        ({"policies": {"transforms": [" "]}}, {"/policies/transforms"}),
    ],
    ids=["two owners", "taken away and given", "no owner", "no owner any more", "a blank"],
)
def test_choices_that_cannot_be_are_refused_by_their_fields(
    site: Site, orders: str, changes: Any, wrong: set[str]
) -> None:
    answer = patch(site.client, orders, changes)
    assert (answer.status_code, pointers(answer)) == (422, wrong)
    document = {**site.client.get(PATH).json(), "metadata": {"owner": "b"}}
    put = site.client.put(PATH, json=document, headers={"If-Match": "*"})
    assert (put.status_code, pointers(put)) == (422, {"/owner", "/metadata/owner"})


def test_a_change_says_of_which_version(site: Site, orders: str) -> None:
    missing = patch(site.client, None, {"metadata": {"owner": "a"}})
    assert (missing.status_code, missing.json()["kind"]) == (428, "VersionNotGiven")
    assert patch(site.client, f'"x-0", {orders}', {"metadata": {"owner": "a"}}).status_code == 200
    stale = patch(site.client, orders, {"metadata": {"owner": "b"}})
    assert (stale.status_code, stale.json()["kind"]) == (412, "StaleVersion")
    assert patch(site.client, f"W/{orders}", {"metadata": {"owner": "b"}}).status_code == 412
    assert site.stored("orders").metadata["owner"] == "a"
    assert patch(site.client, "*", {"metadata": {"owner": "b"}}).status_code == 200
    site.client.post(f"{PATH}/pause", json={})
    assert patch(site.client, '"1-0"', {"metadata": {"owner": "c"}}).status_code == 412


def test_a_former_datastream_of_the_name_had_other_versions(site: Site, orders: str) -> None:
    site.client.delete(PATH)
    site.tick(4)
    assert site.client.get(PATH).status_code == 404
    site.create()
    assert site.client.get(PATH).headers["ETag"].endswith(orders[-2:]), "same version number"
    assert patch(site.client, orders, {"metadata": {"owner": "a"}}).status_code == 412


def test_all_that_cannot_change_is_refused_at_once(site: Site, orders: str) -> None:
    answer = patch(
        site.client,
        orders,
        {
            "name": "other",
            "source": {"cluster": "destination", "topics": "(", "exclude": "["},
            "destination": {"name": "copy.*"},
            "start": "latest",
            "limits": {"min_tasks": 3, "max_tasks": 2},
            "metadata": {"owner": "", "system.taskPrefix": "shared", "system.start.position": "{5}"},
            "status": "PAUSED",
            "pauses": {"t": {}},
            "halt": {"reason": "x"},
        },
    )
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert pointers(answer) == {
        "/name",
        "/source/cluster",
        "/source/topics",
        "/source/exclude",
        "/destination/name",
        "/start",
        "/limits",
        "/metadata/owner",
        "/metadata/system.taskPrefix",
        "/metadata/system.start.position",
        "/status",
        "/pauses",
        "/halt",
    }
    assert site.client.get(PATH).headers["ETag"] == orders


@pytest.mark.parametrize("field", ["name", "destination", "start"])
def test_what_lasts_cannot_be_taken_away(site: Site, orders: str, field: str) -> None:
    answer = patch(site.client, orders, {field: None})
    assert (answer.status_code, pointers(answer)) == (422, {f"/{field}"})


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        (
            {"limits": {"min_tasks": 0}, "objective": {"milliseconds": "x"}},
            {"/limits/min_tasks", "/objective/milliseconds"},
        ),
        ({"source": None}, {"/source"}),
        ({"metadata": {"a/b": 5}}, {"/metadata/a~1b"}),
        ({"unreported": 1}, {"/unreported"}),
        ("text", {""}),
    ],
    ids=["two fields", "a part without content", "a key", "an unknown field", "no object"],
)
def test_what_is_no_definition_is_refused_by_its_fields(
    site: Site, orders: str, changes: Any, wrong: set[str]
) -> None:
    answer = patch(site.client, orders, changes)
    assert (answer.status_code, answer.json()["kind"]) == (400, "InvalidRequest")
    assert pointers(answer) == wrong


def test_what_is_not_there_or_goes_cannot_change(site: Site, orders: str) -> None:
    assert site.client.patch("/v1/datastreams/nobody", json={}, headers={"If-Match": "*"}).status_code == 404
    site.client.delete(PATH)
    answer = patch(site.client, "*", {"metadata": {"owner": "a"}})
    assert (answer.status_code, answer.json()["kind"]) == (409, "IllegalTransition")


def test_a_change_that_would_take_a_topic_from_another_is_refused(site: Site) -> None:
    site.source.create(TopicDescription("u", 1))
    site.create("orders")
    site.create("users", source={"cluster": "source", "topics": "u"})
    answer = patch(site.client, "*", {"source": {"topics": "t|u"}})
    assert answer.status_code == 400
    assert (answer.json()["kind"], "orders" in answer.json()["detail"]) == ("InvalidRequest", True)
    assert "users" in answer.json()["detail"]
    assert site.stored("orders").selection.include == "t"
    fine = patch(site.client, "*", {"source": {"topics": "t|v"}})
    assert fine.status_code == 200, fine.text


def test_troubles_that_were_there_before_do_not_hold_up_a_change(site: Site) -> None:
    site.source.create(TopicDescription("u", 1))
    site.create("users", source={"cluster": "source", "topics": "t|x"})
    site.create("orders", source={"cluster": "source", "topics": "u|x"})
    site.source.create(TopicDescription("x", 1))
    site.tick()
    reason = site.client.get(PATH).json()["problem"]["reason"]
    assert ("x: " in reason, "datastream users" in reason) == (True, True)
    assert patch(site.client, "*", {"source": {"topics": "u|x|v"}}).status_code == 200
    refused = patch(site.client, "*", {"source": {"topics": "u|x|t"}})
    assert refused.status_code == 400
    detail = refused.json()["detail"]
    assert ("1 topic " in detail, "(t: datastream users" in detail) == (True, True), detail


def test_who_changed_what_is_an_event(site: Site, orders: str) -> None:
    patch(site.client, orders, {"source": {"exclude": "x"}}, requested_by="alice", reason="ticket 7")
    told = [one["sentence"] for one in site.client.get("/v1/events").json() if one["kind"] == "command"]
    changed, created = told
    assert changed.startswith("alice ")
    assert "/source/exclude" in changed
    assert changed.endswith("ticket 7")
    assert "created" in created


def test_only_partitions_that_enter_or_leave_start_or_stop(site: Site) -> None:
    site.source.create(TopicDescription("u", 2))
    site.create()
    started: list[str] = []
    site.follower.workers.before_start = lambda specs, _: started.extend(
        str(one.key.partition) for one in specs
    )
    patch(site.client, "*", {"source": {"topics": "t|u"}})
    site.tick()
    assert sorted(started) == ["u-0", "u-1"]
    patch(site.client, "*", {"source": {"topics": "u"}, "metadata": {"owner": "others"}})
    site.tick()
    assert {str(key.partition) for key in site.follower.workers.lanes} == {"u-0", "u-1"}
    assert sorted(started) == ["u-0", "u-1"]


def test_tasks_follow_their_limits(site: Site, orders: str) -> None:
    def tasks() -> list[int]:
        return [len(one["partitions"]) for one in site.client.get("/v1/plan").json()["tasks"]]

    assert tasks() == [2]
    patch(site.client, "*", {"limits": {"max_partitions_per_task": 1}})
    site.tick()
    assert tasks() == [1, 1]
    patch(site.client, "*", {"limits": {"max_partitions_per_task": None, "max_tasks": 1}})
    site.tick()
    assert tasks() == [2]
    epoch = site.client.get("/v1/plan").json()["epoch"]
    site.tick(4)
    assert site.client.get("/v1/plan").json()["epoch"] == epoch


def names(found: list[dict[str, Any]]) -> list[str]:
    return [one["partition"] for one in found]


def test_a_dry_run_says_what_would_start_stop_move_and_begin_again(site: Site, orders: str) -> None:
    site.source.create(TopicDescription("u", 2))
    site.tick()
    wish = {"source": {"topics": "u|t", "exclude": "t"}, "metadata": {"owner": "others"}}
    found = patch(site.client, orders, wish, dry_run="true")
    assert found.status_code == 200, found.text
    answer = found.json()
    assert [(one["field"], one["before"], one["after"]) for one in answer["changes"]] == [
        ("/owner", "tests", "others"),
        ("/source/exclude", "", "t"),
        ("/source/topics", "t", "u|t"),
    ]
    assert (names(answer["starts"]), names(answer["stops"])) == (["u-0", "u-1"], ["t-0", "t-1"])
    assert (answer["moves"], answer["restarts"]) == ([], [])
    assert (answer["tasks_before"], answer["tasks_after"]) == (1, 1)
    assert answer["starts"][0]["to_instance"] == "one"
    assert site.client.get(PATH).headers["ETag"] == orders, "nothing must be stored"
    site.tick()
    assert {str(key.partition) for key in site.follower.workers.lanes} == {"t-0", "t-1"}


def test_a_dry_run_says_why_lanes_begin_again(site: Site, orders: str) -> None:
    quota = patch(
        site.client, orders, {"metadata": {"headrace.bytes-per-second": "5"}}, dry_run="true"
    ).json()
    assert (quota["restarts"], quota["moves"]) == ([], [])
    path = patch(site.client, orders, {"metadata": {"headrace.path": "record"}}, dry_run="true").json()
    assert names(path["restarts"]) == ["t-0", "t-1"]
    assert path["restarts"][0]["reason"].startswith("path: ")
    narrow = patch(site.client, orders, {"limits": {"max_partitions_per_task": 1}}, dry_run="true").json()
    assert (narrow["tasks_before"], narrow["tasks_after"], len(narrow["moves"])) == (1, 2, 1)


def test_a_dry_run_says_what_the_lanes_carry_that_it_concerns(site: Site, orders: str) -> None:
    """An unknown rate is null, never a default."""
    record = {"metadata": {"headrace.path": "record"}}
    unknown = patch(site.client, orders, record, dry_run="true").json()
    assert [one["bytes_per_second"] for one in unknown["restarts"]] == [None, None]
    assert (unknown["interrupted_bytes_per_second"], unknown["started_bytes_per_second"]) == (None, 0)
    make_heavy(site)
    known = patch(site.client, orders, record, dry_run="true").json()
    carried = [one["bytes_per_second"] for one in known["restarts"]]
    assert all(carried)
    assert known["interrupted_bytes_per_second"] == sum(carried)
    site.source.create(TopicDescription("u", 1))
    site.tick()
    more = patch(site.client, orders, {"source": {"topics": "t|u"}}, dry_run="true").json()
    assert [one["bytes_per_second"] for one in more["starts"]] == [None]
    assert (more["started_bytes_per_second"], more["interrupted_bytes_per_second"]) == (None, 0)


def test_a_dry_run_says_how_many_records_wait_for_what_starts(site: Site, orders: str) -> None:
    """Counted from the checkpoint, or else from the start position; null rather than a guess."""
    site.source.create(TopicDescription("u", 2))
    first, second = (TopicPartition("u", number) for number in (0, 1))
    site.source.ranges |= {first: (10, 100), second: (0, 7)}
    site.tick()
    more = {"source": {"topics": "t|u"}}

    def waiting() -> tuple[list[int | None], int | None]:
        answer = patch(site.client, orders, more, dry_run="true")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert names(found["starts"]) == ["u-0", "u-1"]
        return [one["backlog_records"] for one in found["starts"]], found["started_backlog_records"]

    assert waiting() == ([90, 7], 97)
    key = LaneKey(GroupName("orders"), first)
    site.progress[key] = copied_to(60, "u")
    assert waiting() == ([40, 7], 47)
    site.progress[key] = copied_to(60, "former.u")
    assert waiting() == ([90, 7], 97), "stored for another destination"
    site.progress[key] = copied_to(101, "u")
    assert waiting() == ([None, 7], None), "stored for an earlier topic of that name"

    def unreachable() -> None:
        raise Unreachable("the destination is away")

    site.before_progress = unreachable
    assert waiting() == ([None, None], None)
    site.before_progress = lambda: None
    site.source.positions_failure = Unreachable("no offsets")
    assert waiting() == ([None, None], None)


def test_a_dry_run_of_a_creation_and_of_a_resume_say_what_waits(site: Site) -> None:
    place = TopicPartition("t", 0)
    site.source.ranges[place] = (10, 100)
    site.source.committed["orders", place] = 95
    site.tick()
    found = {}
    for start in ("earliest", "latest", "committed", "2026-01-01T00:00:00Z", "earliest-local"):
        answer = site.client.post(PATHS, params={"dry_run": "true"}, json=a_body(start=start))
        assert answer.status_code == 200, answer.text
        found[start] = answer.json()["starts"][0]["backlog_records"]
    assert list(found.values()) == [90, 0, 5, None, None]
    site.create()
    stopped = site.client.post(f"{PATH}/pause", json={}, params={"dry_run": "true"}).json()
    assert [one["backlog_records"] for one in stopped["stops"]] == [None, None]
    assert site.client.post(f"{PATH}/pause", json={}).is_success
    site.progress[LaneKey(GroupName("orders"), place)] = copied_to(98, "t")
    resumed = site.client.post(f"{PATH}/resume", json={}, params={"dry_run": "true"}).json()
    assert (resumed["starts"][0]["backlog_records"], resumed["started_backlog_records"]) == (2, 2)


def test_a_dry_run_is_refused_as_the_change_would_be(site: Site, orders: str) -> None:
    assert patch(site.client, orders, {"start": "latest"}, dry_run="true").status_code == 422
    assert patch(site.client, '"0-0"', {}, dry_run="true").status_code == 412
    assert patch(site.client, None, {}, dry_run="true").status_code == 428


@pytest.mark.parametrize("planner", [SimplePlanner(), LoadPlanner()], ids=["by count", "by load"])
def test_the_preview_of_limits_is_what_becomes_of_them_and_no_task_is_empty(planner: Planner) -> None:
    site = Site(planner=planner)
    site.source.create(TopicDescription("five", 5))
    site.create(source={"cluster": "source", "topics": "five"})
    site.tick(3)
    change = {"limits": {"min_tasks": 6}}
    found = patch(site.client, "*", change, dry_run="true").json()
    assert patch(site.client, "*", change).status_code == 200
    site.tick(2)
    plan = site.client.get("/v1/plan").json()
    assert all(one["partitions"] for one in plan["tasks"])
    assert found["tasks_after"] == len(plan["tasks"]) == 5


def test_limits_are_the_reason_of_a_plan_that_follows_them(site: Site) -> None:
    site.create()
    patch(site.client, "*", {"limits": {"min_tasks": 2}})
    site.tick(2)
    plan = site.client.get("/v1/plan").json()
    assert (len(plan["tasks"]), "limits changed" in plan["reason"]) == (2, True)


def test_a_datastream_that_matches_nothing_has_no_task(site: Site) -> None:
    site.create(source={"cluster": "source", "topics": "nothing"})
    site.tick(3)
    plan = site.client.get("/v1/plan").json()
    assert plan["tasks"] == []
    epoch = plan["epoch"]
    site.tick(3)
    assert site.client.get("/v1/plan").json()["epoch"] == epoch
