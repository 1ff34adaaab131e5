"""Connections whose responses get lost without a reset, in virtual time."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from mirror.client.promptness import PATIENCE_SECONDS, Promptness
from mirror.client.request import Request
from mirror.client.sockets import reset_on_close
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.model.identifiers import ClusterRef
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.faults import Cut, Delay, Gate, HandledRequest, Hold, Throttle
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE = 0
FETCH = 1
INIT_PRODUCER_ID = 22
END_TXN = 26
API_VERSIONS = 18
WHOLE = 2**20
"""More bytes than any response has."""
PROGRESS = "headrace-progress"


def copying(fakes: MirroredFakes, partitions: int = 4) -> None:
    fakes.make_topic("t", partitions)
    for number in range(partitions):
        fakes.write("t", 0, 10, number)
    fakes.start("t", partitions)
    for number in range(partitions):
        fakes.run_to("t", 10, number)


def test_a_fetch_whose_response_is_lost_silences_its_partitions_for_seconds_only(
    fakes: MirroredFakes,
) -> None:
    copying(fakes)
    fakes.source.faults.plant(FETCH, Hold(Gate()), broker=1)
    fakes.run_until(lambda: fakes.source.faults.is_spent, "a response is lost")
    began = fakes.clock.monotonic()
    for number in range(4):
        fakes.write("t", 10, 10, number)
    for number in range(4):
        fakes.run_to("t", 20, number)
    assert fakes.clock.monotonic() - began < 2 * PATIENCE_SECONDS
    fakes.check("t", 4)
    fakes.run(2 * PATIENCE_SECONDS)
    assert not any(fakes.lane("t", number).observed.stalled_by for number in range(4))


def test_a_frozen_broker_is_asked_on_its_old_connections_when_it_is_back(fakes: MirroredFakes) -> None:
    """It answers on another connection as little as on this one."""
    copying(fakes)
    fakes.source.freeze(1)
    fakes.run(4 * PATIENCE_SECONDS)
    fakes.source.thaw(1)
    for number in range(4):
        fakes.write("t", 10, 10, number)
    for number in range(4):
        fakes.run_to("t", 20, number)
    fakes.check("t", 4)


def test_a_source_whose_responses_are_all_late_is_copied(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.faults.plant(FETCH, Delay(2 * PATIENCE_SECONDS), times=None)
    for first in (10, 20, 30):
        for number in range(4):
            fakes.write("t", first, 10, number)
        for number in range(4):
            fakes.run_to("t", first + 10, number)
    fakes.check("t", 4)


def test_the_lag_of_partitions_whose_source_is_silent_is_unknown(fakes: MirroredFakes) -> None:
    copying(fakes)
    assert fakes.engine.sums().unknown == 0
    for node in (1, 2):
        fakes.source.freeze(node)
    for number in range(4):
        fakes.write("t", 10, 10, number)
    fakes.run(3 * PATIENCE_SECONDS)
    assert fakes.engine.sums().unknown == 4
    for node in (1, 2):
        fakes.source.thaw(node)
    for number in range(4):
        fakes.run_to("t", 20, number)
    fakes.run_until(lambda: not fakes.engine.sums().unknown, "the lag is known")


@pytest.mark.parametrize("seconds", [4.0, 6.5, 15.0])
@pytest.mark.parametrize("side", ["source", "target"])
def test_partitions_of_a_frozen_broker_follow_their_new_leader_within_seconds(
    new_fakes: Callable[..., MirroredFakes], side: str, seconds: float
) -> None:
    """The requests to the broker stay unanswered for as long as it is frozen.

    `seconds`: time until its cluster replaces it.
    """
    fakes = new_fakes(brokers=3, options={"request_timeout_seconds": 60.0})
    fakes.target.create_topic(PROGRESS, 8, 2, cleanup_policy="compact")
    copying(fakes)
    cluster: FakeCluster = getattr(fakes, side)
    cluster.freeze(1)
    for number in range(4):
        fakes.write("t", 10, 10, number)
    fakes.run(seconds)
    began = fakes.clock.monotonic()
    cluster.stop_broker(1)
    for number in range(4):
        fakes.run_to("t", 20, number)
    assert fakes.clock.monotonic() - began < PATIENCE_SECONDS / 2
    fakes.check("t", 4)


def test_a_broker_that_is_back_may_be_slow(new_fakes: Callable[..., MirroredFakes]) -> None:
    """The response of the former leader names it, so that the lane needs no metadata."""
    fakes = new_fakes(brokers=3)
    fakes.target.create_topic(PROGRESS, 8, 2, cleanup_policy="compact")
    copying(fakes, 1)
    node = fakes.target.partition("t").leader
    fakes.target.take_down(node)
    fakes.write("t", 10, 10)
    fakes.run_to("t", 20)
    fakes.target.bring_up(node)
    fakes.target.move_leader("t", 0, node)
    fakes.write("t", 20, 10)
    fakes.run_to("t", 30)
    fits = is_for(fakes.target.topics["t"].identity)
    fakes.target.faults.plant(PRODUCE, Delay(3.0, applied=True), fits=fits)
    fakes.write("t", 30, 10)
    fakes.run_to("t", 40)
    assert fakes.target.faults.is_spent
    assert len([asked for asked in produced(fakes) if asked.faults]) == 1
    assert produced(fakes)[-1].faults, "the batch was sent again"
    fakes.check("t")


def test_the_first_fetch_of_a_connection_is_repeated_on_another(fakes: MirroredFakes) -> None:
    fakes.source.faults.plant(FETCH, Hold(Gate()), times=2)
    began = fakes.clock.monotonic()
    copying(fakes)
    assert fakes.source.faults.is_spent
    assert fakes.clock.monotonic() - began < 4 * PATIENCE_SECONDS
    fakes.check("t", 4)


def test_the_first_fetch_of_a_slow_broker_is_answered_in_the_end(
    new_fakes: Callable[..., MirroredFakes],
) -> None:
    """Each replacement of its connection waits twice as long."""
    fakes = new_fakes(options={"request_timeout_seconds": 60.0})
    fakes.source.faults.plant(FETCH, Delay(25.0), times=None)
    copying(fakes)
    fakes.check("t", 4)


@pytest.fixture
def one_partition(new_fakes: Callable[..., MirroredFakes]) -> Callable[[Guarantee], MirroredFakes]:
    """Return a function that starts an engine and copies one partition with a guarantee."""

    def start(guarantee: Guarantee) -> MirroredFakes:
        options = {"request_timeout_seconds": 60.0, "merge_small_batches": False}
        fakes = new_fakes(brokers=1, options=options)
        fakes.make_topic("t", replication=1)
        fakes.write("t", 0, 10)
        fakes.start("t", policy=CopyPolicy(guarantee=guarantee))
        fakes.run_to("t", 10)
        return fakes

    return start


def produced(fakes: MirroredFakes) -> list[HandledRequest]:
    """Return the produce requests for records of the topic."""
    topic = fakes.target.topics["t"].identity
    return [asked for asked in fakes.target.server.requests if is_for(topic)(asked)]


def is_for(topic: object) -> Callable[[HandledRequest], bool]:
    return lambda asked: asked.api == PRODUCE and asked.message.topic_data[0].topic_id == topic


def write_in_batches(fakes: MirroredFakes, first: int) -> None:
    """Write 30 records that are copied with three requests."""
    for number in range(first, first + 30, 10):
        fakes.write("t", number, 10)


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_batch_whose_response_is_lost_delays_its_partition_for_seconds_only(
    one_partition: Callable[[Guarantee], MirroredFakes], guarantee: Guarantee, applied: bool
) -> None:
    """The broker may process the request at any time later."""
    fakes = one_partition(guarantee)
    gate = Gate()
    fits = is_for(fakes.target.topics["t"].identity)
    fakes.target.faults.plant(PRODUCE, Hold(gate, applied=applied), fits=fits)
    began = fakes.clock.monotonic()
    write_in_batches(fakes, 10)
    fakes.run_to("t", 40)
    assert fakes.clock.monotonic() - began < 3 * PATIENCE_SECONDS
    assert fakes.target.faults.is_spent
    fakes.check("t")
    gate.open()
    fakes.run(1)
    write_in_batches(fakes, 40)
    fakes.run_to("t", 70)
    fakes.check("t")


def test_a_connection_that_loses_every_response_is_replaced_again(
    one_partition: Callable[[Guarantee], MirroredFakes],
) -> None:
    fakes = one_partition(Guarantee.EFFECTIVELY_ONCE)
    fits = is_for(fakes.target.topics["t"].identity)
    fakes.target.faults.plant(PRODUCE, Hold(Gate(), applied=True), times=2, fits=fits)
    began = fakes.clock.monotonic()
    write_in_batches(fakes, 10)
    fakes.run_to("t", 40)
    assert fakes.clock.monotonic() - began < 6 * PATIENCE_SECONDS
    assert fakes.target.faults.is_spent
    fakes.check("t")


def test_a_throttled_connection_is_not_half_open(
    one_partition: Callable[[Guarantee], MirroredFakes],
) -> None:
    """A broker reads no requests while it throttles a connection."""
    fakes = one_partition(Guarantee.EFFECTIVELY_ONCE)
    gate = Gate()
    fits = is_for(fakes.target.topics["t"].identity)
    fakes.target.faults.plant(PRODUCE, Throttle(30_000), fits=fits)
    fakes.target.faults.plant(PRODUCE, Hold(gate), fits=fits)
    write_in_batches(fakes, 10)
    fakes.run(30)
    gate.open()
    fakes.run_to("t", 40)
    assert len({asked.connection for asked in produced(fakes)}) == 1
    fakes.check("t")


def test_batches_that_wait_for_replicas_in_turn_are_not_lost(
    one_partition: Callable[[Guarantee], MirroredFakes],
) -> None:
    fakes = one_partition(Guarantee.EFFECTIVELY_ONCE)
    fits = is_for(fakes.target.topics["t"].identity)
    fakes.target.faults.plant(PRODUCE, Delay(6.0, applied=True), times=None, fits=fits)
    write_in_batches(fakes, 10)
    fakes.run_to("t", 40)
    assert fakes.target.faults.taken == 3
    assert len({asked.connection for asked in produced(fakes)}) == 1
    fakes.check("t")


def test_the_first_batches_of_a_slow_broker_are_stored_in_the_end(
    one_partition: Callable[[Guarantee], MirroredFakes],
) -> None:
    """Each replacement of their connection waits twice as long."""
    fakes = one_partition(Guarantee.EFFECTIVELY_ONCE)
    fits = is_for(fakes.target.topics["t"].identity)
    fakes.target.faults.plant(PRODUCE, Delay(25.0), times=None, fits=fits)
    write_in_batches(fakes, 10)
    fakes.run_to("t", 40)
    fakes.check("t")


def test_a_batch_that_a_slow_line_still_carries_is_not_lost() -> None:
    """The kernel has taken the whole request, and the broker's host acknowledges parts of it."""
    batch = Request(PRODUCE, 9, True, [], 0, 60.0, lambda *_: None, lambda _: None)
    batch.replication_seconds = 4.0
    promptness = Promptness()
    for second in range(60):
        promptness.accepted(1_000 * second, 100.0 + second)
        assert not promptness.is_overdue(batch, 100.0, 0.0, 100.0 + second)
    assert not promptness.is_overdue(batch, 100.0, 0.0, 167.0)
    assert promptness.is_overdue(batch, 100.0, 0.0, 168.0)


