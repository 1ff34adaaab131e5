"""Test the translation of a consumer group's positions and the requests for it; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from structlog.typing import EventDict

from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import NotAuthorized, NotFound, NothingStored, TimedOut, Unreachable
from mirror.jobs.groups.source import with_kind
from mirror.jobs.translate_job import (
    GONE,
    NOT_MIRRORED,
    NOTHING_YET,
    UNCHANGED,
    PositionMove,
    TranslateJob,
    apply_translation,
    group_positions,
    plan_translation,
)
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.faults import Code, Delay, Drop
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.virtual import VirtualSelector

LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR = 2, 9, 10
NO_RIGHTS = 30
PROGRESS = "headrace-progress"
TIMEOUT_SECONDS = 10.0


@pytest.fixture
def copied(fakes: MirroredFakes) -> MirroredFakes:
    """Return clusters between which 20 records were copied, with the engine stopped."""
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", group="orders")
    fakes.run_to("t", 20)
    fakes.stop()
    fakes.source.groups["billing"] = {("t", 0): 12, ("other", 0): 3}
    return fakes


@pytest.fixture
def bench(copied: MirroredFakes) -> Iterator[EngineContext]:
    access = {
        SOURCE: ClusterAccess(endpoints(copied.source.address)),
        DESTINATION: ClusterAccess(endpoints(copied.target.address)),
    }
    with closing(
        EngineContext(
            access.__getitem__,
            CopyingOptions(request_timeout_seconds=TIMEOUT_SECONDS),
            EngineIdentity("test"),
            copied.clock,
            VirtualSelector(copied.clock, [copied.source, copied.target]),
        )
    ) as made:
        made.loop.new_socket = copied.network.socket
        yield made


def a_job(group: str = "billing", *, back: bool = False) -> TranslateJob:
    return TranslateJob("orders", SOURCE, DESTINATION, group, back=back)


def shown(moves: list[PositionMove]) -> list[tuple[str, int, str, str]]:
    return [(str(move.origin), move.becomes, move.precision, move.skipped) for move in moves]


def test_the_positions_of_both_sides_are_read(copied: MirroredFakes, bench: EngineContext) -> None:
    copied.target.groups["billing"] = {("t", 0): 12}
    there = [("other-0", -1, "", NOT_MIRRORED), ("t-0", 12, "exact", UNCHANGED)]
    assert shown(bench.run(plan_translation(bench, a_job()))) == there
    assert shown(bench.run(plan_translation(bench, a_job(back=True)))) == there[1:]
    found = bench.run(group_positions(bench, a_job()))
    assert (found.origin, found.target) == ({("t", 0): 12, ("other", 0): 3}, {("t", 0): 12})


def test_positions_are_translated_after_the_progress_topic_got_more_partitions(
    copied: MirroredFakes, bench: EngineContext, logged: list[EventDict]
) -> None:
    copied.make_topic("wide", 6)
    copied.new_engine()
    for number in range(6):
        copied.write("wide", 0, 10, number)
    copied.start("wide", 6, group="orders")
    for number in range(6):
        copied.run_to("wide", 10, number)
    copied.stop()
    copied.target.grow_topic(PROGRESS, 16)
    copied.restart("wide", 6, group="orders")
    for number in range(0, 6, 2):
        copied.write("wide", 10, 5, number)
        copied.run_to("wide", 15, number)
    copied.stop()
    positions = {("wide", number): 12 if number % 2 == 0 else 7 for number in range(6)}
    copied.source.groups["billing"] = dict(positions)
    moves = bench.run(plan_translation(bench, a_job()))
    assert shown(moves) == [(f"wide-{n}", offset, "exact", "") for (_, n), offset in positions.items()]
    assert [one for one in logged if (one.get("topic"), one.get("partitions")) == (PROGRESS, 16)]


def test_a_copy_that_was_deleted_since_translates_nothing(
    copied: MirroredFakes, bench: EngineContext
) -> None:
    copied.target.delete_topic("t")
    assert shown(bench.run(plan_translation(bench, a_job())))[1] == ("t-0", -1, "", GONE)
    copied.target.create_topic("t", 1, 2)
    assert shown(bench.run(plan_translation(bench, a_job())))[1] == ("t-0", -1, "", GONE)


def test_a_position_beyond_the_last_checkpoint_is_behind(copied: MirroredFakes, bench: EngineContext) -> None:
    copied.source.groups["billing"] = {("t", 0): 20, ("t", 1): 3, ("other", 0): 3}
    plans = [bench.run(plan_translation(bench, a_job()))]
    copied.source.groups["billing"] = {("t", 0): 21}
    plans.append(bench.run(plan_translation(bench, a_job())))
    told = [
        [(str(one.origin), one.becomes, one.behind, one.is_left_behind) for one in plan] for plan in plans
    ]
    assert told == [
        [("other-0", -1, False, False), ("t-0", 20, False, False), ("t-1", -1, True, True)],
        [("t-0", 20, True, False)],
    ]


def test_an_empty_partition_is_translated_while_nothing_has_come(
    copied: MirroredFakes, bench: EngineContext
) -> None:
    copied.make_topic("empty")
    copied.target.write("empty", copied.records(0, 7), 0)
    copied.new_engine()
    copied.start("empty", group="orders")
    copied.run(2.0)
    copied.stop()
    copied.source.groups["billing"] = {("empty", 0): 0}
    assert shown(bench.run(plan_translation(bench, a_job()))) == [("empty-0", 7, "end", "")]
    copied.write("empty", 0, 1)
    # The new record may have been copied already, to an offset of 7 or less.
    (left,) = bench.run(plan_translation(bench, a_job()))
    assert (left.becomes, left.skipped, left.behind) == (-1, NOTHING_YET, True)
    copied.source.faults.plant(LIST_OFFSETS, Drop(), times=None)
    copied.target.groups["billing"] = {("empty", 0): 3}
    (back,) = bench.run(plan_translation(bench, a_job(back=True)))
    assert (back.becomes, back.precision, back.skipped, back.present) == (0, "end", UNCHANGED, 0)


def test_what_nobody_has_committed_or_stored_is_said(bench: EngineContext) -> None:
    with pytest.raises(NotFound, match=r"\bnobody\b.*\bsource\b"):
        bench.run(plan_translation(bench, a_job("nobody")))
    with pytest.raises(NotFound, match="on destination"):
        bench.run(plan_translation(bench, a_job(back=True)))
    with pytest.raises(NothingStored, match="others"):
        bench.run(plan_translation(bench, TranslateJob("others", SOURCE, DESTINATION, "billing")))


@pytest.mark.parametrize("back", [False, True])
def test_a_share_group_is_translated_by_its_start_offset(
    copied: MirroredFakes, bench: EngineContext, back: bool
) -> None:
    here, there = (copied.target, copied.source) if back else (copied.source, copied.target)
    here.groups["billing"] = {("t", 0): 12}
    here.group_states["billing"] = ("Share", "Empty")
    there.groups.pop("billing", None)
    job = bench.run(with_kind(bench, a_job(back=back)))
    moves = bench.run(plan_translation(bench, job))
    assert shown(moves) == [("t-0", 12, "exact", "")]
    assert bench.run(apply_translation(bench, job, moves)) == 1
    assert there.group_states["billing"] == ("Share", "Empty")
    assert there.groups["billing"] == {("t", 0): 12}


def test_a_group_that_may_not_be_read_is_named(copied: MirroredFakes, bench: EngineContext) -> None:
    copied.source.faults.plant(OFFSET_FETCH, Code(NO_RIGHTS), times=None)
    with pytest.raises(NotAuthorized, match="group billing"):
        bench.run(group_positions(bench, a_job()))


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_that_hangs_up_is_away_before_the_deadline(
    copied: MirroredFakes, bench: EngineContext, side: str
) -> None:
    getattr(copied, side).faults.plant(FIND_COORDINATOR, Drop(), times=None)
    with pytest.raises(Unreachable) as caught:
        bench.run(group_positions(bench, a_job()), 2 * TIMEOUT_SECONDS)
    assert not isinstance(caught.value, TimedOut)


def test_what_takes_longer_than_its_deadline_is_given_up(copied: MirroredFakes, bench: EngineContext) -> None:
    copied.source.faults.plant(OFFSET_FETCH, Delay(5.0), times=None)
    began = copied.clock.monotonic()
    with pytest.raises(TimedOut, match=r"source, destination .* within 4 s"):
        bench.run(group_positions(bench, a_job()), 4.0)
    assert copied.clock.monotonic() - began == pytest.approx(4.0)
