"""Test that another cluster at the destination's address receives no records and no topics."""

from __future__ import annotations

import pytest

from mirror.errors import UnexpectedCluster
from mirror.jobs.copy_job import CopyJob, plan_copy
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from mirror.protocol.produce import API as PRODUCE
from tests.fakes.broker.faults import Gate, Hold, Run
from tests.fakes.broker.mirrored import MirroredFakes

METADATA, API_VERSIONS = 3, 18
GUARANTEES = pytest.mark.parametrize("guarantee", Guarantee)


def replace_target(fakes: MirroredFakes) -> None:
    """Replace the destination by another cluster with topics of the same names."""
    for broker in fakes.target.brokers:
        fakes.target.take_down(broker)
    fakes.target.name = "another"
    for broker in fakes.target.brokers:
        fakes.target.bring_up(broker)


def written(fakes: MirroredFakes) -> list[str]:
    """Return a list that collects produce requests from now on."""
    found: list[str] = []
    fakes.target.faults.plant(PRODUCE, Run(lambda: found.append("produce")), times=None)
    return found


@GUARANTEES
def test_a_running_lane_writes_nothing_to_another_cluster(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    policy = CopyPolicy(guarantee=guarantee, on_loss=OnLoss.CONTINUE)
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=policy)
    fakes.run_to("t", 20)
    replace_target(fakes)
    writes = written(fakes)
    fakes.write("t", 20, 5)
    reason = fakes.run_until_paused("t")
    fakes.run(60.0)
    assert (writes, "another" in reason) == ([], True)
    assert "on_loss" not in reason
    fakes.target.faults.clear()
    for broker in fakes.target.brokers:
        fakes.target.take_down(broker)
    fakes.target.name = "b"
    for broker in fakes.target.brokers:
        fakes.target.bring_up(broker)
    fakes.run_to("t", 25)
    fakes.check("t")


@pytest.mark.parametrize("unanswered", [API_VERSIONS, METADATA])
def test_an_engine_that_ends_while_it_connects_leaves_no_connection_open(
    fakes: MirroredFakes, unanswered: int
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t")
    fakes.run_to("t", 20)
    for cluster in (fakes.source, fakes.target):
        cluster.faults.plant(unanswered, Hold(Gate()), times=None)
        for broker in cluster.brokers:
            cluster.take_down(broker)
            cluster.bring_up(broker)
    fakes.run(1.0)
    assert fakes.network.open_clients
    fakes.crash()
    assert not fakes.network.open_clients


def test_an_engine_that_expects_a_cluster_creates_nothing_at_another(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    writes = written(fakes)
    fakes.start("t", destination_id="former")
    reason = fakes.run_until_paused("t")
    assert (writes, list(fakes.target.topics)) == ([], ["t"])
    assert "former" in reason


def test_a_copy_whose_progress_is_of_another_cluster_is_refused_before_anything_is_created(
    fakes: MirroredFakes,
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t")
    fakes.run_to("t", 20)
    fakes.stop()
    fakes.target.name = "another"
    fakes.new_engine()
    fakes.source.create_topic("u", 1)
    job = CopyJob("g-t", ClusterRef("source"), ClusterRef("destination"), TopicSelection("t|u"))
    with pytest.raises(UnexpectedCluster) as refused:
        fakes.context.run(plan_copy(fakes.context, job))
    assert "(another)" in str(refused.value)
    assert "expected b" in str(refused.value)
    assert "u" not in fakes.target.topics