def cut(fakes: MirroredFakes, cluster: str, role: str) -> int:
    """Let the network drop what is sent on the connections for a role. Return their number."""
    known = fakes.context.cluster(ClusterRef(cluster)).connections.known
    sockets: list[Any] = [one.transport.socket for place, one in known.items() if place[1] == role]
    for found in sockets:
        found.is_cut = True
    return len(sockets)


@pytest.mark.parametrize("level", [0, 2])
def test_transactions_continue_within_seconds_when_the_network_drops_the_connection_to_the_coordinator(
    new_fakes: Callable[..., MirroredFakes], level: int
) -> None:
    fakes = new_fakes(transaction_level=level, options={"request_timeout_seconds": 60.0})
    fakes.copy_exactly_once()
    for first in (20, 40):
        assert cut(fakes, "destination", "coordinate")
        began = fakes.clock.monotonic()
        fakes.write("t", first, 20)
        fakes.run_to("t", first + 20)
        assert fakes.clock.monotonic() - began < 4 * PATIENCE_SECONDS
    fakes.check_contents("t")


def test_a_cluster_whose_coordinator_answers_again_is_not_silent(
    new_fakes: Callable[..., MirroredFakes],
) -> None:
    fakes = new_fakes(options={"request_timeout_seconds": 60.0})
    fakes.copy_exactly_once()
    fakes.target.faults.plant(END_TXN, Delay(1.0, applied=True), times=None)
    assert cut(fakes, "destination", "coordinate")
    fakes.write("t", 20, 10)
    fakes.run_to("t", 30)
    fakes.run(60.0)
    watch = fakes.context.cluster(ClusterRef("destination")).watch
    fakes.write("t", 30, 10)
    for _ in range(50):
        fakes.run(0.1)
        assert fakes.clock.monotonic() - watch.silent_since < PATIENCE_SECONDS
    fakes.run_to("t", 40)


