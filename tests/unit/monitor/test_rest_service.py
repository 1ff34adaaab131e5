"""Test the monitor's client of the service against the real application."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from api.resources.lanes import LanesNow
from api.resources.movement import FleetMovements
from headrace.console.client import RestClient
from mirror.control.audit import AUDIT
from mirror.control.commands import TriggerRebalance
from mirror.coordination.monitors.effect import PlacementEffect
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.coordination.stores.problems import Problem
from mirror.errors import DamagedState, HeadraceError, Unreachable
from mirror.instance.workers.lane_table import LanePhase
from mirror.instance.workers.lane_track import LaneTrack
from mirror.loggers import set_threshold
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.lanes import LaneKey, QuotaHold, QuotaOwner, Unanswered
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName, GroupName, InstanceName
from mirror.model.metrics import SHOWN_OF_LANES
from mirror.model.movement.history import UNLIMITED, Retention
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.worker.protocol import CoreUse, LaneRate
from monitor.adapters.control_service import ControlService, Instances
from monitor.adapters.lane_answers import evidence_of
from monitor.adapters.leases import HeldLease
from monitor.adapters.rest_service import RestService
from monitor.causes.evidence import Phases
from monitor.latency import ObjectiveSubject, Source
from monitor.leader_monitor import PART
from monitor.movement.states import MovementState
from monitor.movement.summary import NOTHING_KNOWN, DatastreamStates, Movement
from monitor.ports import Service
from tests.builders import SOURCE, a_key
from tests.fakes.in_process import InProcess
from tests.fakes.partition_lives import PartitionLife
from tests.fakes.site import Site, settle, two_sites

ORDERS = DatastreamName("orders")


def service_over(transport: httpx.BaseTransport) -> RestService:
    client = RestClient("test")
    client.close()
    client._client = httpx.Client(transport=transport, base_url="http://test")
    return RestService(client)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture(params=["over REST", "from within"])
def service(site: Site, request: pytest.FixtureRequest) -> Service:
    if request.param == "over REST":
        return service_over(InProcess(site.app))
    services = site.services
    return ControlService(
        services.control,
        services.problems.all,
        services.previews.preview,
        HeldLease(services.acting, services.control, services.status.name),
        Instances(FleetMovements(services), LanesNow(services).of),
        services.incidents,
    )


def test_subjects_are_what_is_mirrored_and_has_one(site: Site, service: Service) -> None:
    assert service.subjects() == {}
    for name, objective in (("orders", {"milliseconds": 500, "percentile": 99.5}), ("plain", None)):
        site.create(name, objective=objective, destination={"cluster": "destination", "name": f"{name}.*"})
    body = {"cluster": "destination", "name": "paused.*"}
    site.create("paused", objective={"milliseconds": 5}, destination=body)
    site.client.post("/v1/datastreams/paused/pause", json={})
    (subject,) = service.subjects().values()
    orders = ObjectiveSubject(LatencyObjective(500, 99.5), Source("orders", "source"), TopicSelection("t"))
    assert subject == replace(orders, is_alone=True)


def test_several_objectives_are_taken_over(site: Site, service: Service) -> None:
    site.create(objectives=[{"milliseconds": 500, "target_percent": 99.5, "window_seconds": 300}])
    subject = service.subjects()[ORDERS]
    assert (subject.objective, subject.objectives) == (None, (Objective(500, 99.5, window_seconds=300),))


def test_what_is_set_aside_or_paused_is_said_of_it_and_a_task_prefix_is_its_group(
    site: Site, service: Service
) -> None:
    site.create(objective={"milliseconds": 500}, metadata={"owner": "me", "system.taskPrefix": "shared"})
    site.client.post("/v1/datastreams/orders/pause-partitions", json={"partitions": {"t": "1"}})
    site.leader.stores.problems.put(ORDERS, Problem("a remark", 1, sets_aside=False))
    subject = service.subjects()[ORDERS]
    assert (subject.source.group, subject.halted, subject.paused) == ("shared", "", "t")
    assert subject.remark == "a remark"
    site.leader.stores.problems.put(ORDERS, Problem("source away", 1))
    assert service.subjects()[ORDERS].halted == "source away"


def test_a_datastream_is_alone_in_its_group_unless_another_one_is_of_it_or_cannot_be_read(
    site: Site, service: Service
) -> None:
    site.create(objective={"milliseconds": 500})
    assert service.subjects()[ORDERS].is_alone
    shared = {"owner": "tests", "system.taskPrefix": "orders"}
    others = {"cluster": "source", "topics": "u"}
    site.create("other", objective={"milliseconds": 500}, metadata=shared, source=others)
    assert [one.is_alone for one in service.subjects().values()] == [False, False]
    site.client.delete("/v1/datastreams/other")
    site.tick()
    assert service.subjects()[ORDERS].is_alone
    site.session.create("/datastreams/torn", b"{")
    site.tick()
    assert not service.subjects()[ORDERS].is_alone, "an unreadable definition may be of any group"


def test_what_the_monitor_asks_for_is_an_audit_line_of_its_own(site: Site) -> None:
    site.create()
    lease = HeldLease(site.services.acting, site.services.control, site.services.status.name)
    lease.hold()
    set_threshold("info")
    with capture_logs() as logged:
        lease.rebalance(TriggerRebalance(ORDERS, full=False, requested_by="monitor", reason="a breach"))
    (line,) = [one for one in logged if one["event"] == AUDIT]
    assert (line["principal"], line["role"], line["action"]) == ("monitor", "service", "rebalance")
    assert (line["requested_by"], line["reason"]) == ("monitor", "a breach")


class Newer:
    """A service of a newer version, whose responses have more fields."""

    def __init__(self, datastreams: list[dict[str, Any]]) -> None:
        self.datastreams = datastreams

    def get(self, path: str, **_: Any) -> Any:
        if path == "/v1/datastreams":
            return self.datastreams
        return [{"in_another_form": True}]

    def post(self, path: str, body: object) -> Any:
        effect = {"partitions": 2, "moved": 5.0, "new": 1}
        return {"sentence": "2 move", "moves": [1, 2], "loads_known": True, "effect": effect}

    def put(self, path: str, document: object, version: str) -> Any:
        raise NotImplementedError

    def delete(self, path: str, version: str = "*", **parameters: Any) -> Any:
        raise NotImplementedError


def test_what_only_a_newer_version_reports_is_ignored(site: Site) -> None:
    site.create(objective={"milliseconds": 700}, objectives=[{"milliseconds": 500, "target_percent": 99.5}])
    datastreams = site.client.get("/v1/datastreams").json()
    expected = service_over(InProcess(site.app)).subjects()
    for one in datastreams:
        one["monitor"] = "later"
        for objective in (one["objective"], *one["objectives"]):
            objective["new"] = 1
    newer = RestService(Newer(datastreams))
    assert newer.subjects() == expected
    preview = newer.preview_rebalance(ORDERS)
    assert preview.effect == PlacementEffect(2, 5.0)
    assert preview.past == (), "past breaches must not prevent a rebalance"


def test_a_lease_that_was_anothers_meanwhile_is_not_gone_on_with(site: Site, service: Service) -> None:
    """The messages and records of the other monitor are unknown here, even after it has ended."""
    assert [service.hold().other for _ in range(2)] == ["", ""]
    ours = site.client.get("/v1/monitor").json()["holder"]
    site.client.delete("/v1/monitor/lease", params={"holder": ours})
    site.client.put("/v1/monitor/lease", json={"holder": "another"})
    site.client.delete("/v1/monitor/lease", params={"holder": "another"})
    assert "another" in service.hold().other
    service.release()
    assert service.hold().other == ""


def test_a_rebalance_is_previewed_and_asked_for(site: Site, service: Service) -> None:
    site.create()
    blind = service.preview_rebalance(ORDERS)
    assert (blind.moves, blind.loads_known) == (0, False)
    rates = {TopicPartition("t", number): (80.0, 1.0) for number in range(2)}
    MeasuredLoads(site.session).publish(InstanceName("other"), InstanceMeasurements({SOURCE: rates}), 10**15)
    assert service.preview_rebalance(ORDERS).loads_known
    assert service.hold().other == ""
    identity = service.rebalance(ORDERS, "a breach")
    (request,) = site.leader.stores.requests.pending()
    assert (request.identity, request.requested_by, request.reason) == (identity, "monitor", "a breach")


def test_partitions_that_are_not_ok_are_counted_by_datastream(site: Site, service: Service) -> None:
    site.create(objective={"milliseconds": 500})
    site.create("plain", destination={"cluster": "destination", "name": "plain.*"})
    body = {"partitions": {"t": "1"}, "reason": "ticket 7"}
    site.client.post("/v1/datastreams/orders/pause-partitions", json=body)
    site.tick()
    key, states = a_key("t-0"), site.follower.workers._states
    late = PartitionLife().run(60, 100).run(300, 100, 0).keeping(Retention(400_000, UNLIMITED))
    states[key] = replace(states[key], track=LaneTrack(late.history_at(site.clock.monotonic())))
    site.follower.run_loop()
    found = service.movements()
    assert found.is_complete
    assert set(found.datastreams) == {"orders", "plain"}, "including those without an objective"
    assert found.datastreams[DatastreamName("plain")] == DatastreamStates("source", Movement(), "destination")
    orders = found.datastreams[ORDERS]
    stalled, paused = sorted(orders.movement.states, key=lambda one: one.worst)
    assert (stalled.state, stalled.partitions, stalled.worst) == (MovementState.STALL, 1, "t-0")
    assert stalled.since_ms is not None
    assert stalled.since_ms < site.clock.now_ms()
    assert (paused.state, paused.worst, paused.reason) == (MovementState.PAUSED_BY_USER, "t-1", "ticket 7")
    loss = orders.movement.loss
    assert loss is not None
    assert (loss.partitions, loss.worst, loss.eta_seconds) == (1, "t-0", None)


def test_an_instance_of_an_older_version_says_nothing_of_partitions(site: Site) -> None:
    class Older(InProcess):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path == "/v1/movement":
                request.url = request.url.copy_with(path="/v1/nothing")
            return super().handle_request(request)

    assert service_over(Older(site.app)).movements() is NOTHING_KNOWN


def test_while_an_instance_is_not_heard_what_is_known_of_partitions_is_not_all() -> None:
    one, two = two_sites()
    one.create(limits={"min_tasks": 2})
    settle(one, two)
    within = FleetMovements(one.services)
    over = service_over(InProcess(one.app)).movements
    assert within().is_complete
    assert over() == within()
    one.neighbours.failures = {"two.test": _away}
    assert not within().is_complete
    assert over() == within()


async def _away() -> None:
    raise httpx.ConnectError("connection refused")


def test_an_instance_with_a_monitor_of_its_own_says_so_also_where_something_is_not_well(site: Site) -> None:
    service = service_over(InProcess(site.app))
    site.tick()
    assert not service.has_own_monitor()
    site.health.report("destination", False, "it does not answer")
    assert not service.has_own_monitor()
    site.health.report(PART, True, "it judges")
    assert service.has_own_monitor()


def test_only_a_monitor_of_the_leader_judges(site: Site) -> None:
    service, other = service_over(InProcess(site.app)), Site(site.server, "two")
    for one in (site, other):
        one.tick()
    assert [one["name"] for one in site.client.get("/v1/instances").json()] == ["one", "two"]
    other.health.report(PART, True, "active only while this instance is leader")
    assert not service.has_own_monitor()
    site.health.report(PART, True, "it judges")
    assert service.has_own_monitor()


def test_what_the_service_refuses_is_an_error_with_its_words(service: Service) -> None:
    with pytest.raises(HeadraceError, match="datastream orders"):
        service.preview_rebalance(ORDERS)


def test_a_service_without_zookeeper_may_be_asked_again(site: Site, service: Service) -> None:
    site.session.disconnect()
    with pytest.raises(Unreachable):
        service.subjects()


def test_nobody_there_may_be_asked_again() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        RestService(RestClient("127.0.0.1:1", timeout_seconds=5)).subjects()


def test_evidence_is_what_the_lanes_of_the_datastream_say(site: Site, service: Service) -> None:
    site.create(objective={"milliseconds": 500})
    site.create("others", destination={"cluster": "destination", "name": "others.*"})
    key = LaneKey(GroupName("orders"), TopicPartition("t", 0))
    measured = {"batches": 20.0, "fetch_ms": 40.0, "produce_ms": 18_000.0, "cpu_ms": 250.0}
    shown = tuple(measured.get(name, 0.0) for name in SHOWN_OF_LANES)
    rate = LaneRate(key, SOURCE, 9e6, 1.0, 5, 700, shown, core=CoreUse(0.75, 0.125), offset_ms=-60_040)
    states = site.follower.workers._states
    track = LaneTrack(rate=rate)
    track.unanswered = Unanswered(None, 14.04)
    copying = replace(states[key], phase=LanePhase.COPYING, track=track, slowed="a quota of brokers")
    states[key] = replace(copying, hold=QuotaHold(QuotaOwner.DESTINATION, 0.45, 3))
    site.follower.run_loop()
    found = service.evidence(service.subjects()[ORDERS])
    first, second = sorted(found.lanes, key=lambda one: one.partition)
    assert (first.partition, second.partition, found.silent) == ("t-0", "t-1", ())
    assert (first.instance, first.worker, first.is_starting) == ("one", copying.worker, False)
    assert first.task == copying.spec.task
    assert first.phases == Phases(0, 2, 0, 900)
    assert (first.bytes_per_second, first.batches_per_second) == (9e6, 20)
    assert (first.cpu, first.worker_cpu, first.worker_waited) == (0.25, 0.75, 0.125)
    assert (first.lag_records, first.lag_ms) == (5, 700)
    assert (first.fetch_unanswered, first.produce_unanswered) == (None, 14.0)
    assert (first.timestamp_offset, second.timestamp_offset) == (-60.0, None)
    assert first.hold == QuotaHold(QuotaOwner.DESTINATION, 0.45, 3)
    assert (second.phases, second.hold, second.cpu, second.worker_cpu) == (None, None, None, None)


def test_what_an_instance_of_another_version_says_of_lanes_is_taken_as_far_as_it_is_understood() -> None:
    lane = {
        "instance": "one",
        "datastream": "orders",
        "partition": "t-0",
        "task": "orders-0",
        "worker": 0,
        "phase": "copying",
        "reason": "a quota",
        "lag_records": 5,
        "lag_ms": 70,
        "bytes_per_second": 9.0,
        "per_second": {"batches": 2.0},
    }
    newer = {
        **lane,
        "partition": "t-1",
        "movement": {"state": "DANCING", "reason": "", "eta_seconds": None},
        "held_back": {"owner": "the moon", "share": 0.5, "broker": None},
    }
    other = {**lane, "partition": "u-0"}
    instances = [{"name": "one", "state": "answered"}, {"name": "two", "state": "timed out"}]
    answer = {"lanes": [lane, newer, other], "instances": instances}
    found = evidence_of(answer, Source("orders", "source"), TopicSelection("t"))
    assert [one.partition for one in found.lanes] == ["t-0", "t-1"]
    assert found.silent == ("two",)
    assert all((one.phases, one.hold, one.state) == (None, None, None) for one in found.lanes)
    assert all(one.timestamp_offset is None for one in found.lanes)
    with pytest.raises(DamagedState):
        evidence_of({"lanes": [{}], "instances": []}, Source("orders", "source"), TopicSelection("t"))
