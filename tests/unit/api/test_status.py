"""Test /v1/health, /v1/instances, /v1/lanes, /metrics, and properties common to all responses."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest
from httpx import Client
from prometheus_client.parser import text_string_to_metric_families

from mirror.instance.workers.lane_table import LanePhase
from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.metrics import SUMMED, Drops
from mirror.model.movement.clock_skew import ClockSkew
from mirror.worker.protocol import ClusterClock, LaneRate, LaneRates, TaskSums, ThrottledTime
from monitor.records.record import BudgetCost, DeliveryCost, IncidentRecord, Phase, RebalanceGain
from tests.builders import SOURCE, a_key
from tests.fakes.node_store import Operation
from tests.fakes.site import Site


def samples(client: Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the metrics of Headrace, without those of the Python process, which change at any time."""
    text = client.get("/metrics").text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("headrace_")
    }


def lanes_of(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/lanes").json()["lanes"]
    return found


def test_health_is_of_every_part(client: Client, site: Site) -> None:
    site.create()
    answer = client.get("/v1/health")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["instance"], found["is_well"], found["is_leading"], found["epoch"]) == (
        "one",
        True,
        True,
        1,
    )
    assert found["parts"]["follower"]["is_well"]
    assert found["data_plane"] == "interpreted"
    assert {"auto", "assigner", "simple"} <= set(found["strategies"])
    assert {"self", "pinot", "none"} <= set(found["load_providers"])
    site.health.report("follower", False, "it hurts")
    answer = client.get("/v1/health")
    assert answer.status_code == 503
    assert answer.json()["parts"]["follower"] == {"is_well": False, "sentence": "it hurts"}


def test_what_no_worker_has_reported_is_not_known(client: Client, site: Site) -> None:
    site.follower.workers.is_up = False
    assert client.get("/v1/health").json()["data_plane"] is None
    assert not [name for name, _ in samples(client) if name == "headrace_build_info"]


def test_instances_the_leader_first(client: Client, site: Site) -> None:
    site.tick()
    (found,) = client.get("/v1/instances").json()
    assert found["name"] == "one"
    assert found["rest_address"] == "one.test:80"


def test_lanes_with_what_is_known_of_them(client: Client, site: Site) -> None:
    assert lanes_of(client) == []
    site.create()
    key = a_key("t-0")
    state = site.follower.workers._states[key]
    site.follower.workers._states[key] = replace(
        state,
        phase=LanePhase.PAUSED,
        reason="too large",
        track=LaneTrack(rate=LaneRate(key, SOURCE, 9.0, 1.0, 5, 70)),
    )
    site.follower.run_loop()
    first, second = lanes_of(client)
    assert (first["partition"], first["phase"], first["reason"]) == ("t-0", "paused", "too large")
    assert (first["lag_records"], first["lag_ms"], first["bytes_per_second"]) == (5, 70, 9.0)
    assert (second["partition"], second["phase"], second["lag_ms"]) == ("t-1", "copying", None)


@pytest.mark.parametrize(
    ("phase", "measured", "shown"),
    [
        (LanePhase.COPYING, (0, 0), (0, 0)),
        (LanePhase.COPYING, (0, None), (None, None)),
        (LanePhase.PAUSED, (0, 0), (None, None)),
        (LanePhase.STARTING, (0, 0), (None, None)),
        (LanePhase.PAUSED, (7, 7_000), (7, 7_000)),
    ],
)
def test_that_nothing_waits_is_known_of_lanes_that_copy_and_hear_of_their_source(
    client: Client,
    site: Site,
    phase: LanePhase,
    measured: tuple[int, int | None],
    shown: tuple[int | None, int | None],
) -> None:
    site.create()
    _measure(site, "t-0", *measured, phase=phase)
    _measure(site, "t-1", 0, 0)
    site.follower.run_loop()
    lane = lanes_of(client)[0]
    assert (lane["lag_records"], lane["lag_ms"]) == shown
    orders = frozenset({("datastream", "orders")})
    found = samples(client)
    seconds = None if shown[1] is None else shown[1] / 1000
    assert found.get(("headrace_lag_records", orders)) == shown[0]
    assert found.get(("headrace_lag_seconds", orders)) == seconds


def test_a_quota_that_holds_a_lane_back_is_its_reason_and_nothing_is_ill(client: Client, site: Site) -> None:
    site.create()
    key, orders = a_key("t-0"), frozenset({("datastream", "orders")})
    state = site.follower.workers._states[key]
    site.follower.workers._states[key] = replace(state, slowed="its quota")
    throttled = (ThrottledTime(SOURCE, 2.5),)
    clocks = (ClusterClock(SOURCE, ClockSkew(-1_500.0, 2.0)),)
    site.follower.workers.measurements.add(LaneRates((), (), throttled, clocks))
    site.follower.run_loop()
    lane, other = lanes_of(client)
    assert (lane["phase"], lane["by"], lane["reason"]) == ("copying", None, "its quota")
    assert other["reason"] == ""
    health = client.get("/v1/health")
    assert (health.status_code, health.json()["clocks"]) == (
        200,
        {"source": {"ahead_seconds": -1.5, "bound_seconds": 0.002}},
    )
    found = samples(client)
    assert found["headrace_clock_skew_seconds", frozenset({("cluster", "source")})] == -1.5
    assert found["headrace_clock_skew_bound_seconds", frozenset({("cluster", "source")})] == 0.002
    assert found["headrace_held_back_lanes", orders] == 1
    assert found["headrace_throttled_seconds_total", frozenset({("cluster", "source")})] == 2.5


