"""Test GET /v1/loads and /v1/datastreams/{name}/loads: every instance returns the leader's values."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest
from httpx import Client

from api.resources.partitions.current_loads import cluster_loads_read, loads_read
from api.resources.partitions.load_answers import ClusterLoadsAnswer, LeadersLoads, PartitionLoadAnswer
from assigner.planner import LoadPlanner
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.errors import InvalidRequest
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.observations import DAY_MS, ClusterLoads
from mirror.instance.loads.watch import LoadState, LoadStatus
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.load import LoadSource, PartitionLoad, RateSource
from mirror.model.topics import TopicDescription, TopicPartition
from tests.builders import SOURCE, a_task
from tests.fakes.site import Site, two_sites

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MEASURER: Final = InstanceName("measurer")
MEASURED: Final = (
    "bytes_per_second",
    "messages_per_second",
    "rate_source",
    "measured_at_ms",
    "age_ms",
    "is_lower_bound",
)
"""Fields of a partition that come from its load."""
COUNTS: Final = ("known", "held", "unknown")
NOW: Final = 2 * DAY_MS


def measure(site: Site, rates: dict[TopicPartition, float], behind: frozenset[TopicPartition]) -> None:
    """Publish measurements of an instance and plan with them."""
    both = {key: (rate, 1.0) for key, rate in rates.items()}
    MeasuredLoads(site.session).publish(
        MEASURER, InstanceMeasurements({SOURCE: both}, {SOURCE: behind}), site.clock.now_ms()
    )
    answer = site.client.post("/v1/rebalance", json={"datastream": "orders"})
    assert answer.status_code == 202, answer.text
    site.tick()


def loads_of(client: Client, **parameters: Any) -> dict[str, Any]:
    answer = client.get("/v1/datastreams/orders/loads", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def counts(found: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(found[name] for name in COUNTS)


def the_cluster(client: Client) -> dict[str, Any]:
    answer = client.get("/v1/loads")
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["clusters"]
    return dict(found)


@pytest.fixture
def pair() -> tuple[Site, Site]:
    """Return two instances; the first one is the leader and has the loads of two partitions."""
    one, two = two_sites()
    one.create()
    measure(one, {T0: 30.0, T1: 20.0}, frozenset())
    for site in (two, one, two):
        site.tick()
    return one, two


async def refuse() -> None:
    raise httpx.ConnectError("connection refused")


def test_loads_are_those_that_were_planned_by_the_heaviest_first() -> None:
    site = Site(planner=LoadPlanner())
    site.create()
    at_ms = site.clock.now_ms()
    measure(site, {T0: 0.0, T1: 95.0}, frozenset({T1}))
    found = loads_of(site.client)
    age_ms = site.clock.now_ms() - at_ms
    rows = [
        [one[key] for key in ("partition", *MEASURED, "is_offending", "instance")]
        for one in found["partitions"]
    ]
    assert rows == [
        [1, 95.0, 1.0, "mirror", at_ms, age_ms, True, True, "one"],
        [0, 0.0, 1.0, "mirror", at_ms, age_ms, False, False, "one"],
    ]
    assert len({one["task"] for one in found["partitions"]}) == 2
    assert (found["bytes_per_second"], counts(found)) == (95.0, (2, 0, 0))
    assert (found["cluster"], found["provider"], found["leader"]) == ("source", "self", "one")
    assert (found["no_answer"], found["left_out"]) == ("", 0)
    (group,) = site.client.get("/v1/plan").json()["groups"]
    assert (found["planned_ms"], group["offending_partitions"]) == (group["planned_ms"], ["t-1"])


def test_loads_are_as_new_as_the_measurements_without_another_plan(client: Client, site: Site) -> None:
    site.create()
    for rates in ({T0: 3.0, T1: 7.0}, {T0: 4.0, T1: 1.0}):
        both = {key: (rate, 1.0) for key, rate in rates.items()}
        at_ms = site.clock.now_ms()
        MeasuredLoads(site.session).publish(MEASURER, InstanceMeasurements({SOURCE: both}), at_ms)
        site.tick(4)
        found = loads_of(client)
        assert {one["partition"]: one["bytes_per_second"] for one in found["partitions"]} == {
            place.partition: rate for place, rate in rates.items()
        }
        assert {one["measured_at_ms"] for one in found["partitions"]} == {at_ms}
        assert found["provider"] == the_cluster(client)["provider"] == "self"
        assert the_cluster(client)["measured_at_ms"] == at_ms


def test_what_nobody_has_measured_is_null_and_so_is_a_sum_with_it(client: Client, site: Site) -> None:
    site.create()
    found = loads_of(client)
    assert [one["partition"] for one in found["partitions"]] == [0, 1]
    assert {one[key] for one in found["partitions"] for key in MEASURED} == {None}
    assert (found["bytes_per_second"], found["provider"], counts(found)) == (None, None, (0, 0, 2))
    measure(site, {T1: 7.0}, frozenset())
    found = loads_of(client)
    assert [(one["partition"], one["bytes_per_second"]) for one in found["partitions"]] == [
        (1, 7.0),
        (0, None),
    ]
    assert (found["bytes_per_second"], counts(found)) == (None, (1, 0, 1))
    site.create("empty", source={"cluster": "source", "topics": "nothing"})
    nothing = client.get("/v1/datastreams/empty/loads").json()
    assert (nothing["partitions"], nothing["bytes_per_second"], counts(nothing)) == ([], None, (0, 0, 0))
    assert client.get("/v1/datastreams/nobody/loads").status_code == 404


def test_of_many_the_heaviest_are_shown_and_the_others_counted(client: Client, site: Site) -> None:
    site.create()
    measure(site, {T0: 3.0, T1: 7.0}, frozenset())
    found = loads_of(client, limit=1)
    assert [one["partition"] for one in found["partitions"]] == [1]
    assert (found["left_out"], found["bytes_per_second"], counts(found)) == (1, 10.0, (2, 0, 0))
    for limit in (0, 100_001, "many"):
        assert client.get("/v1/datastreams/orders/loads", params={"limit": limit}).status_code == 400


def test_a_cluster_is_summed_up_over_its_datastreams(client: Client, site: Site) -> None:
    site.source.topics["u"] = TopicDescription("u", 3)
    site.create()
    site.create("more", source={"cluster": "source", "topics": "u"})
    measure(site, {T0: 3.0, T1: 7.0, TopicPartition("u", 2): 1.0}, frozenset())
    site.tick(3)
    found = the_cluster(client)
    assert (found["cluster"], found["provider"], found["state"]) == ("source", "self", "known")
    assert (found["partitions"], counts(found)) == (5, (3, 0, 2))
    assert found["since_ms"] >= found["measured_at_ms"] > 0
    assert found["age_ms"] == site.clock.now_ms() - found["measured_at_ms"]
    assert "newest measurement" in found["reason"]
    assert {one["topic"] for one in loads_of(client)["partitions"]} == {"t"}


def test_what_was_measured_before_the_measurements_stopped_is_held(client: Client, site: Site) -> None:
    site.create()
    measure(site, {T0: 3.0, T1: 7.0}, frozenset())
    MeasuredLoads(site.session).withdraw(MEASURER)
    site.tick(3)
    found = loads_of(client)
    assert [(one["bytes_per_second"], one["rate_source"]) for one in found["partitions"]] == [
        (7.0, "held"),
        (3.0, "held"),
    ]
    assert counts(found) == (2, 2, 0)
    cluster = the_cluster(client)
    assert (cluster["state"], counts(cluster)) == ("unknown", (2, 2, 0))


def test_partitions_that_a_person_paused_have_their_loads(client: Client, site: Site) -> None:
    site.create()
    measure(site, {T0: 3.0, T1: 7.0}, frozenset())
    assert client.post("/v1/datastreams/orders/pause", json={"reason": "ticket 7"}).status_code == 200
    site.tick()
    rows = loads_of(client)["partitions"]
    assert [(one["partition"], one["bytes_per_second"]) for one in rows] == [(1, 7.0), (0, 3.0)]


def test_whichever_is_asked_the_leader_answers(pair: tuple[Site, Site]) -> None:
    one, two = pair
    assert loads_of(two.client, limit=1) == loads_of(one.client, limit=1)
    assert loads_of(two.client)["bytes_per_second"] == 50.0
    assert two.client.get("/v1/loads").json() == one.client.get("/v1/loads").json()
    assert the_cluster(two.client)["known"] == 2
    assert {question.url.host for question in two.neighbours.asked} == {"one.test"}
    assert one.neighbours.asked == []


def test_where_the_leader_is_not_heard_that_is_said_and_nothing_is_known(pair: tuple[Site, Site]) -> None:
    one, two = pair
    two.neighbours.failures["one.test"] = refuse
    unreported(two, "one is unreachable: one.test:80: connection refused")
    two.neighbours.failures.clear()
    one.leader.leader.joined(None)
    unreported(two, "leader")


def unreported(site: Site, reason: str) -> None:
    found = loads_of(site.client)
    assert (found["leader"], reason in found["no_answer"]) == ("one", True)
    assert [(one["partition"], one["task"] is None) for one in found["partitions"]] == [
        (0, False),
        (1, False),
    ]
    assert {one[key] for one in found["partitions"] for key in MEASURED} == {None}
    assert {one["is_offending"] for one in found["partitions"]} == {False}, "stored in ZooKeeper"
    assert (found["provider"], found["bytes_per_second"], counts(found)) == (None, None, (None, None, None))
    everything = site.client.get("/v1/loads").json()
    assert (everything["leader"], everything["no_answer"]) == ("one", found["no_answer"])
    (cluster,) = everything["clusters"]
    assert cluster.pop("cluster") == "source"
    assert set(cluster.values()) == {None}


def test_where_nobody_leads_that_is_said() -> None:
    site = Site()
    site.create()
    site.leader.leader.joined(None)
    found = loads_of(site.client)
    assert (found["leader"], bool(found["no_answer"])) == (None, True)
    assert {one["bytes_per_second"] for one in found["partitions"]} == {None}


def test_without_zookeeper_the_one_that_leads_still_answers(client: Client, site: Site) -> None:
    site.create()
    measure(site, {T0: 3.0, T1: 7.0}, frozenset())
    before = loads_of(client)
    everything = client.get("/v1/loads").json()
    site.session.disconnect()
    answer = client.get("/v1/datastreams/orders/loads")
    assert "As-Of-Ms" in answer.headers
    assert answer.json() == before
    assert client.get("/v1/loads").json() == everything


def test_only_instances_of_the_service_are_told(pair: tuple[Site, Site]) -> None:
    _, two = pair
    for path in ("loads?datastream=orders&limit=1", "cluster-loads"):
        assert two.client.get(f"/v1/fleet/{path}").status_code == 401


def test_what_a_newer_version_says_more_is_left_out(pair: tuple[Site, Site]) -> None:
    one, _ = pair
    said = loads_of(one.client)
    newer = said | {"more": 1, "partitions": [row | {"more": 1} for row in said["partitions"]]}
    read = loads_read(newer)
    assert read is not None
    assert read.model_dump(mode="json") == said
    cluster = the_cluster(one.client)
    found = cluster_loads_read([cluster | {"more": 1}])
    assert found is not None
    assert [row.model_dump(mode="json") for row in found] == [cluster]
    assert (loads_read(None), cluster_loads_read(None)) == (None, None)


@pytest.mark.parametrize("value", [7, [], {}, {"partitions": 7}, {"partitions": [7]}, {"partitions": [{}]}])
def test_what_is_not_understood_is_no_answer(value: Any) -> None:
    with pytest.raises((InvalidRequest, ValueError)):
        loads_read(value)
    with pytest.raises((InvalidRequest, ValueError)):
        cluster_loads_read([value])


def leaders_loads(standing: LoadStatus | None, load: PartitionLoad) -> LeadersLoads:
    return LeadersLoads(ClusterLoads("pinot", {T0: load}, frozenset()), standing, NOW)


@pytest.mark.parametrize(
    ("state", "source", "shown"),
    [
        (None, RateSource.SLOPE, "slope"),
        (LoadState.KNOWN, RateSource.PARTIAL, "partial"),
        (LoadState.KNOWN, RateSource.HELD, "held"),
        (LoadState.STALE, RateSource.SLOPE, "held"),
        (LoadState.UNAVAILABLE, RateSource.MEAN, "held"),
    ],
)
def test_a_load_says_what_it_rests_on(state: LoadState | None, source: RateSource, shown: str) -> None:
    standing = LoadStatus(state, NOW, "because", NOW - 5) if state else None
    loads = leaders_loads(standing, PartitionLoad(1.0, rate_source=source, measured_at_ms=NOW - 5))
    row = PartitionLoadAnswer.from_load(T0, a_task("orders-0", ["t-0"]), loads, None)
    assert (row.rate_source, row.messages_per_second, row.age_ms, row.is_offending) == (shown, None, 5, None)
    cluster = ClusterLoadsAnswer.from_loads(LoadSource(ClusterRef("source")), loads, {T0, T1})
    assert (cluster.known, cluster.held, cluster.unknown) == (1, int(shown == "held"), 1)
    assert (cluster.state, cluster.measured_at_ms) == ((state.value, NOW - 5) if state else (None, None))


def test_what_was_measured_more_than_a_day_ago_is_not_known() -> None:
    row = PartitionLoadAnswer.from_load(
        T0, None, leaders_loads(None, PartitionLoad(1.0, measured_at_ms=NOW - DAY_MS - 1)), None
    )
    assert {getattr(row, key) for key in MEASURED} == {None}
    assert (row.task, row.instance) == (None, None)


def test_of_more_offending_partitions_than_are_named_the_others_are_not_known(site: Site) -> None:
    site.create()
    (assessment,) = site.leader.stores.assessments.all().values()
    many = Assessment(**{**vars(assessment), "offending": 2, "offending_partitions": ("t-0",)})
    rows = [PartitionLoadAnswer.from_load(place, None, None, many) for place in (T0, T1)]
    assert [row.is_offending for row in rows] == [True, None]
