"""The fork of a failover, its loss, and the tail that the lost cluster has, between fake clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.dr.groups import GroupMove
from headrace.dr.loss import measured_loss
from headrace.dr.status import bytes_behind
from headrace.dr.tail import (
    REPLAYED_HEADER,
    TailReader,
    copy_tail,
    exported_ends,
    exported_records,
    forget_replays,
    marked,
    replay_sink,
)
from mirror.errors import InvalidRequest
from mirror.jobs.dr.fork import (
    Fork,
    Loss,
    LossLimit,
    PartitionLoss,
    TailDecision,
    accepted_limit,
    fork_of,
    loss_of,
    record_limit,
)
from mirror.jobs.dr.operation import Kind, Switchover
from mirror.jobs.groups.decision import FollowReason
from mirror.jobs.groups.record import FollowedGroup, FollowedPosition, GroupKeys, write_group
from mirror.jobs.stored_lanes import stored_lanes
from mirror.lane.ledger import Ledger
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.lane.rules import RoutingRules
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.topics import TopicPartition
from mirror.replication.connector import open_sink, open_source
from tests.fakes.broker.mirrored import MirroredFakes
from tests.unit.headrace.test_dr import DEFINITION

PLACE: Final = TopicPartition("t", 0)
TARGET: Final = ClusterRef("destination")
RULES: Final = RoutingRules(transforms=(marked("source"),), transform_names=("replay",))


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    """Return clusters with 20 records that have a checkpoint, and 5 copies that have none."""
    with closing(MirroredFakes(1)) as rig:
        rig.make_topic("t", replication=1)
        rig.write("t", 0, 20)
        rig.start("t", group="shared")
        rig.run_to("t", 20)
        rig.write("t", 20, 5)
        rig.run_until(lambda: len(rig.numbers("t")) == 25, "records are copied")
        rig.crash()
        rig.new_engine()
        yield rig


def lanes_of(fakes: MirroredFakes) -> dict[TopicPartition, LaneProgress]:
    found = fakes.context.run(stored_lanes(fakes.context, TARGET, "shared"))
    return {key.partition: lane for key, lane in found.items()}


def reader_of(fakes: MirroredFakes, fork: Fork | None = None) -> TailReader:
    if fork is None:
        found = fork_of("id", "source", 0, lanes_of(fakes), {PLACE: 25})
        fork = found.model_copy(update={"definitions": {"orders": DEFINITION}})
    return TailReader(fakes.context, fork, committed=True)


def settled(fakes: MirroredFakes) -> TailReader:
    reader = reader_of(fakes)
    return reader_of(fakes, fakes.context.run(reader.settle()))


def stored_groups(fakes: MirroredFakes) -> set[str]:
    log = fakes.context.progress(TARGET)
    fakes.context.run(log.read_all())
    return log.groups()


def replay(fakes: MirroredFakes, reader: TailReader, end: int) -> int:
    ranges = fakes.context.run(reader.ranges({PLACE: end}))
    return fakes.context.run(copy_tail(reader, ranges, replay_sink(reader, "destination"), RULES))


def test_copies_without_a_checkpoint_do_not_belong_to_the_tail(fakes: MirroredFakes) -> None:
    fakes.write("t", 25, 3)
    reader = reader_of(fakes)
    assert (reader.fork.copied, reader.fork.ends, reader.fork.log_ends) == (
        {"t": {0: 20}},
        {"t": {0: 20}},
        {"t": {0: 25}},
    )
    reader = settled(fakes)
    assert (reader.fork.copied, reader.fork.ends, reader.fork.log_ends) == (
        {"t": {0: 25}},
        {"t": {0: 25}},
        {},
    )
    (found,) = fakes.context.run(reader.list({PLACE: 28}))
    assert (found.first_offset, found.end_offset, found.records, found.expired) == (25, 28, 3, 0)
    assert found.from_ms == found.to_ms == fakes.clock.now_ms()


def test_records_of_other_writers_are_no_copies(fakes: MirroredFakes) -> None:
    fakes.target.write("t", fakes.records(90, 2))
    found = fork_of("id", "source", 0, lanes_of(fakes), {PLACE: 27})
    fork = found.model_copy(update={"definitions": {"orders": DEFINITION}})
    after = fakes.context.run(reader_of(fakes, fork).settle())
    assert (after.copied["t"][0], after.ends["t"][0]) == (25, 25)


def test_a_replay_that_is_killed_anywhere_writes_each_record_once(fakes: MirroredFakes) -> None:
    fakes.write("t", 25, 9)
    reader = settled(fakes)
    for steps in (1, 3, 10, 20, 40, 80, 160):
        context = fakes.context
        ranges = context.run(reader.ranges({PLACE: 34}))
        context.loop.spawn(copy_tail(reader, ranges, replay_sink(reader, "destination"), RULES))
        for _ in range(steps):
            context.loop.run_once(0.05)
        fakes.crash()
        fakes.new_engine()
        reader = reader_of(fakes, reader.fork)
    replay(fakes, reader, 34)
    assert fakes.numbers("t") == list(range(34))
    headers = [dict(one.headers).get(REPLAYED_HEADER) for one in fakes.copied("t")]
    assert headers == [*[None] * 25, *(b"source/%d" % offset for offset in range(25, 34))]
    assert replay(fakes, reader, 34) == 0
    decision = TailDecision(
        action=Kind.REPLAY, at_ms=0, operator="", selection=".*", records=9, ends={"t": {0: 34}}
    )
    name = f"dr-tail-{reader.fork.identity}-0"
    assert stored_groups(fakes) >= {name, "shared"}
    fakes.context.run(forget_replays(reader_of(fakes, reader.fork.after(decision)), "destination"))
    assert name not in stored_groups(fakes)
    assert "shared" in stored_groups(fakes)


def test_an_export_has_the_tail_and_continues(fakes: MirroredFakes, tmp_path: Path) -> None:
    fakes.write("t", 25, 4)
    reader = settled(fakes)
    counts = []
    for end in (27, 29, 29):
        sink = open_sink(f"file:{tmp_path}")
        ranges = fakes.context.run(reader.ranges({PLACE: end}))
        earlier = exported_ends(tmp_path, ranges)
        copied = fakes.context.run(copy_tail(reader, ranges, sink, RoutingRules()))
        sink.close()
        counts.append((copied, fakes.context.run(exported_records(tmp_path, ranges, earlier))))
    assert counts == [(2, 0), (2, 2), (0, 4)]

    async def read() -> list[bytes | None]:
        source = open_source(f"file:{tmp_path}")
        portions = [portion async for portion in source.read(PLACE, 25, 29)]
        return [one.value for portion in portions for one in portion.records]

    assert fakes.context.run(read()) == [b"25", b"26", b"27", b"28"]


def test_expired_records_of_the_tail_are_counted(fakes: MirroredFakes) -> None:
    fakes.write("t", 25, 5)
    reader = settled(fakes)
    fakes.source.log("t").delete_before(27)
    (found,) = fakes.context.run(reader.list({PLACE: 30}))
    assert (found.first_offset, found.records, found.expired) == (27, 3, 2)
    assert replay(fakes, reader, 30) == 3


def test_the_end_of_the_source_is_stored_with_the_checkpoint(fakes: MirroredFakes) -> None:
    assert lanes_of(fakes)[PLACE].source_end == 20
    target = fakes.context.cluster(TARGET)
    loss = fakes.context.run(measured_loss(target, [], lanes_of(fakes), {PLACE: 31}, {PLACE: 25}))
    (found,) = loss.partitions
    assert (found.first, found.end, found.least, found.most) == (20, 31, 6, 11)
    assert found.seconds is not None


def test_the_size_of_a_backlog_is_estimated_by_its_first_records(fakes: MirroredFakes) -> None:
    source = fakes.context.cluster(ClusterRef("source"))

    def size(*rows: dict[str, Any]) -> int | None:
        return fakes.context.run(
            bytes_behind(source, [{"topic": "t", "partition": 0, **one} for one in rows])
        )

    assert size({"lag_records": 0, "position": None}) == 0
    assert size({"lag_records": 5, "position": None}) is None
    assert size({"lag_records": None, "position": 20}) is None
    one, ten = size({"lag_records": 5, "position": 20}), size({"lag_records": 50, "position": 20})
    assert one
    assert ten == pytest.approx(10 * one, abs=10)


def test_groups_move_without_the_lost_cluster(fakes: MirroredFakes) -> None:
    keys = GroupKeys(GroupName("shared"), DatastreamName("orders"))
    stored = {"bill": 12, "bill-2": 30, "audit": 3, "busy-bill": 4, "bill-share": 7, "bill-streams": 8}

    async def store() -> None:
        log = fakes.context.progress(TARGET)
        await log.save(
            [(keys.of(name), write_group(a_group(name, offset))) for name, offset in stored.items()]
            + [(keys.of("bill-corrupt"), b"{")],
            fakes.clock.now_ms(),
        )

    fakes.context.run(store())
    fakes.source.take_down(1)
    fakes.target.group_states["busy-bill"] = ("Classic", "Stable")
    operation = Switchover(
        kind=Kind.FAILOVER,
        identity="",
        origin="source",
        target="destination",
        begun_ms=0,
        definitions={"orders": DEFINITION},
    )
    mover = GroupMove(fakes.context, operation, {}, {"orders": "orders"})
    groups, remarks = fakes.context.run(mover.move_stored("(busy-)?bill.*"))
    assert [(one.name, one.positions, one.read_again) for one in groups] == [
        ("bill", 1, None),
        ("bill-2", 1, None),
        ("bill-share", 1, None),
        ("bill-streams", 1, None),
    ]
    assert [one.may_redeliver for one in groups] == [False, False, True, False]
    assert (fakes.target.groups["bill"], fakes.target.groups["bill-2"]) == ({("t", 0): 12}, {("t", 0): 20})
    assert {"audit", "busy-bill"}.isdisjoint(fakes.target.groups)
    assert fakes.target.group_states["bill-share"] == ("Share", "Empty")
    assert fakes.target.groups["bill-share"] == {("t", 0): 7}
    assert [remark for remark in remarks if "bill-share" in remark and "again" in remark]
    assert [remark for remark in remarks if "busy-bill" in remark and "does not move" in remark]
    groups, remarks = fakes.context.run(mover.move_stored("nothing"))
    assert (groups, len(remarks)) == ([], 1)


def a_group(name: str, offset: int) -> FollowedGroup:
    position = FollowedPosition(offset, None, PLACE, FollowReason.CURRENT)
    kind = name.partition("-")[2] if name.startswith("bill-s") else "classic"
    return FollowedGroup(name, kind, positions={PLACE: position}, changed_ms=1)


LANE: Final = LaneProgress(Ledger(20), OffsetMap())


def test_unknown_ends_are_never_reported_as_no_loss() -> None:
    loss = loss_of([TopicPartition("u", 0)], {PLACE: LANE}, {}, {}, {})
    assert [(one.topic, one.least, one.most) for one in loss.partitions] == [("t", 0, None), ("u", 0, None)]
    assert loss.figure == "0-records+2-unknown"
    assert "unknown" in LossLimit(records=10**9, seconds=10**9).excess(loss)
    assert not LossLimit(unknown=2).excess(loss)


def lost(records: int, seconds: float | None) -> Loss:
    row = PartitionLoss(
        topic="t", partition=0, first=0, end=records, least=records, most=records, seconds=seconds
    )
    return Loss(partitions=(row,))


@pytest.mark.parametrize(
    ("limit", "is_exceeded"),
    [
        (LossLimit(records=9), True),
        (LossLimit(records=10), False),
        (LossLimit(seconds=1.0), True),
        (LossLimit(seconds=2.0), False),
        (LossLimit(), False),
    ],
)
def test_a_loss_is_compared_with_the_limit(limit: LossLimit, is_exceeded: bool) -> None:
    assert bool(limit.excess(lost(10, 1.5))) is is_exceeded


def test_an_unknown_time_exceeds_a_limit_in_seconds() -> None:
    assert LossLimit(seconds=10**9).excess(lost(1, None))
    assert not LossLimit(seconds=0.0).excess(Loss())


def test_only_the_figure_that_was_shown_is_accepted() -> None:
    assert accepted_limit("10-records", lost(10, None)) == LossLimit(records=10, unknown=0)
    for text in ("11-records", "10", "", "10-records+1-unknown", "x" * 10_000):
        with pytest.raises(InvalidRequest):
            accepted_limit(text, lost(10, None))


def test_a_limit_of_records_has_their_unit() -> None:
    assert record_limit("1000-records") == record_limit(" 1000 records ") == LossLimit(records=1000)
    assert record_limit("1-record") == LossLimit(records=1)
    for text in ("30s", "1000", "-1-records", "records", "1e3-records", "٣-records"):
        assert record_limit(text) is None
