"""Test partitions that are not copied: paused, without a task, or excluded by a rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.placement.planners import choose_planner
from headrace.settings import HeadraceSettings
from mirror.coordination.routes.routes import RouteVerdict
from mirror.errors import Unreachable
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.identifiers import DatastreamName
from mirror.model.nodes import SessionState
from mirror.model.topics import TopicDescription, TopicPartition
from tests.builders import a_key
from tests.fakes.site import Site

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def site() -> Site:
    site = Site()
    site.source.ranges = {T0: (3, 25), T1: (0, 9)}
    site.source.committed = {("orders", T0): 10, ("orders", T1): 9}
    return site


def uncopied(site: Site) -> dict[str, dict[str, Any]]:
    lanes = site.client.get("/v1/lanes").json()["lanes"]
    return {lane["partition"]: lane for lane in lanes if lane["worker"] is None}


def pause(site: Site, action: str = "pause", **body: Any) -> None:
    answer = site.client.post(f"/v1/datastreams/orders/{action}", json=body)
    assert answer.status_code == 200, answer.text
    site.tick()


def metrics(site: Site, name: str) -> dict[str, float]:
    lines = site.client.get("/metrics").text.splitlines()
    return {
        line.partition(" ")[0].removeprefix(name): float(line.partition(" ")[2])
        for line in lines
        if line.startswith(f"{name}{{")
    }


def part(site: Site, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] = site.client.get("/v1/health").json()["parts"]
    return found.get(name)


def events(site: Site, kind: str) -> list[str]:
    return [one["sentence"] for one in site.client.get("/v1/events").json() if one["kind"] == kind]


def test_a_partition_that_a_person_paused_is_a_lane_that_falls_behind(site: Site) -> None:
    site.create()
    assert uncopied(site) == {}
    assert part(site, "paused by people") is None
    pause(site, "pause-partitions", partitions={"t": "0"}, reason="ticket 7", requested_by="alice")
    lane = uncopied(site)["t-0"]
    assert (lane["phase"], lane["by"], lane["reason"], lane["requested_by"]) == (
        *("paused", "person", "ticket 7"),
        "alice",
    )
    assert (lane["lag_records"], lane["lag_ms"], lane["bytes_per_second"]) == (15, None, None)
    assert (lane["retained_records"], lane["lost_records"]) == (7, 0)
    assert lane["age_ms"] > 0
    older = lane["age_ms"]
    site.source.ranges[T0] = (12, 40)
    site.tick()
    lane = uncopied(site)["t-0"]
    assert (lane["lag_records"], lane["retained_records"], lane["lost_records"]) == (30, 0, 2)
    assert lane["age_ms"] > older
    said = part(site, "paused by people")
    assert said is not None
    assert said["is_well"]
    assert re.search(r"^1 .*\borders \(t:0 .*\balice: ticket 7\)$", said["sentence"])
    assert metrics(site, "headrace_paused_partitions") == {'{by="person",datastream="orders"}': 1.0}
    assert metrics(site, "headrace_uncopied_lag_records") == {'{datastream="orders"}': 30.0}
    assert metrics(site, "headrace_uncopied_lost_records") == {'{datastream="orders"}': 2.0}
    assert metrics(site, "headrace_paused_seconds")['{datastream="orders"}'] > 0
    assert events(site, "command")[0] == "alice paused t:0: ticket 7"
    pause(site, "resume-partitions", partitions={"t": "0"}, requested_by="bob")
    assert uncopied(site) == {}
    assert part(site, "paused by people") is None
    assert metrics(site, "headrace_paused_partitions") == {}
    assert events(site, "command")[0] == "bob resumed t:0"


def test_the_ledger_says_what_is_not_copied(site: Site) -> None:
    site.create()
    ledger = Ledger(0)
    ledger.enter(OffsetClass.MIRRORED, 10)
    topic = LaneProgress(ledger, OffsetMap(), target_topic="t", target_id=b"1" * 16)
    site.progress = {a_key("t-0"): topic}
    pause(site, "pause-partitions", partitions={"t": "0,1"}, reason="ticket 7", requested_by="alice")
    first, second = site.client.get("/v1/datastreams/orders/progress").json()
    assert first["not_copied"] == {
        "state": "paused",
        "reason": "ticket 7",
        "requested_by": "alice",
        "since_ms": first["not_copied"]["since_ms"],
        "offsets": 15,
        "retained": 7,
        "lost": 0,
    }
    assert (first["offsets"]["mirrored"], first["destination_is_current"]) == (10, None)
    assert (second["partition"], second["next_offset"], second["is_balanced"]) == (1, None, None)
    assert second["not_copied"]["offsets"] == 0
    pause(site, "resume-partitions", partitions={"t": "0,1"})
    (first,) = site.client.get("/v1/datastreams/orders/progress").json()
    assert first["not_copied"] is None


@pytest.mark.parametrize(
    ("now", "is_current"),
    [({}, None), ({"t": None}, False), ({"t": b"2" * 16}, False), ({"t": b"1" * 16}, True)],
)
def test_a_ledger_of_a_topic_that_is_gone_says_so(
    site: Site, now: dict[str, bytes | None], is_current: bool | None
) -> None:
    site.create()
    site.progress = {
        a_key("t-0"): LaneProgress(Ledger(5), OffsetMap(), target_topic="t", target_id=b"1" * 16)
    }
    site.topic_ids = now
    (found,) = site.client.get("/v1/datastreams/orders/progress").json()
    assert found["destination_is_current"] is is_current


def test_a_ledger_of_another_destination_is_not_shown(site: Site) -> None:
    site.create()
    site.progress = {a_key("t-0"): LaneProgress(Ledger(100), OffsetMap(), target_topic="former.t")}
    assert site.client.get("/v1/datastreams/orders/progress").json() == []


@pytest.mark.parametrize(("action", "status"), [("pause", "PAUSED"), ("stop", "STOPPED")])
def test_a_datastream_that_a_person_paused_or_stopped(site: Site, action: str, status: str) -> None:
    site.create()
    pause(site, action, reason="ticket 8", requested_by="alice")
    site.tick()
    found = uncopied(site)
    assert set(found) == {"t-0", "t-1"}
    assert found["t-1"]["lag_records"] == 0, "known: no record has arrived since"
    assert found["t-0"]["reason"].endswith(f" {status}: ticket 8")
    assert found["t-0"]["since_ms"] is not None
    shown = site.client.get("/v1/datastreams/orders").json()
    assert (shown["halt"]["reason"], shown["halt"]["requested_by"]) == ("ticket 8", "alice")
    said = part(site, "paused by people")
    assert said is not None
    assert re.search(rf"\b2 partitions\b.*\borders \({status} .*\balice\b", said["sentence"])
    pause(site, "resume")
    assert uncopied(site) == {}
    assert site.client.get("/v1/datastreams/orders").json()["halt"] is None


def test_the_cause_of_a_pause_outlives_the_leader(site: Site) -> None:
    site.create()
    pause(site, "pause", reason="ticket 8")
    other = Site(site.server, "two")
    other.source.ranges = site.source.ranges
    site.follower.session.expire()
    other.tick(3)
    assert uncopied(other)["t-0"]["reason"].endswith(" PAUSED: ticket 8")


@pytest.mark.parametrize(
    "away",
    [
        lambda site: site.source.committed.clear(),
        lambda site: setattr(site.source, "failure", Unreachable("it is away")),
    ],
)
def test_how_far_it_is_behind_is_not_known_where_nobody_says_it(
    site: Site, away: Callable[[Site], None]
) -> None:
    site.create()
    pause(site, "pause")
    assert uncopied(site)["t-0"]["lag_records"] == 15
    away(site)
    site.tick()
    lane = uncopied(site)["t-0"]
    assert (lane["lag_records"], lane["retained_records"], lane["lost_records"]) == (None, None, None)
    assert metrics(site, "headrace_uncopied_lag_records") == {}
    assert metrics(site, "headrace_paused_partitions") == {'{by="person",datastream="orders"}': 2.0}


def test_the_start_of_the_log_that_comes_nearer_says_when_a_paused_partition_loses_records(
    site: Site,
) -> None:
    site.create()
    pause(site, "pause")
    for number, first in enumerate((4, 6, 8)):
        known = uncopied(site)["t-0"]["movement"]["seconds_to_loss"]
        assert (known is None) == (number < 2), "a rate takes two steps"
        for _ in range(6):
            site.tick()
        site.source.ranges[T0] = (first, 30)
        site.tick()
    movement = uncopied(site)["t-0"]["movement"]
    assert (movement["state"], movement["loses_data"]) == ("PAUSED_BY_USER", True)
    assert movement["seconds_to_loss"] == pytest.approx(70, abs=15), "2 records remain, at 70 s for 2"
    (left,) = metrics(site, "headrace_time_to_loss_seconds").values()
    assert left == pytest.approx(movement["seconds_to_loss"], abs=1)
    assert metrics(site, "headrace_partitions_losing_data") == {'{datastream="orders"}': 1.0}
    site.source.ranges[T0] = (12, 30)
    site.tick()
    assert uncopied(site)["t-0"]["movement"]["seconds_to_loss"] == 0.0, "records are already lost"


def test_the_record_that_waits_and_the_topics_retention_say_when_a_paused_partition_loses_records(
    site: Site,
) -> None:
    site.source.topics["t"] = replace(site.source.topics["t"], settings={"retention.ms": "3600000"})
    site.source.written[T0, 10] = site.clock.now_ms() - 1_800_000
    site.create()
    pause(site, "pause")
    first = uncopied(site)["t-0"]
    assert first["lag_ms"] == pytest.approx(1_800_000, abs=60_000)
    assert first["movement"]["seconds_to_loss"] == pytest.approx(1_800, abs=60)
    assert first["movement"]["loses_data"]
    assert uncopied(site)["t-1"]["lag_ms"] == 0, "without a backlog, no age is requested"
    site.clock.advance(600)
    site.tick()
    later = uncopied(site)["t-0"]
    assert later["lag_ms"] == pytest.approx(first["lag_ms"] + 600_000, abs=60_000)
    assert later["movement"]["seconds_to_loss"] == pytest.approx(1_200, abs=60)
    said = site.client.get("/v1/datastreams/orders/lag").json()["partitions"]
    assert {one["partition"]: one["lag_ms"] for one in said} == {0: later["lag_ms"], 1: 0}


def test_the_age_of_a_record_is_looked_up_once_while_it_waits(site: Site) -> None:
    site.source.written[T0, 10] = site.clock.now_ms() - 1_800_000
    site.create()
    pause(site, "pause")
    for _ in range(4):
        site.tick()
    assert site.source.searched == [{T0: 10}]
    site.source.written[T0, 14] = site.clock.now_ms() - 60_000
    site.source.ranges[T0] = (14, 25)
    for _ in range(4):
        site.tick()
    assert site.source.searched == [{T0: 10}, {T0: 14}], "the oldest record still in the log"
    assert uncopied(site)["t-0"]["lag_ms"] == pytest.approx(110_000, abs=60_000)


def test_a_source_that_says_no_times_leaves_the_age_unknown(site: Site) -> None:
    site.create()
    pause(site, "pause")
    site.tick()
    lane = uncopied(site)["t-0"]
    assert (lane["lag_records"], lane["lag_ms"], lane["movement"]["seconds_to_loss"]) == (15, None, None)


def test_who_leads_no_more_lists_nothing_though_zookeeper_is_away(site: Site) -> None:
    site.create()
    pause(site, "pause")
    assert len(uncopied(site)) == 2
    site.session.disconnect()
    site.follower.follower.session_changed(SessionState.LOST)
    site.follower.run_loop()
    assert uncopied(site) == {}
    assert metrics(site, "headrace_paused_partitions") == {}
    assert site.client.get("/v1/health").json()["is_leading"] is False
    site.leader.leader._try_tick()
    assert part(site, "paused by people") is None


def test_a_list_that_nobody_brings_up_to_date_says_no_lag(site: Site) -> None:
    site.create()
    pause(site, "pause")
    assert uncopied(site)["t-0"]["lag_records"] == 15
    site.clock.advance(16)
    lane = uncopied(site)["t-0"]
    assert (lane["phase"], lane["lag_records"], lane["retained_records"], lane["lost_records"]) == (
        *("paused", None, None),
        None,
    )
    assert metrics(site, "headrace_uncopied_lag_records") == {}
    site.tick()
    assert uncopied(site)["t-0"]["lag_records"] == 15


def test_what_another_datastream_of_the_group_copies_is_not_held_up_by_a_pause(site: Site) -> None:
    metadata = {"owner": "tests", "system.taskPrefix": "both"}
    site.create("orders", metadata=metadata)
    site.create("others", metadata=metadata)
    pause(site, "pause")
    assert uncopied(site) == {}


def test_a_partition_without_a_task_is_a_problem_with_a_state_of_its_own(site: Site) -> None:
    full = Site(planner=choose_planner(HeadraceSettings(clusters={})))
    full.source.ranges, full.source.committed = site.source.ranges, site.source.committed
    site = full
    site.create(limits={"max_tasks": 1, "max_partitions_per_task": 1})
    lane = uncopied(site)["t-1"]
    assert (lane["phase"], lane["by"], lane["lag_records"]) == ("unplaced", None, 0)
    assert "max_tasks 1" in lane["reason"]
    assert "max_partitions_per_task 1" in lane["reason"]
    assert metrics(site, "headrace_unplaced_partitions") == {'{datastream="orders"}': 1.0}
    said = part(site, "datastream orders")
    assert said is not None
    assert not said["is_well"]
    assert site.client.get("/v1/health").status_code == 503
    assert re.match(r"1 partition\b.*\bt-1\b", said["sentence"])
    assert re.search(r"\b1 partition\b.*\bt-1\b", events(site, "problem")[0])


@pytest.mark.parametrize("topics", ["u", "t", "t|u"])
def test_partitions_without_a_task_are_reported_whichever_datastreams_share_the_tasks(
    site: Site, topics: str
) -> None:
    full = Site(planner=choose_planner(HeadraceSettings(clusters={})))
    full.source.create(TopicDescription("u", 1))
    limits = {"max_tasks": 1, "max_partitions_per_task": 1}
    shared = {"owner": "tests", "system.taskPrefix": "both"}
    source = {"cluster": "source", "topics": topics}
    full.create("a", source=source, metadata=shared, limits=limits)
    full.create("b", source={"cluster": "source", "topics": "t"}, metadata=shared, limits=limits)
    wanted = {"t-0", "t-1", *(["u-0"] if "u" in topics else [])}
    lanes = [lane for lane in full.client.get("/v1/lanes").json()["lanes"] if lane["worker"] is None]
    missing = wanted - {str(key.partition) for key in full.follower.workers.lanes}
    assert len(missing) == len(wanted) - 1
    assert sorted(lane["partition"] for lane in lanes) == sorted(missing), "each once"
    full.client.post("/v1/datastreams/a/stop", json={})
    full.tick(3)
    lanes = [lane for lane in full.client.get("/v1/lanes").json()["lanes"] if lane["phase"] == "unplaced"]
    assert len(lanes) == 1, "of b, although a is stopped"


def test_what_a_rule_leaves_out_is_listed_too(site: Site) -> None:
    site.destination.topics.clear()
    site.source.topics = dict(site.source.topics)
    site.create(metadata={"owner": "tests"})
    site.leader.judge_by(RouteVerdict({}, {DatastreamName("orders"): {"t": "a rule"}}))
    site.tick()
    found = uncopied(site).values()
    assert {(one["phase"], one["reason"]) for one in found} == {
        ("left out", "excluded by a rule: see the problem of the datastream")
    }
    assert metrics(site, "headrace_left_out_partitions") == {'{datastream="orders"}': 2.0}
