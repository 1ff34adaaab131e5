"""Test the history of loads and latencies stored in Pinot: queries, responses, and failures of Pinot."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client

from api.services import LatencyHistoryQuery, LoadHistoryQuery
from mirror.errors import Unreachable
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.topics import TopicPartition
from pinot.history.points import HOUR_MS, LatencyHistory, LatencyStep, LoadHour
from tests.fakes.site import LoadHours, Site, a_body
from tests.unit.api.guarded import Guarded

LOADS = "/v1/datastreams/orders/loads/history"
LATENCY = "/v1/datastreams/orders/latency/history"


class Pinot:
    """Fake Pinot that returns fixed results and records the queries."""

    def __init__(self, hours: LoadHours | None = None, history: LatencyHistory | None = None) -> None:
        self.asked: list[Any] = []
        self._hours, self._history = hours or {}, history or LatencyHistory(60_000, ())

    def loads(self, asked: LoadHistoryQuery) -> LoadHours:
        self.asked.append(asked)
        return self._hours

    def latency(self, asked: LatencyHistoryQuery) -> LatencyHistory:
        self.asked.append(asked)
        return self._history


def an_hour(site: Site, back: int, load: float) -> LoadHour:
    hour = site.clock.now_ms() // HOUR_MS * HOUR_MS - back * HOUR_MS
    return LoadHour(hour, hour, load, load * 2, load * 3)


def test_hours_of_partitions_are_columns_with_holes(site: Site, client: Client) -> None:
    site.create()
    place = TopicPartition("t", 1)
    pinot = Pinot({place: [an_hour(site, 2, 10.0), an_hour(site, 0, 20.0)]})
    site.load_history = pinot.loads
    found = client.get(LOADS, params={"partition": ["t-1", "t-0", "t-1"], "hours": 3}).json()
    now_ms = site.clock.now_ms()
    assert found["hours_ms"] == [now_ms // HOUR_MS * HOUR_MS - back * HOUR_MS for back in (2, 1, 0)]
    one, other = found["series"]
    assert (one["partition"], other["partition"]) == ("t-1", "t-0")
    assert one["mean_bytes_per_second"] == [10.0, None, 20.0]
    assert one["p95_bytes_per_second"] == [20.0, None, 40.0]
    assert one["most_bytes_per_second"] == [30.0, None, 60.0]
    assert other["mean_bytes_per_second"] == [None] * 3
    (asked,) = pinot.asked
    assert (asked.cluster, asked.places) == ("source", [place, TopicPartition("t", 0)])
    assert (asked.when.until_ms - 1, asked.when.since_ms) == (now_ms, found["hours_ms"][0])


def test_a_partition_is_hot_since_an_hour_where_tasks_have_a_limit(site: Site, client: Client) -> None:
    site.create()
    place = TopicPartition("t", 0)
    rows = [an_hour(site, back, load) for back, load in ((3, 1.0), (2, 30.0), (1, 50.0), (0, 50.0))]
    site.load_history = Pinot({place: rows}).loads
    (unlimited,) = client.get(LOADS, params={"partition": "t-0"}).json()["series"]
    assert (unlimited["hot_since_ms"], unlimited["too_heavy_since_ms"]) == (None, None)
    limited = Site(usable=7)
    limited.create()
    limited.tick()
    limited.load_history = Pinot({place: rows}).loads
    answer = limited.client.get(LOADS, params={"partition": "t-0"}).json()
    (series,) = answer["series"]
    assert answer["usable_bytes_per_second"] == 90  # the limit that its plan was computed with
    assert (series["hot_since_ms"], series["too_heavy_since_ms"]) == (rows[1].hour_ms, rows[2].hour_ms)
    assert series["is_longer"] is False


def test_without_partitions_it_is_the_sum_of_the_topics(site: Site, client: Client) -> None:
    site.create()
    pinot = Pinot({None: [LoadHour(site.clock.now_ms() // HOUR_MS * HOUR_MS, 0, 7.0, None, None)]})
    site.load_history = pinot.loads
    (series,) = client.get(LOADS, params={"hours": 1}).json()["series"]
    assert (series["partition"], series["mean_bytes_per_second"]) == (None, [7.0])
    assert series["p95_bytes_per_second"] == series["most_bytes_per_second"] == [None]
    assert (pinot.asked[0].places, pinot.asked[0].topics) == ([], {"t"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"hours": 0},
        {"hours": 42 * 24 + 1},
        {"partition": "t"},
        {"partition": "t-x"},
        {"partition": "t-²"},
        {"partition": "other-0"},
        {"partition": [f"t-{number}" for number in range(51)]},
        {"partition": [f"t-{number}" for number in range(50)], "hours": 42 * 24},
    ],
)
def test_too_much_and_what_is_not_there_is_refused(site: Site, client: Client, wrong: dict[str, Any]) -> None:
    site.create()
    site.load_history = Pinot().loads
    answer = client.get(LOADS, params=wrong)
    assert answer.status_code == 400, answer.text
    assert client.get("/v1/datastreams/none/loads/history").status_code == 404


def a_step(begin_ms: int, **more: Any) -> LatencyStep:
    counts = [0] * LATENCY_BUCKETS
    counts[latency_bucket(100)] = 10
    values = {"records": 10, "batches": 4, "stages_ms": (4.0, 8.0, 2.0, 6.0), "oldest_ms": 40}
    return LatencyStep(begin_ms, **{**values, "counts": tuple(counts), **more})


def test_latency_is_columns_by_step_with_its_parts(site: Site, client: Client) -> None:
    site.create()
    now_ms = site.clock.now_ms()
    newest = now_ms // 60_000 * 60_000
    quiet = a_step(newest, records=0, batches=0, counts=(0,) * LATENCY_BUCKETS, oldest_ms=None)
    busy = a_step(newest - 120_000, size_bytes=600_000, waiting_record_ms=60_000 * 7)
    pinot = Pinot(history=LatencyHistory(60_000, [busy, quiet]))
    site.latency_history = pinot.latency
    found = client.get(LATENCY, params={"hours": 1, "points": 62}).json()
    assert found["step_ms"] == 60_000
    assert found["times_ms"][-3:] == [newest - 120_000, newest - 60_000, newest]
    assert found["records"][-3:] == [10, None, 0]
    assert found["oldest_ms"][-3:] == [40, None, None]
    assert found["source"][-3:] == [1.0, None, None]
    assert [found[name][-3] for name in ("fetch", "queue", "produce")] == [2.0, 0.5, 1.5]
    assert found["p99_ms"][-1] is None
    assert found["bytes_per_second"][-3:] == [10_000.0, None, 0.0]
    assert found["lag_records"][-3:] == [7.0, None, 0.0]
    assert 64 < found["p50_ms"][-3] <= found["p99_ms"][-3] <= 128
    (asked,) = pinot.asked
    assert (asked.group, asked.points, asked.topics) == ("orders", 62, None)
    assert asked.when.length_ms == HOUR_MS


def test_of_a_datastream_that_shares_tasks_only_its_own_topics_count(site: Site, client: Client) -> None:
    site.source.topics |= {"u": site.source.topics["t"]}
    site.create(metadata={"owner": "tests", "system.taskPrefix": "shared"})
    body = a_body("others", source={"cluster": "source", "topics": "u"})
    body["metadata"] = {"owner": "tests", "system.taskPrefix": "shared"}
    assert client.post("/v1/datastreams", json=body).status_code == 201
    site.tick()
    pinot = Pinot()
    site.latency_history = pinot.latency
    assert client.get(LATENCY).status_code == 200
    assert (pinot.asked[0].group, pinot.asked[0].topics) == ("shared", {"t"})


@pytest.mark.parametrize(
    "wrong", [{"hours": 0}, {"hours": 14 * 24 + 1}, {"points": 1}, {"points": 1_001}, {"hours": "x"}]
)
def test_a_range_of_latency_has_bounds(site: Site, client: Client, wrong: dict[str, Any]) -> None:
    site.create()
    assert client.get(LATENCY, params=wrong).status_code == 400


@pytest.mark.parametrize("path", [LOADS, LATENCY])
def test_without_pinot_it_is_said_what_is_missing(site: Site, client: Client, path: str) -> None:
    site.create()
    answer = client.get(path)
    assert (answer.status_code, answer.json()["kind"]) == (503, "HistoryUnavailable")
    assert answer.json()["advice"]
    assert answer.headers["Retry-After"]

    def away(_: object) -> Any:
        raise Unreachable("the Pinot broker does not answer", advice="is it running?")

    site.load_history = site.latency_history = away
    answer = client.get(path)
    assert (answer.status_code, answer.json()["kind"]) == (503, "Unreachable")


@pytest.mark.parametrize("what", ["loads", "latency"])
def test_everybody_who_may_read_may_read_it(guarded: Guarded, what: str) -> None:
    pinot = Pinot()
    guarded.site.load_history, guarded.site.latency_history = pinot.loads, pinot.latency
    path = f"/v1/datastreams/mine/{what}/history"
    assert guarded.site.client.get(path).status_code == 401
    for name in guarded.tokens:
        assert guarded.as_(name).get(path).status_code == 200
