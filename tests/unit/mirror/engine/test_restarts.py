"""Test the restart of a datastream: it copies everything again and counts each record once."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mirror.lane.ledger import OffsetClass
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from tests.fakes.broker.faults import Code
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, METADATA, UNKNOWN_TOPIC, NOT_LEADER = 0, 3, 3, 6
GUARANTEES = pytest.mark.parametrize("guarantee", Guarantee)
AGAIN: Final[dict[str, Any]] = {"restart_ms": 1_000, "start": StartPosition.EARLIEST}


def copied(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=policy)
    fakes.run_to("t", 20)
    fakes.run(1.0)


@GUARANTEES
@pytest.mark.parametrize("is_halted", [False, True])
def test_a_re_created_destination_gets_the_history_again(
    fakes: MirroredFakes, guarantee: Guarantee, is_halted: bool
) -> None:
    policy = CopyPolicy(guarantee=guarantee)
    copied(fakes, policy)
    fakes.target.recreate_topic("t")
    if is_halted:
        fakes.write("t", 20, 5)
        assert "restart-from" in fakes.run_until_paused("t")
    fakes.restart("t", policy=policy, **AGAIN)
    fakes.run_to("t", 25 if is_halted else 20)
    fakes.check("t")
    lane = fakes.lane("t")
    assert (lane.progress.gaps, lane.progress.ledger.is_balanced) == ([], True)
    assert lane.progress.ledger.total(OffsetClass.MIRRORED) == len(fakes.numbers("t"))


@GUARANTEES
def test_a_lane_is_restarted_once(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    policy = CopyPolicy(guarantee=guarantee)
    copied(fakes, policy)
    fakes.target.recreate_topic("t")
    for _ in range(3):
        fakes.restart("t", policy=policy, **AGAIN)
        fakes.run_to("t", 20)
        fakes.run(1.0)
    fakes.restart("t", policy=policy)
    fakes.run_to("t", 20)
    fakes.run(1.0)
    fakes.check("t")
    fakes.restart("t", policy=policy, **{**AGAIN, "restart_ms": 2_000})
    fakes.run_to("t", 20)
    assert fakes.numbers("t") == [*range(20), *range(20)]
    assert fakes.lane("t").progress.ledger.total(OffsetClass.MIRRORED) == 20


@GUARANTEES
def test_a_restart_accepts_another_cluster(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    policy = CopyPolicy(guarantee=guarantee)
    copied(fakes, policy)
    fakes.stop()
    fakes.target.name = "rebuilt"
    fakes.target.recreate_topic("t")
    fakes.new_engine()
    fakes.start("t", policy=policy, destination_id="rebuilt", **AGAIN)
    fakes.run_to("t", 20)
    fakes.check("t")


def test_a_batch_that_a_former_leader_stored_is_not_copied_again_by_the_next_owner(
    fakes: MirroredFakes,
) -> None:
    """The leader stored the batch, and lost its leadership before it could confirm it."""
    copied(fakes, CopyPolicy(guarantee=Guarantee.EFFECTIVELY_ONCE))
    fakes.target.faults.plant(METADATA, Code(UNKNOWN_TOPIC, "t"), times=None)
    fakes.target.faults.plant(PRODUCE, Code(NOT_LEADER, "t", applied=True))
    fakes.write("t", 20, 5)
    fakes.run_until_paused("t")
    fakes.target.faults.clear()
    fakes.stop()
    fakes.new_engine()
    fakes.write("t", 25, 5)
    fakes.start("t", policy=CopyPolicy(guarantee=Guarantee.EFFECTIVELY_ONCE))
    fakes.run_to("t", 30)
    fakes.check("t")
