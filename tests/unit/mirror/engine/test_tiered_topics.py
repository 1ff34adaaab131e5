"""Test lanes that read segments from remote storage (KIP-405); in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.client.log_reader import fetch_once
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE
from tests.fakes.broker.faults import HandledRequest, Run
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.remote_segments import delay_segments

FETCH, RECORDS = 1, 30


def fill(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    for first in range(0, RECORDS, 5):
        fakes.write("t", first, 5)


def test_a_lane_copies_segments_that_arrive_late(fakes: MirroredFakes) -> None:
    fill(fakes)
    delay_segments(fakes.source, "t", 10)
    fakes.start("t")
    fakes.run_to("t", RECORDS)
    fakes.check("t")
    assert not fakes.pauses(fakes.lane("t").key)


@pytest.mark.parametrize("is_source", [True, False])
def test_a_new_owner_waits_for_segments_that_arrive_late(
    new_fakes: Callable[..., MirroredFakes], is_source: bool
) -> None:
    fakes = new_fakes(checkpoint_seconds=1_000.0)
    fill(fakes)
    fakes.start("t")
    fakes.run_until(lambda: len(fakes.copied("t")) == RECORDS, "the records are copied")
    delay_segments(fakes.source if is_source else fakes.target, "t", 3)
    fakes.restart("t")
    fakes.run_until(lambda: fakes.lane("t").checkpoint == RECORDS, "the lane continues")
    assert fakes.numbers("t") == list(range(RECORDS))


@pytest.mark.parametrize(("is_remote", "requests"), [(True, 10), (False, 2)])
def test_an_empty_response_ends_a_log_that_is_on_disk(
    fakes: MirroredFakes, is_remote: bool, requests: int
) -> None:
    """A compacted tail has no records, and none arrive; a segment in remote storage arrives later."""
    fill(fakes)
    sent: list[HandledRequest] = []

    def is_noted(asked: HandledRequest) -> bool:
        sent.append(asked)
        return False

    fakes.source.faults.plant(FETCH, Run(lambda: None), fits=is_noted)
    if is_remote:
        delay_segments(fakes.source, "t", 9)
    else:
        fakes.source.log("t").compact(RECORDS - 1, None)
    read = fetch_once(fakes.context.cluster(SOURCE), TopicPartition("t", 0), RECORDS - 5, committed=False)
    part = fakes.context.run(read)
    assert bool(part.records) is is_remote
    assert part.high_watermark == RECORDS
    assert len(sent) == requests
