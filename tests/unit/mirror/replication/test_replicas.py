"""Test leaders that move, preferred replicas, and responses without records."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from kafka.protocol.consumer import FetchRequest as TheirFetch
from kafka.protocol.consumer import FetchResponse as TheirFetched

from mirror.client.access import ClusterAccess
from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.handshake import ConnectionConfigs
from mirror.client.request import Request
from mirror.errors import Unreachable
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import EventKind, LifecycleEvent
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.progress import Contents, SourceIdentity
from mirror.model.datastreams.policy import CopyPolicy, OnLoss
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.cluster import Endpoint, TopicMetadata
from mirror.protocol.control.offsets import EARLIEST, Answers, OffsetAnswer
from mirror.replication.channels.fetcher import Fetcher
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.handlers.fetch_handler import FetchHandler
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.options import CopyingOptions
from mirror.replication.ownership.producer_ids import ProducerIdManager
from mirror.replication.ownership.transactions import TransactionManager
from mirror.replication.quotas.quota_watch import QuotaWatch
from mirror.replication.quotas.read_pacer import ReadPacer
from tests.builders import SOURCE, a_spec
from tests.fakes.clock import ManualClock
from tests.fakes.writer import FakeWriter

VERSION = 17
TOPIC = b"i" * 16


class SentRequest(NamedTuple):
    """A request, its broker, and whether it includes our rack."""

    broker: int
    request: Request

    @property
    def says_rack(self) -> bool:
        decoded: Any = TheirFetch.decode(bytes(self.request.body[0]), version=VERSION)
        return bool(decoded.rack_id)


class Brokers(Cluster):
    """A cluster of brokers 1 and 2, led by broker 1. `asked`: all requests in order."""

    def __init__(self, loop: Loop) -> None:
        access = SimpleNamespace(bootstrap=[])
        aside = SimpleNamespace(loop=loop, access=access, timeout_seconds=10.0, largest_batch_bytes=2**20)
        super().__init__(cast(ConnectionConfigs, SimpleNamespace(aside=aside)), "source")
        self.directory.brokers = {number: Endpoint(f"b{number}", 9092) for number in (1, 2)}
        self.topics = {"t": TopicMetadata("t", 0, TOPIC, False, ((1, 5),))}
        self.asked: list[SentRequest] = []
        self.refreshed = 0

    async def connection(self, broker: int, role: str) -> Any:
        return SimpleNamespace(
            throttled_until=0.0,
            version_of=lambda api, ours: VERSION,
            throttle=lambda milliseconds: None,
            round_trip=lambda: 0.0,
            send=lambda request: self.asked.append(SentRequest(broker, request)),
            close=lambda: None,
            when_closed=lambda callback: None,
        )

    async def refresh(self, topics: Iterable[str]) -> None:
        self.refreshed += 1

    async def offsets(
        self, asked: Mapping[TopicPartition, int], *, committed: bool = False, seconds: float | None = None
    ) -> Answers:
        return {place: OffsetAnswer(0, 40 if when == EARLIEST else 100, 5) for place, when in asked.items()}


class Rig:
    """One lane that is read with a configured rack."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        options = CopyingOptions()
        self.bench = EngineContext(lambda _: ClusterAccess(()), options, EngineIdentity("unit"), self.clock)
        context, lanes = self.bench, LaneRegistry(self.bench)
        self.lanes = lanes
        self.runner = runner = LaneRunner(context, lanes, partial(TransactionManager, context, lanes))
        pacer = ReadPacer(context, lanes, runner, QuotaWatch(context, lanes))
        producer_ids = ProducerIdManager(context, lanes, runner, pacer)
        rejections = Rejections(context, lanes, runner)
        reading = FetchHandler(context, lanes, runner, pacer, producer_ids, rejections)
        self.cluster = Brokers(self.bench.loop)
        source = self.lanes.sources[SOURCE] = Fetcher(self.cluster, options, reading, "r2")
        lane = self.lane = Lane(a_spec("t-0"), 1_000, ())
        lanes.unsaved.begin(lane, 0)
        lane.progress.source = SourceIdentity(TOPIC)
        lane.writer, lane.contents = FakeWriter(), Contents.LOADED
        self.runner.handle(lane, LifecycleEvent(EventKind.POSITIONED))
        self.lanes.by_key[lane.key] = lane
        source.attach(lane)
        self.advance()

    def advance(self, seconds: float = 0.0) -> None:
        """Advance the time and run everything that is due."""
        self.clock.advance(seconds)
        for _ in range(6):
            self.bench.loop.run_once(0.0)

    @property
    def read_from(self) -> tuple[int, bool]:
        """Broker of the last request, and whether the request included our rack."""
        last = self.cluster.asked[-1]
        return last.broker, last.says_rack

    def answer(self, error: int = 0, preferred: int = -1, leader: tuple[int, int] | None = None) -> None:
        """Answer the last request without records."""
        topic_class = TheirFetched.FetchableTopicResponse
        part_class = topic_class.PartitionData
        tagged: dict[str, Any] = {}
        if leader is not None:
            tagged["current_leader"] = part_class.LeaderIdAndEpoch(
                leader_id=leader[0], leader_epoch=leader[1]
            )
        part = part_class(
            partition_index=0,
            error_code=error,
            high_watermark=100,
            last_stable_offset=100,
            log_start_offset=0,
            aborted_transactions=None,
            preferred_read_replica=preferred,
            records=None,
            **tagged,
        )
        nodes = (
            [TheirFetched.NodeEndpoint(node_id=leader[0], host="named", port=1, rack=None)] if leader else []
        )
        response = TheirFetched(
            throttle_time_ms=0,
            error_code=0,
            session_id=7,
            responses=[topic_class(topic_id=uuid.UUID(bytes=TOPIC), partitions=[part])],
            node_endpoints=nodes,
        )
        response.API_VERSION = VERSION
        body = memoryview(bytes(response.encode(header=False, framed=False)))
        self.cluster.asked[-1].request.on_answer(body, ReceiveBuffer(bytearray(), None))
        self.advance()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.cluster.close()
    rig.bench.close()


