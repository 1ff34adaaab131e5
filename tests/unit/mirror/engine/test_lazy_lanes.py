"""Test that stored lanes that are parsed after each checkpoint equal lanes that are parsed as a whole."""

from __future__ import annotations

from contextlib import closing

from mirror.jobs.groups.lazy_lanes import LazyLanes
from mirror.lane.offset_map import CHUNK
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import CopyPolicy, OnLoss
from mirror.model.topics import TopicPartition, TopicSelection
from tests.fakes.broker.mirrored import MirroredFakes
from tests.unit.mirror.engine.test_group_following import STATE, Following

KEY = LaneKey(STATE, TopicPartition("t", 0))


def test_an_offset_map_is_extended_by_each_checkpoint(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.start("t", group="orders")
    following = Following(fakes)
    lanes = LazyLanes(following.log, STATE, TopicSelection("t"))

    def write(transactions: int) -> None:
        """Write records, each followed by a marker that is not copied, and so a run of the map for each."""
        for number in range(transactions):
            fakes.source.write_in_transaction("t", fakes.records(number, 1), commit=True)
        fakes.run_to("t", fakes.source.log("t").end)

    def runs() -> list[tuple[int, int, int]]:
        following.context.run(following.log.catch_up())
        lanes.refresh_if_grown()
        return list(lanes[KEY].offset_map)

    def stored() -> list[tuple[int, int, int]]:
        found = following.log.stored(KEY)
        assert found is not None
        return list(found.offset_map)

    with closing(following.context):
        for transactions in (10, 1, CHUNK // 2, 2 * CHUNK, 3, CHUNK):
            write(transactions)
            assert runs() == stored()
        assert len(runs()) > 3 * CHUNK
        fakes.stop()
        fakes.target.log("t").truncate(CHUNK + 7)
        fakes.restart("t", group="orders", policy=CopyPolicy(on_loss=OnLoss.CONTINUE))
        write(5)
        assert runs() == stored()
        assert len(runs()) < 2 * CHUNK
