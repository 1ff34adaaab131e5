"""Test the clock skew of brokers derived from append times of checkpoints; virtual time, one clock."""

from __future__ import annotations

from typing import Final

from mirror.model.identifiers import ClusterRef
from tests.fakes.broker.mirrored import MirroredFakes

DESTINATION: Final = ClusterRef("destination")


def copy_one(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.source.write("t", [(fakes.clock.now_ms(), b"k", b"v", [])], 0)
    fakes.start("t")
    fakes.run_to("t", 1)


def test_the_destination_stamps_checkpoints_and_of_the_source_nothing_is_known(fakes: MirroredFakes) -> None:
    assert not fakes.engine.clock_skews()
    copy_one(fakes)
    ((cluster, skew),) = fakes.engine.clock_skews().items()
    assert cluster == DESTINATION
    assert abs(skew.ahead_ms) <= skew.bound_ms
    fakes.run(600)
    assert not fakes.engine.clock_skews(), "no checkpoint was written for minutes"
