"""Test that a reading channel assigns responses to the right requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest
from kafka.protocol.consumer import FetchRequest as TheirFetch
from kafka.protocol.consumer import FetchResponse as TheirFetched

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.request import Request
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.channels.fetcher import Fetcher
from mirror.replication.lanes.delivery import UnsavedProgress
from mirror.replication.options import CopyingOptions
from tests.builders import a_spec
from tests.fakes.clock import ManualClock
from tests.fakes.writer import FakeWriter

VERSION = 11


class OpenConnection:
    """A connection that records its requests."""

    throttled_until = 0.0

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.send: Callable[[Request], None] = self.asked.append
        self.when_closed: Any = lambda callback: None

    def version_of(self, api: int, ours: tuple[int, int]) -> int:
        return VERSION

    def throttle(self, milliseconds: int) -> None:
        assert milliseconds == 0

    def round_trip(self) -> float:
        return 0.0


class OneBroker:
    """A cluster of one broker that leads every partition."""

    name, timeout_seconds, largest_batch_bytes = "source", 10.0, 2**20

    def __init__(self) -> None:
        self.loop, self.opened = Loop(ManualClock()), OpenConnection()

    def leader(self, _: object) -> tuple[int, int]:
        return 1, 0

    async def connection(self, broker: int, role: str) -> OpenConnection:
        return self.opened


class Reader:
    """A handler that reads on after every response and records its (lane, position, first offset)."""

    def __init__(self) -> None:
        self.cluster = OneBroker()
        options = CopyingOptions(fetch_bytes=2**22)
        self.source = Fetcher(cast(Cluster, self.cluster), options, self, "")
        self.taken: list[tuple[Lane, int, int]] = []
        self.squeezed: dict[Lane, bool] = {}

    def lane(self, partition: str, position: int, most: int = 1_000) -> Lane:
        """Return a lane that is read in requests of `most` bytes."""
        lane = Lane(a_spec(partition), most, ())
        UnsavedProgress("test").begin(lane, position)
        lane.writer = FakeWriter()
        self.source.attach(lane)
        self.cluster.loop.run_once(0.0)
        return lane

    def on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, *, squeezed: bool) -> None:
        self.squeezed[lane] = squeezed
        self.taken.append((lane, lane.read.position, int(bytes(part.records))))
        lane.read.position = int(bytes(part.records)) + 10
        assert lane.reader is not None
        lane.reader.include(lane)

    def on_broken(self, lane: Lane, error: Exception) -> None:
        raise error

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        raise error

    def on_relocated(self, lane: Lane) -> None:
        raise AssertionError(f"{lane.key} has its broker")

    def asked(self) -> dict[int, int]:
        """Return the offsets by partition in the pending request."""
        return {one.partition: one.fetch_offset for one in self._asked()}

    def asked_bytes(self) -> dict[int, int]:
        """Return the maximum bytes by partition in the pending request."""
        return {one.partition: one.partition_max_bytes for one in self._asked()}

    def _asked(self) -> list[Any]:
        request: Any = TheirFetch.decode(bytes(self.cluster.opened.asked[-1].body[0]), version=VERSION)
        return [one for topic in request.topics for one in topic.partitions]

    def answer(self, size: int = 1, **records: int) -> None:
        """Answer the pending request with ten records for each partition.

        `records`: first offset by `p<partition>`; `size`: bytes of each part.
        """
        topic_class = TheirFetched.FetchableTopicResponse
        parts = [
            topic_class.PartitionData(
                partition_index=int(name[1:]),
                error_code=0,
                high_watermark=100,
                last_stable_offset=100,
                log_start_offset=0,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=b"%*d" % (size, first),
            )
            for name, first in records.items()
        ]
        response = TheirFetched(
            throttle_time_ms=0,
            error_code=0,
            session_id=7,
            responses=[topic_class(topic="t", partitions=parts)] if parts else [],
        )
        response.API_VERSION = VERSION
        body = memoryview(bytes(response.encode(header=False, framed=False)))
        under_way = len(self.cluster.opened.asked)
        self.cluster.opened.asked[-1].on_answer(body, ReceiveBuffer(bytearray(), None))
        assert len(self.cluster.opened.asked) == under_way + 1, "one request at a time"


@pytest.fixture
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.cluster.loop.close()


def test_an_answer_from_further_on_is_not_taken_by_a_lane_that_has_gone_back(reader: Reader) -> None:
    one, two = reader.lane("t-0", 0), reader.lane("t-1", 0)
    reader.answer()
    reader.answer(p0=0, p1=0)
    assert reader.asked() == {0: 10, 1: 10}
    reader.source.detach(two)
    two.read.position = 3
    reader.source.attach(two)
    reader.answer(p0=10, p1=10)
    assert reader.asked() == {0: 20}, "the broker forgets the partition first"
    reader.answer(p0=20)
    assert reader.asked() == {0: 30, 1: 3}
    reader.answer(p0=30, p1=3)
    assert reader.taken == [(one, 0, 0), (two, 0, 0), *((one, at, at) for at in (10, 20, 30)), (two, 3, 3)]


def test_partitions_share_a_response_so_that_many_are_in_it(reader: Reader) -> None:
    lanes = [reader.lane(f"t-{number}", 0, 2**20) for number in range(16)]
    reader.answer()
    reader.answer(**{f"p{number}": 0 for number in range(16)})
    assert reader.asked_bytes() == dict.fromkeys(range(16), 2**18)
    for lane in lanes[4:]:
        reader.source.detach(lane)
    reader.answer(**{f"p{number}": 10 for number in range(4)})
    assert reader.asked_bytes() == dict.fromkeys(range(4), 2**20)


def test_each_of_very_many_partitions_gets_enough_to_merge(reader: Reader) -> None:
    for number in range(100):
        reader.lane(f"t-{number}", 0, 2**20)
    reader.answer()
    reader.answer(p7=0)
    assert reader.asked_bytes() == {7: 2**18}


@pytest.mark.parametrize(("size", "squeezed"), [(1, False), (2**22, True)])
def test_a_partition_left_out_of_a_full_response_is_not_taken_for_one_with_a_large_batch(
    reader: Reader, size: int, squeezed: bool
) -> None:
    lane = reader.lane("t-0", 0)
    reader.answer(size, p0=0)
    assert reader.squeezed == {lane: squeezed}
