"""Test that observations of loads outlive the leader that made them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence

import pytest

from assigner.planner import LoadPlanner
from mirror.coordination.stores import node_codec
from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.coordination.stores.plan_store import PlanStore
from mirror.errors import InvalidRequest
from mirror.instance.loads.assessments import AssessmentStore
from mirror.instance.loads.store import DatedObservation, ObservationStore
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.metrics import ChangeKind
from mirror.model.topics import TopicPartition
from tests.builders import DESTINATION, SOURCE, SOURCE_LOADS, a_datastream, an_instance
from tests.fakes.clock import ManualClock
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeZooKeeper, Fault, Operation
from tests.fakes.topic_admin import FakeTopicAdmin

NOW = 10**12
LOADS = {
    TopicPartition("t", 0): PartitionLoad(7.25, 2.5),
    TopicPartition("t", 3): PartitionLoad(0.0, None, LoadLevel.TOPIC),
    TopicPartition("u", 1): PartitionLoad(1e9, 0.0),
}
FOLDER = "/observations/source"


def measured(at_ms: int) -> dict[TopicPartition, PartitionLoad]:
    return {
        key: PartitionLoad(one.bytes_per_second, one.messages_per_second, one.level, RateSource.HELD, at_ms)
        for key, one in LOADS.items()
    }


def test_what_is_written_is_read_and_what_is_not_named_is_removed() -> None:
    server = FakeZooKeeper()
    store = ObservationStore(server.session())
    first, second = store.write(
        SOURCE_LOADS, [], [DatedObservation(NOW, NOW - 5, LOADS), DatedObservation(NOW + 1, None, LOADS)]
    )
    found = ObservationStore(server.session()).read(NOW)[SOURCE_LOADS]
    assert found.problems == ()
    assert found.observations == {
        first: DatedObservation(NOW, NOW - 5, measured(NOW - 5)),
        second: DatedObservation(NOW + 1, None, measured(NOW + 1)),
    }
    (third,) = store.write(SOURCE_LOADS, [second], [DatedObservation(NOW + 2, None, LOADS)])
    assert list(store.read(NOW)[SOURCE_LOADS].observations) == [second, third]
    assert set(server.session().children(FOLDER)) == {second, third}


def test_what_is_older_than_a_day_does_not_count() -> None:
    store = ObservationStore(FakeZooKeeper().session())
    store.write(SOURCE_LOADS, [], [DatedObservation(NOW, None, LOADS)])
    assert len(store.read(NOW + 86_400_000)[SOURCE_LOADS].observations) == 1
    assert store.read(NOW + 86_400_001)[SOURCE_LOADS].observations == {}


def test_one_that_takes_many_znodes_is_read_whole_and_a_larger_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_codec, "encode_chunks", in_chunks_of(20))
    session = FakeZooKeeper().session()
    store = ObservationStore(session)
    small = {TopicPartition("t", 0): PartitionLoad(1.0)}
    (name,) = store.write(SOURCE_LOADS, [], [DatedObservation(NOW, None, small)])
    assert int(name.rpartition("x")[2]) > 2
    assert store.read(NOW)[SOURCE_LOADS].observations[name].loads.keys() == small.keys()
    many = {TopicPartition("t", number): PartitionLoad(number * 1.7) for number in range(100)}
    with pytest.raises(InvalidRequest, match="100 partitions"):
        store.write(SOURCE_LOADS, [name], [DatedObservation(NOW, None, many)])
    assert list(store.read(NOW)[SOURCE_LOADS].observations) == [name]


def in_chunks_of(size: int) -> Callable[[object], list[bytes]]:
    def encode(value: object) -> list[bytes]:
        packed = zlib.compress(json.dumps(value).encode())
        return [packed[start : start + size] for start in range(0, len(packed), size)]

    return encode


def packed(value: object) -> bytes:
    return zlib.compress(json.dumps(value).encode())


GOOD = {"format": 1, "at_ms": NOW, "measured_at_ms": None, "topics": {"t": ["0", [1], [1], [0]]}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        packed([]),
        packed({**GOOD, "format": 2}),
        packed({**GOOD, "at_ms": -1}),
        packed({**GOOD, "measured_at_ms": "x"}),
        packed({**GOOD, "topics": {"t": ["0-2000000", [1], [1], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0-1", [1], [1], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0", [-1], [1], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0", ["1"], [1], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0", [1e400], [1], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0", [1e13], [1], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0", [1], [1e13], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0", [1], [None], [0]]}}),
        packed({**GOOD, "topics": {"t": ["0", [1], [1], [2]]}}),
        packed({**GOOD, "topics": {"t": 7}}),
        packed({**GOOD, "topics": 7}),
    ],
)
def test_a_damaged_observation_is_left_out_and_named(data: bytes) -> None:
    session = FakeZooKeeper().session()
    store = ObservationStore(session)
    bad, good = store.write(
        SOURCE_LOADS, [], [DatedObservation(NOW, None, LOADS), DatedObservation(NOW + 1, None, LOADS)]
    )
    session.write(f"{FOLDER}/{bad}", data, session.read(f"{FOLDER}/{bad}").version)
    found = store.read(NOW)[SOURCE_LOADS]
    assert list(found.observations) == [good]
    (problem,) = found.problems
    assert bad in problem


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"format": 9, "names": []}', b'{"format": 1, "names": [1]}', b'{"format": 1}']
)
def test_a_damaged_index_is_named(data: bytes) -> None:
    session = FakeZooKeeper().session()
    session.create(FOLDER, data)
    found = ObservationStore(session).read(NOW)[SOURCE_LOADS]
    assert found.observations == {}
    assert len(found.problems) == 1


class Rates:
    """A load provider that reports one rate for all partitions."""

    def __init__(self) -> None:
        self.rate = 350.0

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        return LoadReport({key: PartitionLoad(self.rate) for key in partitions}, "test")


class Service:
    """Successive leaders with the same state; tasks have a capacity of 1,000 bytes per second."""

    def __init__(self) -> None:
        self.server, self.clock, self.rates = FakeZooKeeper(), ManualClock(), Rates()
        self.clusters = {SOURCE: FakeTopicAdmin(t=12), DESTINATION: FakeTopicAdmin()}
        self.me: LiveInstance | None = None
        self.lead("one")
        self.rig.stores.definitions.create(a_datastream("orders", "t"))

    def lead(self, name: str) -> None:
        """Replace the leader by a new instance."""
        if self.me is not None:
            Membership(self.server.session()).leave(self.me)
        self.session = self.server.session()
        self.rig = LeaderRig(
            self.session, self.clusters, self.clock, LoadPlanner(), self.rates, task_bytes_per_second=1112
        )
        self.me = Membership(self.server.session()).join(an_instance(name))
        self.rig.leader.joined(self.me)
        self.rig.leader.tick()

    def pass_intervals(self, intervals: int) -> None:
        for _ in range(intervals):
            self.clock.advance(600)
            self.rig.leader.tick()

    def tasks(self) -> int:
        return len(PlanStore(self.server.session(), "r").read().plan.tasks)


def test_the_next_leader_gives_up_no_task_that_the_day_needs() -> None:
    service = Service()
    service.rig.leader.tick()
    service.pass_intervals(4)
    assert service.tasks() == 6
    service.rates.rate = 10.0
    service.pass_intervals(1)
    service.lead("two")
    service.pass_intervals(4)
    assert service.tasks() == 6
    (said,) = AssessmentStore(service.session).all().values()
    assert (said.tasks, said.required_tasks) == (6, 1)
    assert "kept" in said.reasons[0]


def test_a_damaged_memory_is_a_problem_and_the_leader_begins_afresh() -> None:
    service = Service()
    service.pass_intervals(3)
    service.session.write(FOLDER, b"{", service.session.read(FOLDER).version)
    service.lead("two")
    condition = service.rig.health.conditions()["observations of source"]
    assert not condition.is_well
    assert [one.kind for one in service.rig.told].count(ChangeKind.LOADS) == 1
    service.pass_intervals(1)
    service.rig.leader.tick()
    assert "observations of source" not in service.rig.health.conditions()
    assert len(ObservationStore(service.session).read(service.clock.now_ms())[SOURCE_LOADS].observations) == 1


def test_what_cannot_be_kept_holds_up_nothing() -> None:
    service = Service()
    refused = []

    def script(operation: Operation) -> Fault | None:
        if operation.path.startswith("/observations"):
            refused.append(operation.path)
            return Fault(after_effect=False)
        return None

    service.session.script = script
    service.pass_intervals(3)
    assert refused
    assert service.tasks() > 1