@pytest.mark.parametrize(
    ("side", "role"), [("source", "control"), ("destination", "control"), ("destination", "coordinate")]
)
def test_a_lane_starts_within_seconds_when_the_network_drops_former_connections(
    new_fakes: Callable[..., MirroredFakes], side: str, role: str
) -> None:
    fakes = new_fakes(options={"request_timeout_seconds": 60.0})
    copying(fakes)
    fakes.make_topic("u")
    fakes.write("u", 0, 10)
    assert cut(fakes, side, role)
    began = fakes.clock.monotonic()
    fakes.start("u")
    fakes.run_to("u", 10)
    assert fakes.clock.monotonic() - began < 4 * PATIENCE_SECONDS


def test_a_slow_coordinator_keeps_its_connection(new_fakes: Callable[..., MirroredFakes]) -> None:
    fakes = new_fakes(options={"request_timeout_seconds": 60.0})
    fakes.target.faults.plant(INIT_PRODUCER_ID, Delay(25.0, applied=True))
    copying(fakes, 1)
    asked = [one for one in fakes.target.server.requests if one.api == INIT_PRODUCER_ID]
    assert len(asked) == 1, "no request was repeated"


def test_a_replaced_connection_is_reset() -> None:
    """Otherwise the kernel resends unacknowledged requests, and the broker processes them later."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        replaced = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
        with other:
            reset_on_close(replaced)
            replaced.close()
            with pytest.raises(ConnectionResetError):
                other.recv(1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_broker_that_closes_each_connection_after_its_first_response_is_asked_again(
    fakes: MirroredFakes, side: str
) -> None:
    copying(fakes)
    cluster: FakeCluster = getattr(fakes, side)
    cluster.faults.plant(API_VERSIONS, Cut(WHOLE), times=20)
    for node in (1, 2):
        cluster.server.drop_connections(node)
    for number in range(4):
        fakes.write("t", 10, 10, number)
    for number in range(4):
        fakes.run_to("t", 20, number)
    assert cluster.faults.is_spent
    fakes.check("t", 4)