def test_the_replica_that_the_leader_names_is_read_until_its_lease_ends(rig: Rig) -> None:
    assert rig.read_from == (1, True)
    rig.answer(preferred=2)
    assert rig.read_from == (2, True)
    rig.advance(301)
    assert rig.read_from == (1, True)


@pytest.mark.parametrize(
    "error", [Code.OFFSET_OUT_OF_RANGE, Code.OFFSET_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER, 999]
)
def test_what_a_follower_refuses_the_leader_is_asked_for_without_our_rack(rig: Rig, error: int) -> None:
    rig.answer(preferred=2)
    rig.answer(error)
    assert rig.read_from == (1, False)
    assert not rig.lanes.events, "an error of a follower does not pause the lane"
    rig.advance(31)
    assert rig.read_from == (1, True)


def test_a_follower_that_is_lost_is_left(rig: Rig) -> None:
    rig.answer(preferred=2)
    rig.cluster.asked[-1].request.on_failure(Unreachable("gone"))
    rig.advance()
    assert rig.read_from == (1, False)


def test_a_broker_that_nobody_knows_is_not_followed_and_the_metadata_is_asked_for(rig: Rig) -> None:
    rig.answer(preferred=77)
    assert rig.read_from == (1, False)
    assert rig.cluster.refreshed == 1


def test_a_leader_that_refers_to_others_whatever_it_is_asked_is_asked_with_pauses(rig: Rig) -> None:
    rig.answer(preferred=77)
    rig.answer(preferred=2)
    asked = len(rig.cluster.asked)
    assert "broker 2" in rig.lanes.failures.by_lane[rig.lane].sentence
    rig.advance(0.1)
    assert len(rig.cluster.asked) == asked
    rig.advance(0.2)
    assert len(rig.cluster.asked) == asked + 1


def test_replicas_that_refer_to_each_other_end_at_the_leader(rig: Rig) -> None:
    rig.answer(preferred=2)
    rig.answer(preferred=1)
    assert rig.read_from == (1, False)


def test_answers_without_records_are_no_hot_loop_and_are_reported(rig: Rig) -> None:
    for _ in range(20):
        rig.answer()
        assert not rig.lane.read.waits
    asked = len(rig.cluster.asked)
    rig.answer()
    assert len(rig.cluster.asked) == asked
    assert "offset 0" in rig.lanes.failures.by_lane[rig.lane].sentence
    rig.advance(0.3)
    assert len(rig.cluster.asked) == asked + 1


def test_a_leader_that_has_moved_is_followed_without_asking_for_metadata(rig: Rig) -> None:
    rig.answer(Code.NOT_LEADER_OR_FOLLOWER, leader=(3, 6))
    assert rig.read_from == (3, True)
    assert rig.cluster.brokers[3] == Endpoint("named", 1)
    assert not rig.cluster.refreshed


def test_an_older_hint_does_not_count(rig: Rig) -> None:
    rig.answer(Code.NOT_LEADER_OR_FOLLOWER, leader=(2, 5))
    assert rig.read_from == (1, True)
    assert rig.cluster.refreshed == 1


@pytest.mark.parametrize("is_comparing", [False, True])
def test_a_lane_does_not_go_behind_a_gap_while_the_tail_is_compared(rig: Rig, is_comparing: bool) -> None:
    rig.lane.spec = replace(rig.lane.spec, policy=CopyPolicy(on_loss=OnLoss.CONTINUE))
    refresh = rig.cluster.refresh

    async def refresh_slowly(topics: Iterable[str]) -> None:
        await refresh(topics)
        if is_comparing:
            rig.runner.handle(rig.lane, LifecycleEvent(EventKind.COMPARING))

    rig.cluster.refresh = refresh_slowly  # type: ignore[method-assign]
    rig.answer(Code.OFFSET_OUT_OF_RANGE)
    assert (rig.lane.read.position, rig.lane.reader is None) == ((0, True) if is_comparing else (40, False))
    if is_comparing:
        rig.runner.handle(rig.lane, LifecycleEvent(EventKind.COMPARED))
        assert rig.lane.reader is not None, "it continues reading and meets the gap again"
