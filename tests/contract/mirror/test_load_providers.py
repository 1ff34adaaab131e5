"""Contract tests of the included load providers, which plug-ins use too."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plug_ins.load_provider_contract import LoadProviderContract
from mirror.coordination.stores.measured_load import InstanceMeasurements, LateRecords, MeasuredLoads
from mirror.instance.loads.catch_up import LoadsWithBacklog
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider
from tests.builders import SOURCE
from tests.fakes.node_store import FakeZooKeeper

T0, T1 = (TopicPartition("t", number) for number in range(2))


def measured() -> MeasuredLoads:
    loads = MeasuredLoads(FakeZooKeeper().session())
    late = {SOURCE: {T0: LateRecords(60_000.0, 60.0)}}
    loads.publish(
        InstanceName("one"), InstanceMeasurements({SOURCE: {T0: (5.0, 1.0), T1: (0.0, 0.0)}}, {}, late), 1_000
    )
    return loads


class TestSelf(LoadProviderContract):
    def provider(self) -> LoadProvider:
        return measured()

    def known(self) -> tuple[ClusterRef, Sequence[TopicPartition]]:
        return SOURCE, [T0, T1]


class TestWithBacklog(TestSelf):
    def provider(self) -> LoadProvider:
        loads = measured()
        return LoadsWithBacklog(loads, loads.waiting, 600.0)
