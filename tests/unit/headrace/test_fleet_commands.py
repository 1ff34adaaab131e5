"""Test `headrace status`, `lag`, `lanes` and `instances`: current state, with unknown values marked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

from headrace.commands.fleet.lag import lags_of
from headrace.commands.fleet.lanes import _urgency
from headrace.commands.fleet.status import problems_of
from headrace.console.resources import instance_state, instance_troubles
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.workers.lane_table import LanePhase
from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.capacity.advice import Advice, PastNeed
from mirror.model.movement.history import Retention
from monitor.records.record import IncidentRecord, Phase, TimelineEntry
from tests.builders import a_key
from tests.fakes.in_process import InProcess
from tests.fakes.partition_lives import PartitionLife
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace, Serve


def stall(site: Site, lane: str, kept_ms: int = 3_600_000) -> None:
    """Stall a lane of `orders` with records waiting. `kept_ms`: retention of the source."""
    states, key = site.follower.workers._states, a_key(lane)
    life = PartitionLife().run(60, 100).run(600, 100, 0).keeping(Retention(kept_ms))
    track = LaneTrack(life.history_at(site.clock.monotonic()), states[key].rate)
    states[key] = replace(states[key], phase=LanePhase.COPYING, track=track)
    site.follower.run_loop()


def a_lane(partition: str, records: int | None = 0, age: int | None = 0, **more: Any) -> dict[str, Any]:
    """Return a lane as in `/v1/lanes`, with the fields that sums are computed from."""
    return {"partition": partition, "datastream": "a", "lag_records": records, "lag_ms": age} | more


def test_status_shows_what_is_the_matter_first(site: Site, headrace: Headrace) -> None:
    site.create("a", metadata={}, owner="team", destination={"cluster": "destination", "name": "a.*"})
    site.create(objective={"milliseconds": 800})
    site.client.post("/v1/datastreams/orders/pause", json={"reason": "moving"})
    shown = headrace("status")
    assert shown.code == 0
    assert "instances: 1 " in shown.out
    assert "one leads" in shown.out
    assert "monitor: not running" in shown.out
    lines = shown.out.splitlines()
    orders, a = (next(n for n, one in enumerate(lines) if one.startswith(name)) for name in ("orders ", "a "))
    assert orders < a
    assert "p99 within 800 ms" in lines[orders]
    assert "paused: moving" in lines[orders]


def test_status_does_not_repeat_a_reason() -> None:
    place = {"worst": "t-0", "reason": "no such topic", "offset": 5}
    state = {"partitions": 2, "state": "PAUSED_BY_ITSELF", **place}
    problem = {"reason": "t-1 is stalled: no such topic (source offset 7)"}
    stalled = {"problem": problem, "halt": None, "status": "READY"}
    movement = {"loss": None, "states": [state]}
    assert list(problems_of(stalled, movement, None, None)) == [
        problem["reason"],
        "2 PAUSED_BY_ITSELF, longest t-0",
    ]
    assert list(problems_of(stalled | {"problem": None}, movement, None, None)) == [
        "2 PAUSED_BY_ITSELF, longest t-0: no such topic (source offset 5)"
    ]
    halted = {"problem": None, "halt": {"reason": "ticket 7"}, "status": "PAUSED"}
    state |= {"state": "PAUSED_BY_USER", "reason": "the datastream is PAUSED: ticket 7", "offset": None}
    assert list(problems_of(halted, movement, None, None)) == [
        "2 PAUSED_BY_USER, longest t-0",
        "paused: ticket 7",
    ]


def test_status_has_movement_loss_and_open_incidents(site: Site, headrace: Headrace) -> None:
    site.create()
    stall(site, "t-0")
    site.incidents.append(
        IncidentRecord("i-1", "orders", "source", 1_700_000_000_000, is_late=True, cause="hot partition")
    )
    shown = headrace("status")
    assert shown.code == 1
    (row,) = [line for line in shown.out.splitlines() if line.startswith("orders ")]
    for fact in ("late", "2023-11-14T22:13:20Z", "hot partition"):
        assert fact in row
    assert "1 STALL, longest t-0" in row
    assert "1 partition in 50 min" in row
    found = json.loads(headrace("status", "--json").out)
    assert found["unknown"] == {}
    assert found["incidents"][0]["id"] == "i-1"


def test_status_says_since_when_a_datastream_is_within_its_objective_again(
    site: Site, headrace: Headrace
) -> None:
    site.create()
    late, again = 1_700_000_000_000, 1_700_000_060_000
    timeline = (TimelineEntry(late, Phase.DETECTED, "late"), TimelineEntry(again, Phase.RECOVERED, "good"))
    record = IncidentRecord("i-1", "orders", "source", late, is_late=True, timeline=timeline)
    site.incidents.append(record)
    shown = headrace("status")
    assert "again since 2023-11-14T22:14:20Z" in shown.out
    assert shown.code == 0, "no longer late"
    site.incidents[:] = [replace(record, closing_ms=again + 600_000)]
    for command in ("status", "incidents"):
        assert "recovered, closing at 2023-11-14T22:24:20Z" in headrace(command).out
    relapsed = TimelineEntry(again + 1_000, Phase.RELAPSED, "late")
    site.incidents[:] = [replace(record, timeline=(*timeline, relapsed))]
    shown = headrace("status")
    assert "again since" not in shown.out
    assert shown.code == 1


def test_a_part_that_does_not_answer_is_unknown_and_the_rest_is_shown(
    site: Site, serve: Serve, headrace: Headrace
) -> None:
    site.create()
    service = InProcess(site.app)

    class Broken(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path in dead:
                problem = {"detail": "no brokers", "kind": "Unreachable"}
                return httpx.Response(503, json=problem, request=request)
            return service.handle_request(request)

    dead = {"/v1/incidents", "/v1/movement"}
    serve(Broken())
    shown = headrace("status")
    assert shown.code == 1
    (incidents,) = [line for line in shown.out.splitlines() if line.startswith("incidents: ")]
    assert incidents.endswith("unknown: no brokers")
    assert "orders" in shown.out
    dead |= {"/v1/instances", "/v1/datastreams", "/v1/monitor"}
    assert headrace("status").code != 0


def test_a_pause_far_from_any_loss_loses_nothing(site: Site, headrace: Headrace) -> None:
    site.create()
    stall(site, "t-0", kept_ms=7 * 24 * 3_600_000)
    shown = headrace("status")
    assert "STALL" in shown.out
    assert "loses records" not in shown.out
    (one,) = site.client.get("/v1/movement").json()["datastreams"]
    assert not one["loss"]["is_near"]
    (glance,) = site.client.get("/v1/overview").json()["datastreams"]
    assert glance["loses_data_in_seconds"] is None


def test_the_worst_comes_first(site: Site, headrace: Headrace) -> None:
    site.create("a-paused", destination={"cluster": "destination", "name": "a.*"})
    site.client.post("/v1/datastreams/a-paused/pause", json={})
    site.create("b-remark", source={"cluster": "source", "topics": "u"})
    site.create("c-late", destination={"cluster": "destination", "name": "c.*"})
    site.create("d-well", destination={"cluster": "destination", "name": "d.*"})
    site.incidents.append(IncidentRecord("i-1", "c-late", "source", 1_700_000_000_000, is_late=True))
    lines = headrace("status").out.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == ["c-late", "b-remark", "a-paused", "d-well"]


def test_an_instance_that_is_not_well_is_an_exit_status(site: Site, headrace: Headrace) -> None:
    site.create()
    assert headrace("status").code == 0
    site.health.report("workers", False, "worker 1 died")
    assert headrace("status", "--json").code == 1


def test_lanes_in_the_worst_state_come_before_those_of_unknown_lag() -> None:
    unknown = a_lane("t-0", None, None, movement={"state": "OK"})
    stalled = a_lane("t-1", 12, 900, movement={"state": "STALL"})
    paused = a_lane("t-2", 12, 9_000, movement={"state": "PAUSED_BY_USER"})
    assert sorted([unknown, paused, stalled], key=_urgency) == [stalled, paused, unknown]


def test_instances_show_what_is_not_well(site: Site, headrace: Headrace) -> None:
    site.tick()
    site.health.report("workers", False, "worker 1 died")
    row = headrace("instances").out.splitlines()[-1]
    assert row.startswith("one ")
    assert "unhealthy" in row
    assert row.endswith("workers: worker 1 died")
    assert json.loads(headrace("instances", "--json").out)[0]["name"] == "one"


def test_an_instance_that_does_not_answer_is_said_to_be_so() -> None:
    silent = {"name": "two", "state": "timed out", "reason": "no answer in 2 s", "health": None}
    assert (instance_state(silent), list(instance_troubles(silent))) == ("timed out", ["no answer in 2 s"])
    leaving = {"health": {"is_well": True, "parts": {}}, "is_leaving": True}
    assert instance_state(leaving) == "leaving"


def test_lanes_are_sorted_and_left_out_as_asked(site: Site, headrace: Headrace) -> None:
    site.create()
    stall(site, "t-1")
    assert "2 of 2 lanes" in headrace("lanes").out
    for asked in (("--movement", "stall"), ("--troubled", "--datastream", "orders")):
        found = json.loads(headrace("lanes", *asked, "--json").out)
        assert [one["movement"] and one["movement"]["state"] for one in found["lanes"]][:1] == ["STALL"]
    assert "1 more; " in headrace("lanes", "--limit", "1").out
    assert headrace("lanes", "--datastream", "nobody").out.startswith("0 of 0 lanes")


def test_what_is_not_known_is_in_no_sum() -> None:
    late = a_lane("t-0", 12, 900, movement={"state": "STALL"})
    rows = lags_of([late, a_lane("t-1", None, None, movement=None), a_lane("u-0", datastream="b")])
    assert [(one["datastream"], one["lag_records"], one["lag_ms"], one["unknown"]) for one in rows] == [
        ("a", 12, 900, 1),
        ("b", 0, 0, 0),
    ]
    assert rows[0]["worst"] == "t-0"
    assert rows[0]["movement"] == {"STALL": 1, "?": 1}
    assert lags_of([a_lane("t-0", None, None)])[0]["lag_records"] is None


def test_lag_is_of_all_datastreams_or_of_one(site: Site, headrace: Headrace) -> None:
    site.create()
    every = headrace("lag")
    assert every.out.splitlines()[0] == "lag of 1 datastream"
    assert every.out.splitlines()[2].split()[:4] == ["orders", "2", "?", "?"]
    assert "t-0" in headrace("lag", "orders").out
    assert json.loads(headrace("lag", "--json").out)["silent_instances"] == []
    site.create("new", source={"cluster": "source", "topics": "missing"})
    assert "no partitions: " in headrace("lag", "new").out.splitlines()[-1]


@pytest.mark.parametrize("command", ["status", "lag", "lanes", "instances"])
def test_nobody_there_is_one_line(command: str, headrace: Headrace) -> None:
    shown = headrace(command, "--at", "127.0.0.1:1")
    assert shown.code != 0
    assert "127.0.0.1:1" in shown.err


def test_the_version_says_how_the_data_plane_runs(headrace: Headrace) -> None:
    shown = headrace("--version")
    assert shown.out.startswith("headrace ")
    assert "data plane " in shown.out


def test_the_advice_says_what_the_last_day_and_week_needed(site: Site, headrace: Headrace) -> None:
    advice = Advice(1_700_000_000_000, 2, 1, 2, 1, "", "it fits")
    AdviceStore(site.session).put(replace(advice, past_week=PastNeed(150, 300, 450, 210)))
    said = " ".join(headrace("monitor", "advise").out.split())
    assert "day: unknown" in said
    for text in ("150 h", "210 task-hours", "300", "450", "90 (30%)"):
        assert text in said


def test_the_advice_counts_one_hour_as_one(site: Site, headrace: Headrace) -> None:
    advice = Advice(1_700_000_000_000, 2, 1, 2, 1, "", "it fits")
    AdviceStore(site.session).put(replace(advice, past_week=PastNeed(1, 2, 2, 1)))
    said = " ".join(headrace("monitor", "advise").out.split())
    assert "day: unknown" in said
    assert re.search(r"\b1 h\b.*\b1 task-hour\b", said)


@pytest.mark.parametrize("command", ["instances", "status"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_service_that_no_instance_has_joined_is_no_success(
    site: Site, serve: Serve, headrace: Headrace, command: str, options: list[str]
) -> None:
    service = InProcess(site.app)

    class Young(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path == "/v1/instances":
                return httpx.Response(200, json=[], request=request)
            return service.handle_request(request)

    serve(Young())
    shown = headrace(command, *options)
    assert shown.code == 1
    assert "joined" in shown.out + shown.err or options
    if options:
        found = json.loads(shown.out)
        assert (found if command == "instances" else found["instances"]) == []
    else:
        assert "0 instances" not in shown.out
