"""Copying from and to distant brokers over several connections, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from mirror.model.datastreams.lanes import LaneStarted
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, Isolation
from tests.fakes.broker.faults import Announce, Code, Cut, Delay, HandledRequest, Throttle
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.server import Peer

FETCH, PRODUCE = 1, 0
BATCHES = 120
CONNECTIONS = 6
OPTIONS = {
    "fetch_bytes": 4_000,
    "partition_fetch_bytes": 1_000,
    "read_connections": CONNECTIONS,
    "write_connections": 8,
    "read_ahead_bytes": 48_000,
}


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    with_distance = MirroredFakes(1, options=OPTIONS)
    with_distance.network.round_trip = 0.1
    yield with_distance
    with_distance.close()


def backlog(fakes: MirroredFakes, partitions: int = 1, batches: int = BATCHES) -> None:
    fakes.make_topic("t", partitions, replication=1)
    for number in range(partitions):
        for first in range(0, batches * 5, 5):
            fakes.write("t", first, 5, number)


def connections(fakes: MirroredFakes, api: int) -> int:
    """Return the number of connections that carried requests of that kind."""
    server = (fakes.source if api == FETCH else fakes.target).server
    return len({request.connection for request in server.requests if request.api == api})


def copy(fakes: MirroredFakes, partitions: int = 1, **fields: object) -> None:
    fakes.start("t", partitions, **fields)
    for number in range(partitions):
        fakes.run_to("t", BATCHES * 5, number)
    fakes.check("t", partitions)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_backlog_far_away_is_read_on_several_connections(fakes: MirroredFakes, partitions: int) -> None:
    backlog(fakes, partitions)
    copy(fakes, partitions)
    assert connections(fakes, FETCH) > 4


def test_a_backlog_nearby_is_read_on_one_connection(fakes: MirroredFakes) -> None:
    fakes.network.round_trip = 0.0005
    backlog(fakes)
    copy(fakes)
    assert connections(fakes, FETCH) <= 2  # catching up, and up to date


def test_each_partition_far_away_is_written_on_its_own_connection(fakes: MirroredFakes) -> None:
    backlog(fakes, 6)
    copy(fakes, 6)
    assert connections(fakes, PRODUCE) >= 6


def test_a_request_that_travels_for_long_is_no_outage(fakes: MirroredFakes) -> None:
    """A connection to the destination carries only 40 KB/s, but the broker accepts every byte."""
    fakes.network.window_bytes, fakes.network.later = 4_000, fakes.target.later
    fakes.make_topic("t", replication=1)
    for number in range(3):
        fakes.source.write("t", [(fakes.clock.now_ms(), b"k" * 300_000, b"%d" % number, [])])
    fakes.start("t")
    fakes.run_to("t", 3)
    fakes.check_contents("t")
    assert [type(event) for event in fakes.events] == [LaneStarted]


def test_responses_in_any_order_are_passed_on_in_order(fakes: MirroredFakes) -> None:
    backlog(fakes)
    for place in range(0, 40, 3):
        fakes.source.faults.plant(FETCH, Delay(0.05 * (place % 7)))
    copy(fakes)


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_transactions_are_read_ahead(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    fakes.make_topic("t", replication=1)
    for first in range(0, BATCHES * 5, 10):
        end = fakes.source.write_in_transaction("t", fakes.records(first, 5), 0)
        end(commit=first % 20 == 0)
        fakes.write("t", first + 5, 5)
    fakes.start("t", policy=CopyPolicy(isolation=Isolation.READ_COMMITTED, guarantee=guarantee))
    fakes.run_to("t", fakes.source.log("t", 0).end)
    fakes.check_contents("t")


@pytest.mark.parametrize("fault", [Cut(100), Code(6), Code(1), Delay(60.0)])
def test_a_failed_range_is_read_again(fakes: MirroredFakes, fault: Cut | Code | Delay) -> None:
    backlog(fakes)
    fakes.start("t")
    fakes.run_until(lambda: connections(fakes, FETCH) > 4, "it reads ahead")
    for _ in range(5):
        fakes.source.faults.plant(FETCH, fault)
    fakes.run_to("t", BATCHES * 5)
    fakes.check("t")


def is_ahead(request: HandledRequest) -> bool:
    """Return whether the request reads ahead: it has no fetch session."""
    return request.api == FETCH and request.message.session_epoch == -1


def offset_of(request: HandledRequest) -> int:
    return int(request.message.topics[0].partitions[0].fetch_offset)


def test_the_range_of_a_broken_connection_is_read_on_another_one_at_once(fakes: MirroredFakes) -> None:
    backlog(fakes, batches=5 * BATCHES)
    fakes.source.faults.plant(
        FETCH, Delay(60.0), fits=lambda request: is_ahead(request) and offset_of(request) > 5 * BATCHES
    )
    fakes.start("t")
    fakes.run(5.0)
    position = fakes.lane("t").read.position
    assert position < 25 * BATCHES, "the delayed response holds up everything behind it"
    (late,) = (
        request
        for request in fakes.source.server.requests
        if is_ahead(request) and offset_of(request) <= position and Delay(60.0) in request.faults
    )
    cast(Peer, late.connection).close()
    fakes.run(5.0)
    assert fakes.lane("t").read.position == 25 * BATCHES
    fakes.run_to("t", 25 * BATCHES)
    fakes.check("t")


@pytest.mark.parametrize("times", [1, 5])
def test_the_range_of_a_truncated_response_is_read_again(fakes: MirroredFakes, times: int) -> None:
    backlog(fakes)
    fakes.source.faults.plant(FETCH, Announce(8, 0.01), fits=is_ahead, times=times)
    fakes.start("t")
    fakes.run_until(lambda: connections(fakes, FETCH) > 4, "it reads ahead")
    fakes.run(5.0)
    assert fakes.lane("t").read.position == 5 * BATCHES
    fakes.run_to("t", 5 * BATCHES)
    fakes.check("t")


def test_reading_continues_after_all_connections_broke(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    fakes.run_until(lambda: connections(fakes, FETCH) > 4, "it reads ahead")
    fakes.source.server.drop_connections(1)
    fakes.run_to("t", BATCHES * 5)
    fakes.check("t")


def test_a_throttled_broker_is_read_on_after_its_pause(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.source.faults.plant(FETCH, Throttle(500), times=20)
    copy(fakes)


def test_more_records_follow_a_backlog(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    for first in range(BATCHES * 5, BATCHES * 10, 5):
        fakes.write("t", first, 5)
        fakes.run(0.01)
    fakes.run_to("t", BATCHES * 10)
    fakes.check("t")


def test_connections_without_use_are_closed(fakes: MirroredFakes) -> None:
    backlog(fakes)
    copy(fakes)
    fakes.run(60.0)
    used = {request.connection for request in fakes.source.server.requests if request.api == FETCH}
    assert len([one for one in used if not cast(Peer, one).is_closed]) < CONNECTIONS


def test_less_memory_than_is_read_ahead_stops_nothing() -> None:
    """Ranges that have arrived too early make room for the one before them."""
    options = {
        **OPTIONS,
        "fetch_bytes": 200_000,
        "partition_fetch_bytes": 100_000,
        "read_ahead_bytes": 600_000,
    }
    fakes = MirroredFakes(1, options=options)
    fakes.network.round_trip = 0.1
    fakes.make_topic("t", 3, replication=1)
    value = bytes(80_000)
    for number in range(3):
        for _ in range(40):
            fakes.source.write("t", [(fakes.clock.now_ms(), b"key", value, [])], number)
    for place in range(0, 60, 2):
        fakes.source.faults.plant(FETCH, Delay(0.1 * (place % 9)))
    began = fakes.clock.monotonic()
    fakes.start("t", 3)
    for number in range(3):
        fakes.run_to("t", 40, number)
    fakes.check_contents("t", 3)
    assert fakes.clock.monotonic() - began < 20, "a connection waited until its request timed out"
    fakes.close()
