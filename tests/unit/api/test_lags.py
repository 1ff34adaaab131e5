"""Test GET /v1/datastreams/{name}/lag and …/gaps: an unknown value is never reported as 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from httpx import Client

from api.resources import lanes
from api.resources.lanes import lanes_read
from api.resources.partitions import lags
from api.resources.partitions.lags import lag_of as from_instances
from mirror.instance.workers.lane_table import LanePhase
from mirror.instance.workers.lane_track import LaneTrack
from mirror.lane.ledger import OffsetClass
from mirror.model.datastreams.lanes import LaneWindows, PauseCause, WindowLimit
from mirror.model.identifiers import InstanceName
from mirror.model.movement.history import UNLIMITED, LaneHistory, Retention
from mirror.model.topics import TopicDescription
from mirror.worker.protocol import LaneRate
from tests.builders import SOURCE, a_datastream, a_key, a_plan, a_progress, a_task
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.partition_lives import PartitionLife
from tests.fakes.site import Site, settle, two_sites


def measure(
    site: Site, lane: str, records: int, age_ms: int | None, phase: LanePhase = LanePhase.COPYING
) -> None:
    key, states = a_key(lane), site.follower.workers._states
    states[key] = replace(
        states[key], phase=phase, track=LaneTrack(rate=LaneRate(key, SOURCE, 0.0, 0.0, records, age_ms))
    )
    site.follower.run_loop()


def lag_of(client: Client, name: str = "orders") -> dict[str, Any]:
    answer = client.get(f"/v1/datastreams/{name}/lag")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def rows(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (one["partition"], one["state"], one["lag_records"], one["lag_ms"]) for one in found["partitions"]
    ]


def test_the_lag_is_the_sum_of_what_lanes_report(client: Client, site: Site) -> None:
    site.create()
    measure(site, "t-0", 5, 70)
    measure(site, "t-1", 2, 900)
    found = lag_of(client)
    assert rows(found) == [(0, "copying", 5, 70), (1, "copying", 2, 900)]
    assert (found["lag_records"], found["lag_ms"], found["unknown"]) == (7, 900, 0)
    assert (found["name"], found["status"], found["is_complete"]) == ("orders", "READY", True)
    assert found["silent_instances"] == []
    assert {(one["topic"], one["task"], one["instance"]) for one in found["partitions"]} == {
        ("t", "orders-0", "one")
    }


def test_a_window_that_limits_a_lane_is_shown_with_its_figures(client: Client, site: Site) -> None:
    site.create()
    measure(site, "t-0", 5, 70)
    window = WindowLimit(3, 125_000, 100.2, 24, 64)
    site.follower.workers._states[a_key("t-0")].track.windows = LaneWindows(destination=window)
    limited, other = lag_of(client)["partitions"]
    assert (limited["source_window"], limited["destination_window"]) == (None, window._asdict())
    assert other["destination_window"] is None


def test_partitions_are_sorted_filtered_and_paged(client: Client, site: Site) -> None:
    site.source.topics["t"] = TopicDescription("t", 12)
    site.create()
    states = site.follower.workers._states
    for key in list(states):
        number = key.partition.partition
        rate = LaneRate(key, SOURCE, number * 10.0, 1.0, number, number * 100, checkpoint=1_000)
        states[key] = replace(states[key], track=LaneTrack(rate=rate))
    site.follower.run_loop()

    def asked(**query: Any) -> tuple[list[int], int]:
        found = client.get("/v1/datastreams/orders/lag", params=query).json()
        assert (found["topics"], found["lag_records"]) == ({"t": 12}, 66), "totals ignore filters"
        return [one["partition"] for one in found["partitions"]], found["matching"]

    assert asked() == (list(range(12)), 12)
    assert asked(sort="lag_records", descending=True, limit=3) == ([11, 10, 9], 12)
    assert asked(sort="lag_ms", offset=10) == ([10, 11], 12)
    assert asked(text="T-1", sort="name", descending=True) == ([11, 10, 1], 3)
    assert asked(state="nothing") == ([], 0)
    assert asked(instance="two") == ([], 0)
    (last,) = client.get("/v1/datastreams/orders/lag", params={"text": "t-11"}).json()["partitions"]
    assert (last["position"], last["source_end"], last["bytes_per_second"]) == (1_000, 1_011, 110.0)
    assert client.get("/v1/datastreams/orders/lag", params={"sort": "colour"}).status_code == 400


def test_only_the_rows_of_the_page_are_built(
    client: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[str, int | str]] = []

    class Row(lags.PartitionLag):
        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            built.append(("row", self.partition))

    class Lane(lanes.LaneAnswer):
        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            built.append(("lane", self.partition))

    monkeypatch.setattr(lags, "PartitionLag", Row)
    monkeypatch.setattr(lanes, "LaneAnswer", Lane)
    site.source.topics["t"] = TopicDescription("t", 500)
    site.create()
    found = client.get("/v1/datastreams/orders/lag", params={"limit": 1, "offset": 3}).json()
    assert built == [("lane", "t-3"), ("row", 3)]
    assert [one["partition"] for one in found["partitions"]] == [3]
    assert (found["matching"], found["topics"], found["unknown"]) == (500, {"t": 500}, 500)


def test_a_lane_that_has_measured_nothing_makes_the_sum_unknown(client: Client, site: Site) -> None:
    site.create()
    measure(site, "t-0", 5, 70)
    found = lag_of(client)
    assert rows(found) == [(0, "copying", 5, 70), (1, "copying", None, None)]
    assert (found["lag_records"], found["lag_ms"], found["unknown"]) == (None, None, 1)


def test_nothing_is_the_lag_of_no_partition(client: Client, site: Site) -> None:
    site.create(source={"cluster": "source", "topics": "nothing"})
    found = lag_of(client)
    assert (found["partitions"], found["lag_records"], found["lag_ms"]) == ([], None, None)
    assert client.get("/v1/datastreams/nobody/lag").status_code == 404


def test_what_a_person_paused_is_behind(client: Client, site: Site) -> None:
    site.create()
    measure(site, "t-1", 0, 0)
    body = {"partitions": {"t": "0"}, "reason": "ticket 7", "requested_by": "me"}
    assert client.post("/v1/datastreams/orders/pause-partitions", json=body).status_code == 200
    site.tick()
    found = lag_of(client)
    (paused, _) = found["partitions"]
    assert (paused["state"], paused["reason"], paused["task"]) == ("paused", "ticket 7", "orders-0")
    assert found["lag_records"] == paused["lag_records"]


def test_what_runs_elsewhere_is_unknown_until_it_is_heard() -> None:
    one, two = two_sites()
    one.create(limits={"min_tasks": 2})
    settle(one, two)
    assert lag_of(one.client)["silent_instances"] == []
    for site in (one, two):
        site.neighbours.failures = {"one.test": _away, "two.test": _away}
    found = lag_of(one.client)
    assert {row["instance"] for row in found["partitions"]} == {"one", "two"}
    (other,) = [row for row in found["partitions"] if row["instance"] == "two"]
    assert other["state"] == "unknown"
    assert "instance two" in other["reason"]
    assert (other["lag_records"], found["lag_records"]) == (None, None)
    assert (found["silent_instances"], found["is_complete"]) == (["two"], True)
    seen_by_two = lag_of(two.client)
    assert (seen_by_two["silent_instances"], seen_by_two["is_complete"]) == (["one"], False)


def test_the_sum_is_unknown_where_the_leader_is_not_heard() -> None:
    server = FakeZooKeeper()
    one, two = Site(server, "one"), Site(server, "two")
    one.tick()
    one.create("nothing", source={"cluster": "source", "topics": "nothing"})
    two.tick()
    assert lag_of(two.client, "nothing")["is_complete"] is True
    two.neighbours.failures["one.test"] = _away
    assert lag_of(two.client, "nothing")["is_complete"] is False


async def _away() -> None:
    raise httpx.ConnectError("connection refused")


def test_a_partition_that_no_lane_has_is_listed_with_the_reason() -> None:
    plan = a_plan(
        a_task("orders-0", ["t-0", "other-0"], None),
        a_task("orders-1", ["t-1"], "one"),
        a_task("orders-2", ["t-2"], "two"),
    )
    found = from_instances(a_datastream(topics="t"), plan, {InstanceName("one"): []}, InstanceName("one"))
    assert [one.state for one in found.partitions] == ["unplaced", "waiting", "unknown"]
    unplaced, waiting, unknown = (one.reason for one in found.partitions)
    assert "task orders-0" in unplaced
    assert "not started" in waiting
    assert "instance two" in unknown
    assert found.unknown == 3


def test_gaps_are_what_ledgers_say_with_their_offsets(client: Client, site: Site) -> None:
    site.create()
    site.progress = {
        a_key("t-0"): a_progress(
            (OffsetClass.MIRRORED, 5),
            (OffsetClass.LOST, 2),
            (OffsetClass.MIRRORED, 3),
            (OffsetClass.DEAD_LETTERED, 1),
            gaps=["offsets 5 to 6"],
        ),
        a_key("t-1"): a_progress((OffsetClass.MIRRORED, 9)),
    }
    found = client.get("/v1/datastreams/orders/gaps").json()
    assert (found["name"], found["looked_at"], found["unknown"]) == ("orders", 2, [])
    (one,) = found["partitions"]
    assert (one["topic"], one["partition"], one["start_offset"], one["next_offset"]) == ("t", 0, 0, 11)
    assert one["offsets"] == {"filtered": 0, "compacted": 0, "lost": 2, "dead_lettered": 1}
    assert (one["events"], one["holes"], one["holes_before"]) == (["offsets 5 to 6"], [[5, 6], [10, 10]], 0)
    assert (one["refused"], one["not_copied"]) == ("", None)


def test_a_refusal_a_pause_and_a_destination_that_is_gone_are_gaps(client: Client, site: Site) -> None:
    site.create()
    site.progress = {
        a_key("t-0"): a_progress(
            (OffsetClass.MIRRORED, 5), pause={"reason": "5: oversize"}, target_id=b"old"
        ),
        a_key("t-1"): a_progress((OffsetClass.MIRRORED, 5), target_id=b"old"),
    }
    (one,) = client.get("/v1/datastreams/orders/gaps").json()["partitions"]
    assert one["refused"] == "5: oversize"
    site.topic_ids = {"t": b"new"}
    gone = client.get("/v1/datastreams/orders/gaps").json()["partitions"]
    assert [one["destination_is_current"] for one in gone] == [False, False]
    site.topic_ids = {}
    client.post("/v1/datastreams/orders/pause", json={"reason": "failover"})
    site.tick()
    paused = client.get("/v1/datastreams/orders/gaps").json()["partitions"]
    assert [one["not_copied"]["state"] for one in paused] == ["paused", "paused"]


def test_of_what_has_stored_nothing_no_gap_is_known(client: Client, site: Site) -> None:
    site.create()
    found = client.get("/v1/datastreams/orders/gaps").json()
    assert (found["looked_at"], found["unknown"], found["partitions"]) == (0, ["t-0", "t-1"], [])
    assert client.get("/v1/datastreams/nobody/gaps").status_code == 404


def test_many_holes_are_cut_and_counted(client: Client, site: Site) -> None:
    site.create()
    classes = [(OffsetClass.MIRRORED, 1), (OffsetClass.FILTERED, 1)] * 130
    site.progress = {a_key("t-0"): a_progress(*classes)}
    (one,) = client.get("/v1/datastreams/orders/gaps").json()["partitions"]
    assert (len(one["holes"]), one["holes"][-1], one["holes_before"]) == (100, [259, 259], 30)


def move(site: Site, lane: str, history: LaneHistory, **more: Any) -> None:
    """Give a lane this history."""
    key, states = a_key(lane), site.follower.workers._states
    states[key] = replace(states[key], track=LaneTrack(history, states[key].rate), **more)
    site.follower.run_loop()


def at_the_clock_of(site: Site, life: PartitionLife) -> LaneHistory:
    return life.history_at(site.clock.monotonic())


def movements(found: dict[str, Any]) -> list[str | None]:
    return [one["movement"] and one["movement"]["state"] for one in found["partitions"]]


def test_each_partition_says_what_its_copying_does(client: Client, site: Site) -> None:
    site.create()
    assert movements(lag_of(client)) == [None, None], "nothing was measured yet"
    behind = PartitionLife().run(60, 100).run(300, 100, 0).run(60, 100, 250)
    behind.keeping(Retention(1_000_000, UNLIMITED))
    move(site, "t-0", at_the_clock_of(site, behind))
    move(site, "t-1", at_the_clock_of(site, PartitionLife().run(60, 100)))
    found = lag_of(client)
    assert movements(found) == ["CATCHING_UP", "OK"]
    catching_up, fine = (one["movement"] for one in found["partitions"])
    assert catching_up["eta_seconds"] == pytest.approx(21_000 / 150, rel=0.05)
    assert 700 < catching_up["seconds_to_loss"] < 800
    assert catching_up["loses_data"] is False
    seconds = (site.clock.now_ms() - catching_up["since_ms"]) / 1000
    assert 340 <= seconds <= 352, "must start with the first late record"
    assert (fine["since_ms"], fine["eta_seconds"], fine["seconds_to_loss"]) == (None, None, None)


def test_metrics_count_states_and_have_the_first_loss_and_the_last_end(client: Client, site: Site) -> None:
    site.create()
    assert "headrace_time_to_loss_seconds{" not in client.get("/metrics").text, "nothing was measured yet"
    stuck = PartitionLife().run(60, 100).run(600, 100, 0).keeping(Retention(3_600_000))
    behind = PartitionLife().run(60, 100).run(300, 100, 0).run(60, 100, 250).keeping(Retention(3_600_000))
    move(site, "t-0", at_the_clock_of(site, stuck))
    move(site, "t-1", at_the_clock_of(site, behind))
    found = {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in client.get("/metrics").text.splitlines())
        if any(part in name for part in ("headrace_partitions", "time_to_loss", "catch_up", "losing_backlog"))
        if not name.startswith("#")
    }
    of = '{datastream="orders"'
    assert found[f'headrace_partitions{of},state="STALL"}}'] == 1
    assert found[f'headrace_partitions{of},state="CATCHING_UP"}}'] == 1
    assert found[f"headrace_partitions_losing_data{of}}}"] == 1, "only the stalled partition"
    assert found[f"headrace_time_to_loss_seconds{of}}}"] == pytest.approx(3_000, abs=10)
    assert found[f"headrace_losing_backlog_ratio{of}}}"] == pytest.approx(1 / 6, rel=0.05)
    assert found[f"headrace_catch_up_seconds{of}}}"] == pytest.approx(140, rel=0.05)


def test_a_pause_says_what_it_waits_for_and_a_persons_is_a_persons(client: Client, site: Site) -> None:
    site.create()
    since = site.clock.monotonic() - 30
    away = {"phase": LanePhase.PAUSED, "reason": "source: no answer", "cause": PauseCause.SOURCE_AWAY}
    move(site, "t-0", LaneHistory(), since=since, **away)
    (one, _) = lag_of(client)["partitions"]
    assert (one["movement"]["state"], one["movement"]["reason"]) == ("SOURCE_AWAY", "source: no answer")
    assert one["movement"]["since_ms"] == site.clock.now_ms() - 30_000
    body = {"partitions": {"t": "1"}, "reason": "ticket 7", "requested_by": "me"}
    assert client.post("/v1/datastreams/orders/pause-partitions", json=body).status_code == 200
    site.tick()
    (_, paused) = lag_of(client)["partitions"]
    assert (paused["movement"]["state"], paused["movement"]["reason"]) == ("PAUSED_BY_USER", "ticket 7")
    assert paused["movement"]["since_ms"] is not None


def test_another_instance_judges_its_own_lanes_and_one_of_a_former_version_none() -> None:
    one, two = two_sites()
    one.create(limits={"min_tasks": 2})
    settle(one, two)
    for site in (one, two):
        for key in list(site.follower.workers._states):
            move(site, str(key.partition), at_the_clock_of(site, PartitionLife().run(60, 100)))
    assert movements(lag_of(one.client)) == ["OK", "OK"]
    newer = {**_a_lane(two)["movement"], "newer": 1, "state": "NEWER"}
    (said,) = lanes_read([{**_a_lane(two), "movement": newer}])
    assert said.movement is not None
    assert said.movement.state == "NEWER"
    former = _a_lane(two)
    del former["movement"]
    assert lanes_read([former])[0].movement is None


def _a_lane(site: Site) -> dict[str, Any]:
    lanes = site.client.get("/v1/lanes?instance=two").json()["lanes"]
    found: dict[str, Any] = next(one for one in lanes if one["task"] is not None)
    return found
