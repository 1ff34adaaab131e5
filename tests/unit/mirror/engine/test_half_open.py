"""Connections whose responses get lost without a reset, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.client.reachability import PATIENCE_SECONDS
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.faults import Delay, Gate, Hold
from tests.fakes.broker.mirrored import MirroredFakes

FETCH = 1
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