@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        ([(0, 0), (0, 0)], (0, 0)),
        ([(0, 0), None], (None, None)),
        ([(7, 7_000), None], (7, 7)),
        ([(7, None), (0, 0)], (7, None)),
    ],
)
def test_what_waits_in_sum_is_at_least_what_is_known_and_never_nothing(
    client: Client,
    site: Site,
    measured: list[tuple[int, int | None] | None],
    shown: tuple[int | None, int | None],
) -> None:
    site.create()
    for number, one in enumerate(measured):
        if one is not None:
            _measure(site, f"t-{number}", *one)
    site.follower.run_loop()
    found, orders = samples(client), frozenset({("datastream", "orders")})
    assert (found.get(("headrace_lag_records", orders)), found.get(("headrace_lag_seconds", orders))) == shown


def _measure(
    site: Site, lane: str, records: int, age_ms: int | None, phase: LanePhase = LanePhase.COPYING
) -> None:
    key, states = a_key(lane), site.follower.workers._states
    rate = LaneRate(key, SOURCE, 0.0, 0.0, records, age_ms)
    states[key] = replace(states[key], phase=phase, track=LaneTrack(rate=rate))


def test_metrics_add_up_by_datastream(client: Client, site: Site) -> None:
    site.create()
    for number in (0, 1):
        key = a_key(f"t-{number}")
        state = site.follower.workers._states[key]
        rate = LaneRate(key, SOURCE, 10.0 + number, 2.0, 5, 3_000 * number)
        site.follower.workers._states[key] = replace(state, track=LaneTrack(rate=rate))
    site.follower.run_loop()
    found = samples(client)
    orders = frozenset({("datastream", "orders")})
    assert found["headrace_bytes_per_second", orders] == 21.0
    assert found["headrace_records_per_second", orders] == 4.0
    assert found["headrace_lag_records", orders] == 10
    assert found["headrace_lag_seconds", orders] == 3.0
    assert found["headrace_lanes", orders | {("phase", "copying")}] == 2
    assert found["headrace_leader", frozenset()] == 1
    assert found["headrace_tasks_required", orders] == 1
    assert found["headrace_partitions_of_unknown_load", orders] == 2
    assert found["headrace_loads", frozenset({("source", "source"), ("state", "unknown")})] == 1
    assert found["headrace_plan_epoch", frozenset()] == 1
    build = frozenset({("version", version("headrace")), ("data_plane", "interpreted")})
    assert found["headrace_build_info", build] == 1
    assert found["headrace_part_healthy", frozenset({("part", "follower")})] == 1


def test_records_that_are_dropped_are_a_remark_while_it_happens_and_counted(
    client: Client, site: Site
) -> None:
    site.create()
    dropped = frozenset({("kind", "events")})
    site.follower.event_drops = lambda: Drops(7, "Local: Queue full")
    site.follower.run_loop()
    answer = client.get("/v1/health")
    part = answer.json()["parts"]["events records"]
    assert part["is_well"]
    assert "7 " in part["sentence"]
    assert "Local: Queue full" in part["sentence"]
    assert samples(client)["headrace_dropped_records_total", dropped] == 7
    site.follower.event_drops = lambda: Drops(7)
    site.follower.run_loop()
    assert "events records" not in client.get("/v1/health").json()["parts"]
    assert samples(client)["headrace_dropped_records_total", dropped] == 7


def test_counters_and_latencies_of_tasks_rise(client: Client, site: Site) -> None:
    site.create()
    counts = (0, 3, 1, *([0] * (LATENCY_BUCKETS - 3)))
    measured = {
        "records_copied": 4,
        "bytes_copied": 400,
        "uncompressed_bytes": 90,
        "batches": 5,
        "passthrough_batches": 3,
        "wait_ms": 20.0,
        "fetch_ms": 1.0,
        "queue_ms": 2.0,
        "produce_ms": 3.0,
        "cpu_ms": 500.0,
        "spare_cpu_ms": 100.0,
    }
    sums = TaskSums(
        GroupName("orders"), TaskName("orders-0"), tuple(measured[name] for name in SUMMED), counts
    )
    site.follower.workers.measurements.add(LaneRates((), (sums, sums)))
    found = samples(client)
    task = frozenset({("datastream", "orders"), ("task", "orders-0")})
    assert found["headrace_records_total", task] == 8
    assert found["headrace_bytes_total", task] == 800
    assert found["headrace_uncompressed_bytes_total", task] == 180
    assert found["headrace_cpu_seconds_total", task] == 1.0
    assert found["headrace_batches_total", task | {("path", "passthrough")}] == 6
    assert found["headrace_batches_total", task | {("path", "opened")}] == 4
    assert found["headrace_latency_stage_seconds_total", task | {("stage", "produce")}] == 0.006
    orders = frozenset({("datastream", "orders")})
    assert found["headrace_latency_seconds_bucket", orders | {("le", "0.002")}] == 6
    assert found["headrace_latency_seconds_bucket", orders | {("le", "0.004")}] == 8
    assert found["headrace_latency_seconds_count", orders] == 8


