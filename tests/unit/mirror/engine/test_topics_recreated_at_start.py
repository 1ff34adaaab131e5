"""Test topics that are recreated while a lane starts.

It happens after the check of the lane's topics; the metadata are refreshed before its first fetch.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from tests.engines import DESTINATION, SOURCE
from tests.fakes.broker.faults import Fault, Gate, HandledRequest, Hold
from tests.fakes.broker.mirrored import MirroredFakes

LIST_OFFSETS, DESCRIBE_CONFIGS = 2, 32
COPIED, NEW = list(range(20)), list(range(100, 130))


def recreated_meanwhile(
    fakes: MirroredFakes, recreate: Callable[[], object], *, on_source: bool = True
) -> None:
    """Change a topic while the lane starts, and refresh the metadata as another lane of the topic does."""
    lane = fakes.lane("t")
    fakes.run_until(
        lambda: fakes.source.faults.is_spent and fakes.target.faults.is_spent, "a lookup of the start is held"
    )
    recreate()
    reference, fake = (SOURCE, fakes.source) if on_source else (DESTINATION, fakes.target)
    cluster = fakes.context.cluster(reference)
    fakes.context.loop.spawn(cluster.refresh(["t"]))
    fakes.run(1.0)
    assert cluster.topic_id("t") == (fake.topics["t"].identity.bytes if "t" in fake.topics else b"")
    assert lane.state is LaneState.STARTING


def source_recreated(fakes: MirroredFakes) -> None:
    """Recreate the source topic, with more records than it had before."""
    fakes.source.recreate_topic("t")
    fakes.write("t", NEW[0], len(NEW))


def stopped_after_copying(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    """Copy some records and stop cleanly; the next engine knows nothing about the topics yet."""
    fakes.make_topic("t")
    fakes.write("t", 0, len(COPIED))
    fakes.start("t", policy=policy)
    fakes.run_to("t", len(COPIED))
    fakes.stop()
    fakes.new_engine()


def held(gate: Gate) -> Fault:
    """Return a fault that holds the response of a handled request."""
    return Hold(gate, applied=True)


def is_of_topic(asked: HandledRequest) -> bool:
    """Return whether the request is for the settings of the copied topic."""
    return any(one.resource_name == "t" for one in asked.message.resources)


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("on_loss", list(OnLoss))
def test_a_source_recreated_while_its_lane_starts_is_no_continuation_of_the_former(
    fakes: MirroredFakes, on_loss: OnLoss, guarantee: Guarantee
) -> None:
    """The new log is longer than the copied one, and has the same leader epoch."""
    policy, gate = CopyPolicy(on_loss=on_loss, guarantee=guarantee), Gate()
    stopped_after_copying(fakes, policy)
    fakes.target.faults.plant(DESCRIBE_CONFIGS, held(gate), fits=is_of_topic)
    fakes.start("t", policy=policy)
    recreated_meanwhile(fakes, lambda: source_recreated(fakes))
    gate.open()
    if on_loss is OnLoss.HALT:
        assert "recreated" in fakes.run_until_paused("t")
        assert fakes.numbers("t") == COPIED
    else:
        fakes.run_to("t", len(NEW))
        assert fakes.numbers("t") == [*COPIED, *NEW]
        assert "recreated" in fakes.lane("t").progress.gaps[-1]


@pytest.mark.parametrize("start", [StartPosition.EARLIEST, StartPosition.LATEST])
@pytest.mark.parametrize("on_loss", list(OnLoss))
def test_a_start_position_of_a_former_topic_does_not_count_for_the_one_recreated_since(
    fakes: MirroredFakes, on_loss: OnLoss, start: StartPosition
) -> None:
    policy, gate = CopyPolicy(on_loss=on_loss), Gate()
    fakes.make_topic("t")
    fakes.write("t", 0, len(COPIED))
    fakes.source.log("t").delete_before(len(COPIED))
    fakes.source.faults.plant(LIST_OFFSETS, held(gate))
    fakes.start("t", policy=policy, start=start)
    recreated_meanwhile(fakes, lambda: source_recreated(fakes))
    gate.open()
    if on_loss is OnLoss.HALT:
        assert "recreated" in fakes.run_until_paused("t")
        assert not fakes.numbers("t")
    else:
        fakes.run_to("t", len(NEW))
        assert fakes.numbers("t") == NEW


def test_a_destination_recreated_while_a_lane_starts_is_a_loss(fakes: MirroredFakes) -> None:
    policy, gate = CopyPolicy(on_loss=OnLoss.CONTINUE), Gate()
    stopped_after_copying(fakes, policy)
    fakes.source.recreate_topic("t")
    fakes.source.faults.plant(LIST_OFFSETS, held(gate))
    fakes.start("t", policy=policy)
    recreated_meanwhile(fakes, lambda: fakes.target.recreate_topic("t"), on_source=False)
    gate.open()
    lane = fakes.lane("t")
    fakes.run_until(lambda: any("destination" in gap for gap in lane.progress.gaps), "the loss is reported")
    fakes.write("t", NEW[0], len(NEW))
    fakes.run_to("t", len(NEW))
    fakes.check("t")


def test_a_source_deleted_while_its_lane_starts_is_waited_for(fakes: MirroredFakes) -> None:
    policy, gate = CopyPolicy(on_loss=OnLoss.CONTINUE), Gate()
    stopped_after_copying(fakes, policy)
    fakes.target.faults.plant(DESCRIBE_CONFIGS, held(gate), fits=is_of_topic)
    fakes.start("t", policy=policy)
    recreated_meanwhile(fakes, lambda: fakes.source.delete_topic("t"))
    gate.open()
    assert "does not exist" in fakes.run_until_paused("t")
    fakes.source.create_topic("t")
    fakes.write("t", NEW[0], len(NEW))
    fakes.run_to("t", len(NEW))
    assert fakes.numbers("t") == [*COPIED, *NEW]
