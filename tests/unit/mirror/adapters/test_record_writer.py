"""Records for one topic: kept for a while, in bounded memory, and counted when they are given up."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.record_writer import QUEUE_BYTES, DeliveryCalls, RecordWriter
from mirror.adapters.kafka.session import ClusterSession
from mirror.client.access import ClusterAccess, endpoints
from mirror.protocol.batches.records import Record
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code, Drop, Gate, Hold
from tests.patience import PATIENCE_SECONDS, wait_until

PRODUCE, METADATA = 0, 3
NOT_LEADER, TOO_LARGE, NO_RIGHTS, TIMED_OUT = 6, 10, 29, 7


class WriterRig:
    """A cluster of fake brokers and writers to it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._loop = LoopThread("desk")
        self.cluster = stack.enter_context(running(FakeCluster("metrics", 2)))
        self.dropped: list[tuple[int, str]] = []
        self.delivered = threading.Event()

    def writer(self, topic: str = "t", seconds: float = PATIENCE_SECONDS) -> RecordWriter:
        access = ClusterAccess(endpoints(self.cluster.address))
        session = ClusterSession("metrics", "test", lambda: access, request_seconds=min(seconds, 10.0))
        calls = DeliveryCalls(self.delivered.set, lambda count, reason: self.dropped.append((count, reason)))
        made = RecordWriter(self._loop, session, topic, seconds, calls)
        self._stack.callback(made.close, 0.0)
        return made

    def make(self, topic: str = "t", partitions: int = 1) -> None:
        with self.cluster.lock:
            self.cluster.create_topic(topic, partitions)

    def plant(self, api: int, fault: Code | Drop | Hold, times: int | None = 1) -> None:
        with self.cluster.lock:
            self.cluster.faults.plant(api, fault, times=times)

    def set_frozen(self, *, frozen: bool) -> None:
        with self.cluster.lock:
            for node in self.cluster.brokers:
                (self.cluster.freeze if frozen else self.cluster.thaw)(node)

    def numbers(self, topic: str = "t", number: int = 0) -> list[int]:
        with self.cluster.lock:
            return [int(one.value or b"-1") for one in committed(self.cluster.log(topic, number))]

    def lost(self) -> int:
        return sum(count for count, _ in self.dropped)


@pytest.fixture
def desk() -> Iterator[WriterRig]:
    with ExitStack() as stack:
        yield WriterRig(stack)


def record(number: int, key: bytes = b"key") -> Record:
    return Record(0, 1_795_000_000_000, key, b"%d" % number)


def put(writer: RecordWriter, numbers: range, key: Callable[[int], bytes] = lambda _: b"key") -> None:
    for number in numbers:
        assert writer.put(record(number, key(number)))


def test_records_lie_in_their_order_where_their_key_says(desk: WriterRig) -> None:
    desk.make(partitions=3)
    writer = desk.writer()
    keys = [b"%d" % number for number in range(5)]
    put(writer, range(100), lambda number: keys[number % 5])
    assert writer.close(PATIENCE_SECONDS) == 0
    for number in range(3):
        mine = [one for one in range(100) if zlib.crc32(keys[one % 5]) % 3 == number]
        assert desk.numbers(number=number) == mine
    assert desk.delivered.is_set()
    assert desk.dropped == []


def test_a_topic_that_is_made_a_moment_later_is_waited_for(desk: WriterRig) -> None:
    writer = desk.writer()
    put(writer, range(3))
    wait_until(lambda: any(one.api == METADATA for one in list(desk.cluster.server.requests)))
    desk.make()
    assert writer.close(PATIENCE_SECONDS) == 0
    assert desk.numbers() == [0, 1, 2]
    assert desk.dropped == []


@pytest.mark.parametrize("fault", [Drop(), Code(NOT_LEADER), Code(TIMED_OUT)])
def test_what_passes_is_tried_again(desk: WriterRig, fault: Code | Drop) -> None:
    desk.make()
    desk.plant(PRODUCE, fault, 2)
    writer = desk.writer()
    put(writer, range(3))
    assert writer.close(PATIENCE_SECONDS) == 0
    assert desk.numbers() == [0, 1, 2]
    assert desk.dropped == []


def test_what_no_broker_takes_in_time_is_given_up(desk: WriterRig) -> None:
    desk.make()
    desk.set_frozen(frozen=True)
    writer = desk.writer(seconds=0.3)
    put(writer, range(4))
    wait_until(lambda: desk.lost() == 4, "they are given up")
    assert not desk.delivered.is_set()
    desk.set_frozen(frozen=False)
    while not desk.delivered.is_set():
        assert writer.put(record(7))
        desk.delivered.wait(0.2)
    assert writer.close(PATIENCE_SECONDS) == 0


def test_what_is_refused_is_given_up_with_the_reason_and_no_more_than_that(desk: WriterRig) -> None:
    desk.make()
    desk.plant(PRODUCE, Code(TOO_LARGE))
    writer = desk.writer()
    put(writer, range(2))
    wait_until(lambda: desk.lost() == 2)
    assert "MESSAGE_TOO_LARGE" in desk.dropped[0][1]
    put(writer, range(2, 5))
    assert writer.close(PATIENCE_SECONDS) == 0
    assert desk.numbers() == [2, 3, 4]


def test_a_partition_that_waits_holds_up_no_other(desk: WriterRig) -> None:
    desk.make(partitions=2)
    keys = {zlib.crc32(key) % 2: key for key in (b"a", b"b", b"c", b"d")}
    gate = Gate()
    desk.plant(PRODUCE, Hold(gate))
    writer = desk.writer()
    writer.put(record(0, keys[0]))
    wait_until(lambda: any(one.api == PRODUCE for one in list(desk.cluster.server.requests)))
    writer.put(record(1, keys[1]))
    wait_until(lambda: desk.numbers(number=1) == [1])
    assert desk.numbers(number=0) == []
    with desk.cluster.lock:
        gate.open()
        desk.cluster.server.changed()
    assert writer.close(PATIENCE_SECONDS) == 0
    assert desk.numbers(number=0) == [0]


def test_the_queue_is_bounded_and_what_is_left_at_the_end_is_counted(desk: WriterRig) -> None:
    writer, large = desk.writer("nobody"), Record(0, 0, b"k", bytes(1024 * 1024))
    taken = [writer.put(large) for _ in range(12)]
    assert taken == [True] * 7 + [False] * 5
    assert QUEUE_BYTES == 8 * 1024 * 1024
    assert writer.close(0.0) == 7
    assert desk.dropped == []
