"""Test that another cluster at the source's address is not copied."""

from __future__ import annotations

import pytest

from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.policy import CopyPolicy, OnLoss
from mirror.protocol.fetch import API as FETCH
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.faults import Run
from tests.fakes.broker.mirrored import MirroredFakes

ON_LOSS = pytest.mark.parametrize("on_loss", OnLoss)


def rename(cluster: FakeCluster, name: str) -> None:
    """Change the cluster id; topic ids and records stay the same."""
    for broker in cluster.brokers:
        cluster.take_down(broker)
    cluster.name = name
    for broker in cluster.brokers:
        cluster.bring_up(broker)


def fetched(fakes: MirroredFakes) -> list[str]:
    """Return a list that collects fetch requests from now on."""
    found: list[str] = []
    fakes.source.faults.plant(FETCH, Run(lambda: found.append("fetch")), times=None)
    return found


@ON_LOSS
def test_a_running_lane_reads_nothing_of_another_cluster(fakes: MirroredFakes, on_loss: OnLoss) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=CopyPolicy(on_loss=on_loss))
    fakes.run_to("t", 20)
    rename(fakes.source, "another")
    reads = fetched(fakes)
    fakes.write("t", 20, 5)
    reason = fakes.run_until_paused("t")
    fakes.run(60.0)
    assert (reads, fakes.numbers("t"), "another" in reason) == ([], list(range(20)), True)
    fakes.source.faults.clear()
    rename(fakes.source, "a")
    fakes.run_to("t", 25)
    fakes.check("t")


def test_an_engine_that_expects_a_source_reads_no_other(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    reads = fetched(fakes)
    fakes.start("t", source_id="former")
    reason = fakes.run_until_paused("t")
    assert (reads, fakes.numbers("t"), "former" in reason) == ([], [], True)


def test_a_source_that_has_an_id_cannot_withhold_it_later(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", source_id="a")
    fakes.run_to("t", 20)
    rename(fakes.source, "")
    reads = fetched(fakes)
    fakes.write("t", 20, 5)
    fakes.run_until_paused("t")
    assert (reads, fakes.numbers("t")) == ([], list(range(20)))


@ON_LOSS
def test_stored_progress_of_another_source_is_no_position_here(fakes: MirroredFakes, on_loss: OnLoss) -> None:
    """The topic has the same id in both clusters."""
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t")
    fakes.run_to("t", 20)
    fakes.stop()
    rename(fakes.source, "another")
    fakes.write("t", 20, 5)
    fakes.new_engine()
    fakes.start("t", policy=CopyPolicy(on_loss=on_loss), source_id="another")
    if on_loss is OnLoss.HALT:
        assert "another" in fakes.run_until_paused("t")
        assert fakes.numbers("t") == list(range(20))
        assert fakes.lane("t").state is LaneState.PAUSED
    else:
        fakes.run_to("t", 25)
        assert fakes.numbers("t") == [*range(20), *range(25)]
