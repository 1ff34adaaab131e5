"""The monitor's door to the service, against the real application."""

from __future__ import annotations

import httpx
import pytest

from headrace.console.client import RestClient
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.problems import Problem
from mirror.errors import HeadraceError, Unreachable
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives.objective import Objective
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.model.topics import TopicPartition, TopicSelection
from monitor.adapters.control_service import ControlService
from monitor.adapters.rest_service import RestService
from monitor.latency import Source, Subject
from monitor.leader_monitor import PART
from monitor.ports import Service
from tests.builders import SOURCE
from tests.fakes.in_process import InProcess
from tests.fakes.site import Site

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
        services.control, services.problems.all, services.preview, services.acting, services.status.name
    )


def test_subjects_are_what_is_mirrored_and_has_one(site: Site, service: Service) -> None:
    assert service.subjects() == {}
    for name, objective in (("orders", {"milliseconds": 500, "percentile": 99.5}), ("plain", None)):
        site.create(name, objective=objective, destination={"cluster": "destination", "name": f"{name}.*"})
    body = {"cluster": "destination", "name": "paused.*"}
    site.create("paused", objective={"milliseconds": 5}, destination=body)
    site.client.post("/v1/datastreams/paused/pause")
    (subject,) = service.subjects().values()
    assert subject == Subject(LatencyObjective(500, 99.5), Source("orders", "source"), TopicSelection("t"))


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
    site.leader.stores.problems.put(ORDERS, Problem("the source does not answer", 1))
    assert service.subjects()[ORDERS].halted == "the source does not answer"


def test_a_rebalance_is_previewed_and_asked_for(site: Site, service: Service) -> None:
    site.create()
    blind = service.preview_rebalance(ORDERS)
    assert (blind.moves, blind.loads_known) == (0, False)
    rates = {TopicPartition("t", number): (80.0, 1.0) for number in range(2)}
    MeasuredLoads(site.session).publish(InstanceName("other"), {SOURCE: rates}, 10**15)
    assert service.preview_rebalance(ORDERS).loads_known
    assert service.hold().other == ""
    identity = service.rebalance(ORDERS, "a breach")
    (request,) = site.leader.stores.requests.pending()
    assert (request.identity, request.requested_by, request.reason) == (identity, "monitor", "a breach")


def test_an_instance_with_a_monitor_of_its_own_says_so_also_where_something_is_not_well(site: Site) -> None:
    service = service_over(InProcess(site.app))
    site.tick()
    assert not service.has_own_monitor()
    site.health.report("destination", False, "it does not answer")
    assert not service.has_own_monitor()
    site.health.report(PART, True, "it judges")
    assert service.has_own_monitor()


def test_what_the_service_refuses_is_an_error_with_its_words(service: Service) -> None:
    with pytest.raises(HeadraceError, match="there is no datastream orders"):
        service.preview_rebalance(ORDERS)


def test_a_service_without_zookeeper_may_be_asked_again(site: Site, service: Service) -> None:
    site.session.disconnect()
    with pytest.raises(Unreachable):
        service.subjects()


def test_nobody_there_may_be_asked_again() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        RestService(RestClient("127.0.0.1:1", timeout_seconds=5)).subjects()
