"""Contract tests of `ports.CopyEngine` for every path and guarantee."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol
from uuid import uuid4

import pytest

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import (
    LaneEvent,
    LaneKey,
    LanePaused,
    LaneResumed,
    LaneStarted,
    LaneStopped,
)
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Guarantee
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.ports import CopyEngine
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions
from tests.engines import look, specs, write
from tests.fakes.broker.cluster import FakeCluster, running
from tests.kafka_data import Record, make_topic
from tests.patience import PATIENCE_SECONDS

NOW = int(time.time() * 1000)
PROGRESS = "contract-progress"
NewEngine = Callable[[], CopyEngine]


class Addressed(Protocol):
    """A cluster reachable by clients."""

    @property
    def address(self) -> str:
        """Bootstrap servers."""
        ...


class Pair(NamedTuple):
    """The clusters of an engine."""

    source: Addressed
    destination: Addressed


@pytest.fixture(scope="session")
def fake_pair() -> Iterator[Pair]:
    """Start one fake broker each, served by threads; the engine and librdkafka treat them as real."""
    with running(FakeCluster("source")) as source, running(FakeCluster("destination")) as destination:
        yield Pair(source, destination)


@pytest.fixture(params=["fake", pytest.param("real", marks=[pytest.mark.servers, pytest.mark.long])])
def pair(request: pytest.FixtureRequest) -> Pair:
    """Return a pair of fake or real clusters."""
    if request.param == "fake":
        fakes: Pair = request.getfixturevalue("fake_pair")
        return fakes
    return Pair(*request.getfixturevalue("kafka_pair"))


POLICIES = {
    "unopened": CopyPolicy(),
    "by-record": CopyPolicy(path=CopyPath.RECORD),
    "at-least-once": CopyPolicy(guarantee=Guarantee.AT_LEAST_ONCE),
    "in-transactions": CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE),
}


@pytest.fixture(params=list(POLICIES.values()), ids=list(POLICIES))
def policy(request: pytest.FixtureRequest) -> CopyPolicy:
    found: CopyPolicy = request.param
    return found


@pytest.fixture
def new_engine(pair: Pair) -> Iterator[NewEngine]:
    made: list[CopyEngine] = []
    access = {
        "source": ClusterAccess(endpoints(pair.source.address)),
        "destination": ClusterAccess(endpoints(pair.destination.address)),
    }
    identity = EngineIdentity("contract", progress_topic=PROGRESS, checkpoint_interval_seconds=0.3)
    options = CopyingOptions(probe_first_seconds=0.5, transaction_interval_seconds=0.3)

    def make() -> CopyEngine:
        made.append(BatchEngine(EngineContext(access.__getitem__, options, identity, SystemClock())))
        return made[-1]

    yield make
    for engine in made:
        engine.close(10)


@pytest.fixture
def topic() -> str:
    return f"contract-{uuid4().hex[:8]}"


def key(topic: str, partition: int = 0) -> LaneKey:
    return LaneKey(GroupName(f"g-{topic}"), TopicPartition(topic, partition))


def records(first: int, count: int, partitions: int = 1) -> list[Record]:
    return [Record(n % partitions, None, b"%d" % n, (), NOW) for n in range(first, first + count)]


def run(engine: CopyEngine, condition: Callable[[list[LaneEvent]], object]) -> list[LaneEvent]:
    """Run steps until the condition on all events holds."""
    events: list[LaneEvent] = []
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition(events):
        assert time.monotonic() < until, events
        events.extend(engine.step(0.05))
    return events


def arrived(pair: Pair, topic: str, count: int) -> Callable[[object], bool]:
    return lambda _events: len(look(pair.destination.address, topic)) >= count


def of(events: Sequence[LaneEvent], kind: type[LaneEvent]) -> list[LaneEvent]:
    return [event for event in events if isinstance(event, kind)]


def make_pair(pair: Pair, topic: str, partitions: int = 1) -> None:
    make_topic(pair.source.address, topic, partitions)
    make_topic(pair.destination.address, topic, partitions)


def test_a_lane_copies_from_the_beginning_and_says_where_it_starts(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic)
    write(pair.source.address, topic, records(0, 50))
    engine = new_engine()
    engine.start_lanes(specs(topic, policy=policy))
    events = run(engine, arrived(pair, topic, 50))
    assert of(events, LaneStarted) == [LaneStarted(key(topic), 0)]
    assert [record.value for record in look(pair.destination.address, topic)] == [
        record.value for record in records(0, 50)
    ]


def test_a_lane_without_a_checkpoint_can_start_at_the_end(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic)
    write(pair.source.address, topic, records(0, 50))
    engine = new_engine()
    engine.start_lanes(specs(topic, start=StartPosition.LATEST, policy=policy))
    run(engine, lambda events: LaneStarted(key(topic), 50) in events)
    write(pair.source.address, topic, records(50, 10))
    run(engine, arrived(pair, topic, 10))
    assert look(pair.destination.address, topic)[0].value == b"50"


def test_a_lane_can_start_at_an_offset_inside_a_batch(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic)
    write(pair.source.address, topic, records(0, 50), per_batch=25)
    engine = new_engine()
    engine.start_lanes(specs(topic, start_offset=12, policy=policy))
    events = run(engine, arrived(pair, topic, 38))
    assert of(events, LaneStarted) == [LaneStarted(key(topic), 12)]
    assert [int(one.value or b"") for one in look(pair.destination.address, topic)] == list(range(12, 50))


def test_what_stops_is_drained_and_checkpointed_and_goes_on_elsewhere(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic, 2)
    write(pair.source.address, topic, records(0, 100, 2))
    engine = new_engine()
    engine.start_lanes(specs(topic, 2, policy=policy))
    run(engine, arrived(pair, topic, 50))
    engine.stop_lanes([key(topic, 0)])
    events = run(engine, lambda events: of(events, LaneStopped))
    assert of(events, LaneStopped) == [LaneStopped(key(topic, 0), 50)]
    write(pair.source.address, topic, records(100, 20, 2))
    other = new_engine()
    other.start_lanes(specs(topic, 1, policy=policy))
    run(other, arrived(pair, topic, 60))
    assert [int(record.value or b"") for record in look(pair.destination.address, topic)] == list(
        range(0, 120, 2)
    )
    run(engine, lambda _: len(look(pair.destination.address, topic, 1)) == 60)
    assert of(engine.step(0.0), LaneStopped) == []


def test_stopping_what_does_not_run_is_answered_at_once(new_engine: NewEngine, topic: str) -> None:
    engine = new_engine()
    engine.stop_lanes([key(topic)])
    assert list(engine.step(0.0)) == [LaneStopped(key(topic), None)]


def test_starting_again_what_runs_changes_nothing(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic)
    engine = new_engine()
    engine.start_lanes(specs(topic, policy=policy))
    run(engine, lambda events: of(events, LaneStarted))
    engine.start_lanes(specs(topic, policy=policy))
    write(pair.source.address, topic, records(0, 20))
    run(engine, arrived(pair, topic, 20))
    assert len(look(pair.destination.address, topic)) == 20


def test_a_lane_with_a_problem_pauses_alone_and_resumes_by_itself(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic)
    bad = f"{topic}-bad"
    make_topic(pair.source.address, bad)
    for name in (topic, bad):
        write(pair.source.address, name, records(0, 10))
    engine = new_engine()
    engine.start_lanes([*specs(bad, group=f"g-{bad}", policy=policy), *specs(topic, policy=policy)])
    events = run(engine, lambda events: of(events, LanePaused))
    run(engine, arrived(pair, topic, 10))
    assert {event.key for event in of(events, LanePaused)} == {key(bad)}
    make_topic(pair.destination.address, bad)
    events = run(engine, lambda events: of(events, LaneResumed))
    run(engine, arrived(pair, bad, 10))
    assert {event.key for event in of(events, LaneResumed)} == {key(bad)}


def test_metrics_count_what_was_copied_since_they_were_taken(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic)
    write(pair.source.address, topic, records(0, 40))
    engine = new_engine()
    engine.metrics()
    engine.start_lanes(specs(topic, policy=policy))
    seen: list[int] = []

    def counted(_events: object) -> bool:
        seen.extend(metric.records_copied for metric in engine.metrics() if metric.topic == topic)
        return sum(seen) >= 40

    run(engine, counted)
    assert sum(seen) == 40
    assert sum(metric.records_copied for metric in engine.metrics()) == 0


def test_closing_drains_everything_and_may_be_repeated(
    new_engine: NewEngine, pair: Pair, topic: str, policy: CopyPolicy
) -> None:
    make_pair(pair, topic, 2)
    write(pair.source.address, topic, records(0, 20, 2))
    engine = new_engine()
    engine.start_lanes(specs(topic, 2, policy=policy))
    run(engine, arrived(pair, topic, 10))
    events = engine.close(PATIENCE_SECONDS)
    assert sorted(event.key for event in of(events, LaneStopped)) == [key(topic, 0), key(topic, 1)]
    assert list(engine.close(PATIENCE_SECONDS)) == []
