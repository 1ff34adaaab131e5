"""Test source brokers that announce responses and do not send them; in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from mirror.model.datastreams.lanes import LaneKey, LanePaused, PauseCause
from mirror.model.identifiers import ClusterRef
from tests.engines import specs
from tests.fakes.broker.batches import Content
from tests.fakes.broker.faults import Announce, Edit
from tests.fakes.broker.mirrored import MirroredFakes

FETCH, METADATA, LIST_OFFSETS = 1, 3, 2
OTHERS: Final = ("c", "d", "e")
GIB: Final = 2**30
BASE_OFFSET, LENGTH = slice(0, 8), slice(8, 12)
"""Fields of a batch header."""
LARGE: Final = 20_000_000
"""More than the memory of all lanes, less than the maximum size of a batch."""
MANY: Final = 600
"""Number of records of 300 bytes that do not fit into a small response."""
SMALL_MEMORY: Final[Mapping[str, Any]] = {"buffer_bytes": 2**21, "fetch_bytes": 2**20}


def lane_of(fakes: MirroredFakes, topic: str) -> LaneKey:
    (key,) = [key for key in fakes.engine.lanes.by_key if key.partition.topic == topic]
    return key


def large_records(fakes: MirroredFakes, first: int) -> list[Content]:
    """Return records with the numbers from `first` as values."""
    return [
        (at, key, b"%0300d" % int(value or b""), more) for at, key, value, more in fakes.records(first, MANY)
    ]


def attacked(new_fakes: Callable[..., MirroredFakes], fault: Announce, **options: Any) -> MirroredFakes:
    """Start a lane of a good source, and lanes of three sources that answer every fetch with the fault."""
    fakes = new_fakes(others=OTHERS, options={**SMALL_MEMORY, **options})
    fakes.make_topic("t")
    fakes.start("t")
    for name, cluster in fakes.others.items():
        cluster.create_topic(name, 1, 1)
        cluster.write(name, large_records(fakes, 0))
        fakes.target.create_topic(name, 1, 2)
        cluster.faults.plant(FETCH, fault, times=None)
        fakes.engine.start_lanes([replace(one, source=ClusterRef(name)) for one in specs(name)])
    fakes.run_until(
        lambda: all(one.faults.taken for one in fakes.others.values()), "each of them has announced something"
    )
    return fakes


def reasons(fakes: MirroredFakes, topic: str) -> list[tuple[str, PauseCause]]:
    key = lane_of(fakes, topic)
    return [(one.reason, one.cause) for one in fakes.events if isinstance(one, LanePaused) and one.key == key]


@pytest.mark.parametrize("seconds", [None, 0.1], ids=["silent", "trickling"])
@pytest.mark.parametrize(
    ("size", "kind"), [(GIB, "ResponseTooLarge"), (LARGE, "ResponseStalled")], ids=["1 GiB", "20 MB"]
)
def test_three_sources_that_announce_what_they_do_not_send_stop_no_lane_of_another(
    new_fakes: Callable[..., MirroredFakes], size: int, kind: str, seconds: float | None
) -> None:
    fakes = attacked(new_fakes, Announce(size, seconds))
    began = fakes.clock.monotonic()
    for first in range(0, 4 * MANY, MANY):
        fakes.source.write("t", large_records(fakes, first))
        fakes.run_to("t", first + MANY)
    assert fakes.clock.monotonic() - began < 5, "the good lane is not delayed"
    for name in OTHERS:
        fakes.run_until(partial(reasons, fakes, name), f"{name} reports what it waits for")
        reason, cause = reasons(fakes, name)[0]
        assert kind in reason
        assert cause is PauseCause.SOURCE_AWAY
    assert not reasons(fakes, "t")
    fakes.check_contents("t")


@pytest.mark.parametrize("seconds", [None, 0.1], ids=["silent", "trickling"])
@pytest.mark.parametrize("size", [GIB, LARGE])
def test_memory_that_was_announced_comes_back_and_the_lanes_continue(
    new_fakes: Callable[..., MirroredFakes], size: int, seconds: float | None
) -> None:
    fakes = attacked(new_fakes, Announce(size, seconds))
    for one in fakes.others.values():
        one.faults.clear()
    for name in OTHERS:
        fakes.run_to(name, MANY)
        assert fakes.numbers(name) == list(range(MANY))
    fakes.run(1)
    assert (fakes.context.budget.used, fakes.context.live_budget.used) == (0, 0)


@pytest.mark.parametrize("api", [METADATA, LIST_OFFSETS])
def test_answers_about_one_cluster_wait_for_no_other_cluster(
    new_fakes: Callable[..., MirroredFakes], api: int
) -> None:
    fakes = new_fakes(others=("c",))
    fakes.others["c"].create_topic("c", 1, 1)
    fakes.others["c"].faults.plant(api, Announce(3_000_000), times=None)
    fakes.engine.start_lanes([replace(one, source=ClusterRef("c")) for one in specs("c")])
    fakes.run_until(lambda: fakes.others["c"].faults.taken, "it has announced a response")
    fakes.make_topic("t", 2000)
    fakes.write("t", 0, 10, 1999)
    began = fakes.clock.monotonic()
    fakes.start("t", 2000)
    fakes.run_to("t", 10, 1999)
    assert fakes.clock.monotonic() - began < 5


@pytest.mark.parametrize("field", [LENGTH, BASE_OFFSET])
def test_a_batch_with_an_impossible_header_stops_no_other_lane(fakes: MirroredFakes, field: slice) -> None:
    """The checksum covers neither the length nor the base offset."""

    def change(answer: Any) -> None:
        for topic in answer.responses:
            for part in topic.partitions:
                if part.partition_index == 1 and part.records:
                    part.records = b"%b%b%b" % (
                        bytes(part.records)[: field.start],
                        b"\x7f" + b"\xff" * (field.stop - field.start - 1),
                        bytes(part.records)[field.stop :],
                    )

    fakes.make_topic("t", 2)
    fakes.source.faults.plant(FETCH, Edit(change), times=None)
    for number in range(2):
        fakes.write("t", 0, 10, number)
    fakes.start("t", 2)
    fakes.run_to("t", 10, 0)
    fakes.run_until_paused("t", 1)
    fakes.write("t", 10, 10, 0)
    fakes.run_to("t", 20, 0)
    fakes.source.faults.clear()
    fakes.run_to("t", 10, 1)
    fakes.check("t", 2)
