"""Test the restart of an exactly-once lane while its commit is in progress."""

from __future__ import annotations

import pytest

from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from tests.fakes.broker.faults import Gate, Hold
from tests.fakes.broker.mirrored import MirroredFakes

END = 26
POLICY = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE, on_loss=OnLoss.CONTINUE)


@pytest.mark.parametrize("applied", [False, True])
def test_an_answer_that_comes_after_a_restart_leaves_the_lane_alone(
    fakes: MirroredFakes, applied: bool
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.start("t", policy=POLICY)
    fakes.run_to("t", 5)
    gate, ends = Gate(), ended(fakes)
    fakes.target.faults.plant(END, Hold(gate, applied=applied))
    fakes.write("t", 5, 5)
    fakes.run_until(lambda: ended(fakes) > ends, "the lane commits")
    generation = fakes.lane("t").generation
    fakes.source.recreate_topic("t")
    fakes.run_until(lambda: fakes.lane("t").generation > generation, "the lane restarts")
    gate.open()
    fakes.target.server.changed()
    fakes.run(0.5)
    fakes.write("t", 10, 5)
    fakes.run_to("t", 5)
    assert fakes.numbers("t")[-5:] == list(range(10, 15))


def ended(fakes: MirroredFakes) -> int:
    return sum(one.api == END for one in fakes.target.server.requests)
