"""Test unclean elections in which the destination loses transaction markers but not the records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from tests.fakes.broker.faults import Drop, Fault, HandledRequest, Run
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, LIST_OFFSETS, INIT, ADD, END = 0, 2, 22, 24, 26
NewFakes = Callable[..., MirroredFakes]
LEVELS = pytest.mark.parametrize("level", [0, 2])
LOSSES = pytest.mark.parametrize("on_loss", OnLoss)


def aborted(new_fakes: NewFakes, level: int, on_loss: OnLoss) -> tuple[MirroredFakes, CopyPolicy]:
    """Let an owner die in a transaction of five records, and the next owner die after aborting it."""
    fakes = new_fakes(transaction_level=level)
    policy = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE, on_loss=on_loss)
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=policy)
    fakes.run_to("t", 20)
    fakes.target.faults.plant(END, Drop(), times=None)
    fakes.write("t", 20, 5)
    fakes.run(0.4)
    fakes.crash()
    fakes.target.faults.clear()
    (name,) = [one for one in fakes.target.coordinator.known if one.startswith("headrace-")]
    fakes.target.coordinator.fence(name)
    assert fakes.numbers("t") == list(range(20))
    return fakes, policy


def lose_marker(fakes: MirroredFakes) -> None:
    """Lose the abort marker, which is the last batch at the destination."""
    log = fakes.target.log("t")
    assert log.batches[-1].is_control
    fakes.target.elect_uncleanly("t", 0, 2, log.batches[-1].base)
    assert log.open


def copied_once(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    """Check that another owner copies these records and five more once."""
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.run_to("t", 25)
    fakes.write("t", 25, 5)
    fakes.run_to("t", 30)
    fakes.check("t")
    assert not fakes.lane("t").progress.gaps


@LEVELS
@LOSSES
def test_records_whose_abort_is_lost_do_not_join_the_next_owners_transaction(
    new_fakes: NewFakes, level: int, on_loss: OnLoss
) -> None:
    fakes, policy = aborted(new_fakes, level, on_loss)
    lose_marker(fakes)
    copied_once(fakes, policy)


@LEVELS
@LOSSES
def test_neither_do_those_whose_abort_is_lost_after_the_owner_has_looked(
    new_fakes: NewFakes, level: int, on_loss: OnLoss
) -> None:
    fakes, policy = aborted(new_fakes, level, on_loss)
    fakes.target.faults.plant(PRODUCE, Run(lambda: lose_marker(fakes)), fits=_is_of_lane)
    copied_once(fakes, policy)
    assert fakes.target.faults.is_spent


@LEVELS
@pytest.mark.parametrize("api", [LIST_OFFSETS, ADD, END, INIT])
@pytest.mark.parametrize("fault", [Drop(), Drop(applied=True)])
def test_an_abort_that_is_repeated_survives_what_befalls_its_requests(
    new_fakes: NewFakes, level: int, api: int, fault: Fault
) -> None:
    fakes, policy = aborted(new_fakes, level, OnLoss.HALT)
    lose_marker(fakes)
    fakes.target.faults.plant(api, fault, times=2)
    copied_once(fakes, policy)
    assert fakes.target.faults.is_spent


@LEVELS
@LOSSES
def test_an_election_between_two_transactions_makes_nothing_visible_twice(
    new_fakes: NewFakes, level: int, on_loss: OnLoss
) -> None:
    """The records that the owner copied after the abort are lost with the marker."""
    fakes, policy = aborted(new_fakes, level, on_loss)
    end = fakes.target.log("t").batches[-1].base
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.run_to("t", 25)
    fakes.target.elect_uncleanly("t", 0, 2, end)
    assert fakes.target.log("t").open
    fakes.write("t", 25, 5)
    if on_loss is OnLoss.HALT:
        assert "the destination lost" in fakes.run_until_paused("t")
        fakes.run(5.0)
        assert fakes.numbers("t") == list(range(20))
        return
    fakes.run_to("t", 30)
    assert fakes.numbers("t") == [*range(20), *range(25, 30)]
    assert len(fakes.lane("t").progress.gaps) == 1


def _is_of_lane(asked: HandledRequest) -> bool:
    parts = [bytes(part.records) for topic in asked.message.topic_data for part in topic.partition_data]
    return any(b"key" in part for part in parts)


@pytest.mark.parametrize("stored", [0, 5])
def test_a_former_owner_that_wakes_after_the_fence_is_lost_repeats_nothing(
    fakes: MirroredFakes, stored: int
) -> None:
    """The owner's first batch is lost with the marker, so the destination rejects the next one.

    The owner then fences former owners again and repeats the comparison.
    """
    policy = CopyPolicy(on_loss=OnLoss.CONTINUE)
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=policy)
    fakes.run_to("t", 20)
    frozen, end = fakes.engine, fakes.target.log("t").end
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.target.elect_uncleanly("t", 0, 2, end)
    fakes.write("t", 25, stored)
    for _ in range(20):
        frozen.step(0.05)
    assert fakes.numbers("t") == list(range(25 + stored))
    fakes.write("t", 25 + stored, 5)
    fakes.run_to("t", 30 + stored)
    assert fakes.numbers("t") == list(range(30 + stored))
