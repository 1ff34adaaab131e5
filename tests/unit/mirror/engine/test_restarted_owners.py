"""Test exactly-once lanes that restart with a transaction of unknown outcome, and other owners."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from mirror.lane.lane import Lane
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.replication.engine import BatchEngine
from tests.fakes.broker.faults import Code, Delay, Drop, Fault, Gate, Hold, Run
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, LIST_OFFSETS, INIT, END = 0, 2, 22, 26
EXACTLY_ONCE = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE)
NewFakes = Callable[..., MirroredFakes]
LEVELS = pytest.mark.parametrize("level", [0, 2])


class Reason(NamedTuple):
    """Reason for a restart: requests with this api key fail `times` times (None: until the restart)."""

    api: int
    fault: Fault
    times: int | None = None
    moves_leader: bool = False


REASONS = {
    "the answer to its commit never comes": Reason(END, Drop(applied=True)),
    "its commit never arrives": Reason(END, Drop()),
    "its commit takes too long": Reason(END, Delay(40, applied=True)),
    "its coordinator refuses to commit": Reason(END, Code(51)),
    "the sequence is lost": Reason(PRODUCE, Code(45), 1),
    "a new leader knows nothing of it": Reason(PRODUCE, Code(59), 1, moves_leader=True),
    "a batch is damaged again and again": Reason(PRODUCE, Code(2), 2),
}
ALL = pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS)


def copying(new_fakes: NewFakes, level: int, **options: float) -> MirroredFakes:
    """Copy 20 records exactly once with this level of the transaction protocol."""
    fakes = new_fakes(transaction_level=level, options=options)
    fakes.copy_exactly_once()
    return fakes


def lane_of(engine: BatchEngine) -> Lane:
    return next(iter(engine.lanes.by_key.values()))


def plant(fakes: MirroredFakes, reason: Reason) -> None:
    fakes.target.faults.plant(reason.api, reason.fault, times=reason.times)
    if reason.moves_leader:
        partition = fakes.target.partition("t", 0)
        fakes.target.move_leader("t", 0, 1 if partition.leader != 1 else 2)


@LEVELS
@ALL
def test_a_lane_that_nobody_has_taken_copies_on(new_fakes: NewFakes, level: int, reason: Reason) -> None:
    fakes = copying(new_fakes, level)
    plant(fakes, reason)
    generation = fakes.lane("t").generation
    fakes.write("t", 20, 20)
    fakes.run_until(lambda: fakes.lane("t").generation > generation, "the lane restarts")
    fakes.target.faults.clear()
    fakes.run_to("t", 40)
    fakes.write("t", 40, 20)
    fakes.run_to("t", 60)
    assert not fakes.lane("t").is_fenced
    fakes.check_contents("t")


@LEVELS
@ALL
def test_a_former_owner_that_restarts_leaves_the_new_one_alone(
    new_fakes: NewFakes, level: int, reason: Reason
) -> None:
    """The former owner freezes while it waits for the response to a commit or a batch."""
    fakes = copying(new_fakes, level)
    former, gate = fakes.engine, Gate()
    fakes.target.faults.plant(reason.api, Hold(gate))
    fakes.write("t", 20, 20)
    fakes.run_until(lambda: fakes.target.faults.is_spent, "the request is pending")
    taken_over(fakes)
    plant(fakes, reason)
    fakes.target.server.drop_connections(1)
    fakes.target.server.drop_connections(2)
    wake(fakes, former)
    fakes.target.faults.clear()
    gate.open()
    fakes.write("t", 60, 20)
    fakes.run_to("t", 80)
    assert not fakes.pauses(fakes.lane("t").key)
    fakes.check_contents("t")


@LEVELS
@pytest.mark.parametrize("is_taken", [False, True])
def test_an_id_that_was_taken_and_never_written_under_is_asked_for_too(
    new_fakes: NewFakes, level: int, is_taken: bool
) -> None:
    """The stored progress cannot be read for some time after the lane has acquired its id."""
    fakes = new_fakes(transaction_level=level)
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    forgetting = Run(lambda: fakes.target.faults.plant(LIST_OFFSETS, Drop(), times=None))
    fakes.target.faults.plant(INIT, forgetting)
    fakes.start("t", policy=EXACTLY_ONCE)
    fakes.run_until_paused("t")
    identity = fakes.transactional().producer, fakes.transactional().epoch
    if is_taken:
        (name,) = [one for one in fakes.target.coordinator.known if one.startswith("headrace-")]
        fakes.target.coordinator.fence(name)
    fakes.target.faults.clear()
    if is_taken:
        fakes.run_until(lambda: fakes.lane("t").is_fenced, "the lane is fenced")
        assert (fakes.transactional().producer, fakes.transactional().epoch) == (identity[0], identity[1] + 1)
        return
    fakes.run_to("t", 20)
    fakes.check_contents("t")


def taken_over(fakes: MirroredFakes) -> None:
    """Start another engine, which takes over the lane and copies."""
    fakes.new_engine()
    fakes.start("t", policy=EXACTLY_ONCE)
    fakes.run_to("t", 40)
    fakes.write("t", 40, 20)
    fakes.run_to("t", 60)


def wake(fakes: MirroredFakes, former: BatchEngine) -> None:
    """Step an engine that was frozen until its lane is fenced."""
    lane = lane_of(former)
    for _ in range(2_000):
        former.step(0.05)
        if lane.is_fenced:
            return
    raise AssertionError(f"{lane.state} {lane.pause}")
