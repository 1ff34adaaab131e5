"""Test `headrace datastream list`, `get`, `lag`, `gaps` and `wait`."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx
import pytest

from headrace.console.client import RestClient
from headrace.console.datastreams.conditions import wait_until
from headrace.console.documents import read_documents
from headrace.console.resources import WaitCondition, path_of
from mirror.errors import NotFound, TimedOut
from mirror.instance.workers.lane_table import LanePhase
from mirror.instance.workers.lane_track import LaneTrack
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.movement.history import Retention
from mirror.worker.protocol import LaneRate
from tests.builders import SOURCE, a_key
from tests.fakes.in_process import InProcess
from tests.fakes.partition_lives import PartitionLife
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace, Serve


def measure(site: Site, lane: str, records: int, phase: LanePhase = LanePhase.COPYING) -> None:
    key, states = a_key(lane), site.follower.workers._states
    states[key] = replace(
        states[key], phase=phase, track=LaneTrack(rate=LaneRate(key, SOURCE, 0.0, 0.0, records, 100))
    )
    site.follower.run_loop()


def test_a_definition_is_json_or_yaml(site: Site, headrace: Headrace) -> None:
    site.create()
    as_json = headrace("datastream", "get", "orders")
    as_yaml = headrace("datastream", "get", "orders", "-o", "yaml")
    assert (as_json.code, as_yaml.code) == (0, 0)
    assert read_documents(as_yaml.out, "it") == [json.loads(as_json.out)]
    assert as_yaml.out.startswith("name: orders\n")
    assert headrace("datastream", "get", "orders", "-o", "table").code == 2


def test_a_list_is_a_table_json_or_yaml_documents(site: Site, headrace: Headrace) -> None:
    site.create("a")
    site.create("b", destination={"cluster": "destination", "name": "b.*"})
    assert "b.*" in headrace("datastream", "list").out
    (first, second) = json.loads(headrace("datastream", "list", "-o", "json").out)
    assert [first, second] == json.loads(headrace("datastream", "list", "--json").out)
    assert read_documents(headrace("datastream", "list", "-o", "yaml").out, "it") == [first, second]


def test_a_list_is_of_those_that_have_what_is_asked_for(site: Site, headrace: Headrace) -> None:
    site.create("a", owner="team-a", metadata={})
    site.create("b", owner="team-b", metadata={}, destination={"cluster": "destination", "name": "b.*"})
    site.client.post("/v1/datastreams/b/pause", json={})

    def listed(*options: str) -> list[str]:
        shown = headrace("datastream", "list", "--json", *options)
        assert shown.code == 0, shown.err
        return [one["name"] for one in json.loads(shown.out)]

    assert listed() == ["a", "b"]
    assert listed("--owner", "team-a") == ["a"]
    assert listed("--status", "PAUSED") == ["b"]
    assert listed("--status", "PAUSED", "--status", "READY") == ["a", "b"]
    assert listed("--source", "source", "--destination", "destination", "--owner", "team-b") == ["b"]
    assert listed("--source", "destination") == []
    assert headrace("datastream", "list", "--status", "HAPPY").code == 2


def test_lag_says_what_is_not_known(site: Site, headrace: Headrace) -> None:
    site.create()
    measure(site, "t-0", 5)
    shown = headrace("datastream", "lag", "orders").out
    assert "1 of 2 partitions" in shown
    assert "?" in shown
    measure(site, "t-1", 7)
    known = headrace("datastream", "lag", "orders").out
    assert "12 records" in known
    assert "100 ms" in known
    key, states = a_key("t-0"), site.follower.workers._states
    stuck = PartitionLife().run(60, 100).run(600, 100, 0).keeping(Retention(3_600_000))
    states[key] = replace(
        states[key], track=LaneTrack(stuck.history_at(site.clock.monotonic()), states[key].rate)
    )
    site.follower.run_loop()
    (row,) = [line for line in headrace("datastream", "lag", "orders").out.splitlines() if "STALL" in line]
    assert row.split()[:9] == ["t-0", "copying", "STALL", "5", "100", "ms", "-", "50", "min"]
    assert json.loads(headrace("datastream", "lag", "orders", "--json").out)["lag_records"] == 12


def test_gaps_are_shown_with_their_reasons(site: Site, headrace: Headrace) -> None:
    site.create()
    ledger = Ledger(0)
    ledger.enter(OffsetClass.LOST, 7)
    lost = LaneProgress(ledger, OffsetMap(), gaps=["0 to 6"], target_topic="t")
    site.progress = {a_key("t-0"): lost}
    shown = headrace("datastream", "gaps", "orders").out
    for text in ("t-0", "0 to 6", "1 of 1 partition", "1: t-1"):
        assert text in shown
    assert json.loads(headrace("datastream", "gaps", "orders", "--json").out)["looked_at"] == 1


def client_of(site: Site, serve: Serve) -> RestClient:
    serve(InProcess(site.app))
    return RestClient("test")


@pytest.mark.parametrize("condition", [WaitCondition.READY, WaitCondition.RUNNING])
def test_a_wait_ends_when_it_is_so(condition: WaitCondition, serve: Serve) -> None:
    site = Site()
    client, path = client_of(site, serve), path_of("orders")
    site.client.post(
        "/v1/datastreams",
        json={"name": "orders", "source": {"cluster": "source", "topics": "t"}, "metadata": {"owner": "me"}},
    )
    looks: list[float] = []

    def tick(seconds: float) -> None:
        looks.append(seconds)
        site.tick()

    wait_until(client, path, condition, 60, sleep=tick)
    assert looks


def test_caught_up_is_every_partition_within_the_lag(serve: Serve) -> None:
    site = Site()
    site.create()
    client, path = client_of(site, serve), path_of("orders")
    measure(site, "t-0", 5)
    with pytest.raises(TimedOut, match=r"\bt-0 5 records.* t-1 .*\bunknown"):
        wait_until(client, path, WaitCondition.CAUGHT_UP, 0)
    measure(site, "t-1", 0)
    wait_until(client, path, WaitCondition.CAUGHT_UP, 0, most_lag=5)
    wait_until(client, path, WaitCondition.CAUGHT_UP, 60, sleep=lambda _: measure(site, "t-0", 0))


def test_a_partition_that_paused_itself_does_not_run_and_one_that_a_person_paused_may(serve: Serve) -> None:
    site = Site()
    site.create()
    client, path = client_of(site, serve), path_of("orders")
    body = {"partitions": {"t": "0"}, "reason": "ticket 7"}
    site.client.post("/v1/datastreams/orders/pause-partitions", json=body)
    site.tick()
    wait_until(client, path, WaitCondition.RUNNING, 0)
    measure(site, "t-1", 0, LanePhase.PAUSED)
    with pytest.raises(TimedOut, match="t-1 paused"):
        wait_until(client, path, WaitCondition.RUNNING, 0)
    site.client.post("/v1/datastreams/orders/pause-partitions", json={**body, "partitions": {"t": "*"}})
    site.tick()
    with pytest.raises(TimedOut, match="all partitions"):
        wait_until(client, path, WaitCondition.RUNNING, 0)


def test_stopped_and_deleted(serve: Serve) -> None:
    site = Site()
    site.create()
    client, path = client_of(site, serve), path_of("orders")
    with pytest.raises(TimedOut, match="it is READY"):
        wait_until(client, path, WaitCondition.STOPPED, 0)
    client.post(f"{path}/stop", {})
    wait_until(client, path, WaitCondition.STOPPED, 60, sleep=lambda _: site.tick())
    client.delete(path)
    wait_until(client, path, WaitCondition.DELETED, 60, sleep=lambda _: site.tick())
    with pytest.raises(NotFound):
        wait_until(client, path, WaitCondition.READY, 60)


def test_an_instance_that_is_away_for_a_while_is_asked_again(serve: Serve) -> None:
    site = Site()
    site.create()
    answers: list[httpx.Response | httpx.ConnectError] = [httpx.Response(503), httpx.ConnectError("gone")]

    def once_away(request: httpx.Request) -> httpx.Response:
        answer = answers.pop() if answers else InProcess(site.app).handle_request(request)
        if isinstance(answer, httpx.ConnectError):
            raise answer
        return answer

    serve(httpx.MockTransport(once_away))
    wait_until(RestClient("test"), path_of("orders"), WaitCondition.READY, 60, sleep=lambda _: None)


def test_the_command_says_what_is_lacking(site: Site, headrace: Headrace) -> None:
    site.create()
    wait = ("datastream", "wait", "orders", "--for")
    assert headrace(*wait, "ready") == (0, "orders: ready\n", "")
    late = headrace(*wait, "stopped", "--timeout", "1ms")
    assert (late.code, late.out) == (1, "")
    assert "READY" in late.err
    assert headrace(*wait, "happy").code == 2
    assert headrace(*wait, "ready", "--timeout", "soon").code == 2
