"""A service of which the advice and its forecast are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assigner.advice.settings import AdviceSettings
from assigner.planner import LoadPlanner
from assigner.problem.loads import UNKNOWN_LOAD
from assigner.problem.policy import Policy
from assigner.what_if.document import Fallback
from headrace.foresight.sizing_advisor import History, Means
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.loads.expectation import ExpectedLoads
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import InstanceName
from mirror.model.load import TaskCapacity
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE
from tests.fakes.site import Site

T0: Final = TopicPartition("t", 0)
T1: Final = TopicPartition("t", 1)
CAPACITY: Final = TaskCapacity(100, None, 100)


def planned_site() -> Site:
    """Return a leader that has planned two partitions of 10 bytes/s each."""
    site = Site(planner=LoadPlanner())
    site.create()
    rates = {T0: (10.0, 1.0), T1: (10.0, 1.0)}
    MeasuredLoads(site.session).publish(
        InstanceName("m"), InstanceMeasurements({SOURCE: rates}), site.clock.now_ms()
    )
    site.client.post("/v1/rebalance", json={"datastream": "orders"})
    site.tick()
    return site


def means_with(site: Site, settings: AdviceSettings, history: History | None) -> Means:
    """Return the means to compute the advice of a site."""
    return Means(site.services, AdviceStore(site.session), ExpectedLoads(), settings, _fallback, history)


def _fallback(_: Sequence[Datastream]) -> Fallback:
    return Fallback(CAPACITY, UNKNOWN_LOAD, Policy())