def test_a_scrape_does_not_grow_with_partitions(client: Client, site: Site) -> None:
    site.source.grow("t", 200)
    site.create()
    assert len(site.follower.lanes) == 200
    assert len(samples(client)) < 30


def test_scraping_twice_and_two_applications_do_not_disturb_each_other(client: Client) -> None:
    other = Site().client
    assert client.get("/metrics").status_code == other.get("/metrics").status_code == 200
    assert samples(client) == samples(client)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("GET", "/", 404), ("PUT", "/v1/plan", 405), ("DELETE", "/metrics", 405)],
)
def test_what_does_not_exist_is_a_problem_document_too(
    client: Client, method: str, path: str, status: int
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["kind"] == {404: "NotFound", 405: "MethodNotAllowed"}[status]
    assert answer.json()["detail"]


def test_a_bug_is_answered_like_any_other_problem_and_tells_nothing_of_itself(
    client: Client, site: Site
) -> None:
    def fail(_: Operation) -> None:
        raise ZeroDivisionError("a secret of ours")

    site.session.script = fail
    for path in ("/v1/plan", "/datastream/x"):
        answer = client.get(path)
        assert answer.status_code == 500
        assert answer.json()["status"] == 500
        assert "secret" not in answer.text


def test_the_interface_describes_itself(client: Client) -> None:
    described = client.get("/v1/openapi.json").json()
    assert {"/v1/datastreams", "/v1/datastreams/{name}", "/v1/rebalance"} <= set(described["paths"])
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    assert all(operation["description"] for operation in operations)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/v1/datastreams", "GET, HEAD, POST"), ("/v1/datastreams/orders", "DELETE, GET, HEAD, PATCH, PUT")],
)
def test_a_method_that_is_not_possible_is_refused_with_those_that_are(
    client: Client, path: str, allowed: str
) -> None:
    answer = client.request("TRACE", path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_incidents_are_those_that_the_monitor_keeps(client: Client, site: Site) -> None:
    late = IncidentRecord("orders-2", "orders", "source", 2).noted(2, Phase.DETECTED, "p99 is 9 s")
    cost = BudgetCost("99 % within 1 ms over 30 d", 0.5, 0.25)
    late = replace(late, matters=("HeadraceSourceAway",), bad_seconds=20.0, costs=(cost,))
    late = replace(late, gain=RebalanceGain(5, 60.0, 30.0, 20.0))
    over = replace(IncidentRecord("clicks-1", "clicks", "source", 1, worst_ms=9.5), closed_ms=7)
    over = replace(over, deliveries=(DeliveryCost("p99 within 5 ms", 40, 2.5),))
    site.incidents = [late, over]

    def found(**only: Any) -> list[str]:
        answer = client.get("/v1/incidents", params=only)
        assert answer.status_code == 200
        return [one["id"] for one in answer.json()]

    assert found() == ["orders-2", "clicks-1"]
    assert found(open=True) == found(datastream="orders") == found(limit=1) == ["orders-2"]
    assert found(open=False) == ["clicks-1"]
    assert found(open=True, datastream="clicks") == []
    assert client.get("/v1/incidents").json()[0] == {
        "id": "orders-2",
        "datastream": "orders",
        "cluster": "source",
        "opened_ms": 2,
        "closed_ms": None,
        "worst_ms": None,
        "timeline": [{"time_ms": 2, "phase": "detected", "text": "p99 is 9 s", "times": 1, "first_ms": None}],
        "causes": {},
        "closing_ms": None,
        "left_out": 0,
        "is_late": True,
        "matters": ["HeadraceSourceAway"],
        "cause": "",
        "evidence": {},
        "bad_seconds": 20.0,
        "unknown_seconds": 0.0,
        "judged_ms": 0,
        "costs": [{"objective": "99 % within 1 ms over 30 d", "before": 0.5, "now": 0.25, "spent": 0.25}],
        "gain": {"acted_ms": 5, "left": 60.0, "predicted": 30.0, "lasted": 20.0, "saved": 40.0},
        "deliveries": None,
    }
    counted = [{"objective": "p99 within 5 ms", "records": 40, "late": 2.5}]
    assert client.get("/v1/incidents").json()[1]["deliveries"] == counted


def test_listed_topics_with_illegal_names_are_counted_where_the_instance_leads(site: Site) -> None:
    site.source.illegal_topics = 3
    site.create()
    assert 'headrace_illegal_topics{cluster="source"} 3.0' in site.client.get("/metrics").text
    site.source.illegal_topics = 0
    site.tick()
    assert "headrace_illegal_topics{" not in site.client.get("/metrics").text
