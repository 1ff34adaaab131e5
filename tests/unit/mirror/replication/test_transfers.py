"""Test transfers between a fake cluster and files, in virtual time.

The process is killed at every round of its loop; no record may be lost or duplicated.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import Refused, TopicMissing
from mirror.jobs.transfer_job import Transfer, TransferJob, TransferLane
from mirror.lane.rules import RoutingRules
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import OnLoss
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.protocol.batches.records import Record
from mirror.replication.connector import CommitRule, RecordPortion, RecordSink, RecordSource
from mirror.replication.connectors.files import FileSink, FileSource
from mirror.replication.connectors.kafka import KafkaSink, KafkaSource
from mirror.replication.connectors.landing_folder import files_in, folder_of
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.fakes.broker.batches import Content
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Delay
from tests.fakes.broker.memory import Network
from tests.fakes.broker.virtual import Killed, VirtualSelector
from tests.fakes.clock import ManualClock

CLUSTER = ClusterRef("cluster")
SMALL = CommitRule(20, 1.0)
"""Rule that commits every few records."""
RECORDS = 12


class Rig:
    """A fake cluster with topic `t`, a folder, and the contexts of successive processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.network = Network()
        self.cluster = FakeCluster("c", 1, self.clock, network=self.network)
        self.benches: list[EngineContext] = []
        self.sinks: list[RecordSink] = []
        self.options: dict[str, Any] = {}
        self.transfer: Transfer

    def use_cluster(self, level: int, **options: Any) -> None:
        """Replace the cluster by an empty one with this transaction protocol, and set options."""
        self.cluster.close()
        self.cluster = FakeCluster("d", 1, self.clock, network=self.network, transaction_level=level)
        self.options = options

    def write(self, first: int, count: int, topic: str = "t") -> None:
        """Write one batch."""
        self.cluster.write(topic, [self.content(n) for n in range(first, first + count)])

    def content(self, number: int) -> Content:
        return (self.clock.now_ms(), b"key", b"value %d" % number, [("h", b"x")])

    def new_bench(self) -> EngineContext:
        """Return the context of a new process."""
        self.selector = VirtualSelector(self.clock, [self.cluster])
        bench = EngineContext(
            {CLUSTER: ClusterAccess(endpoints(self.cluster.address))}.__getitem__,
            CopyingOptions(**self.options),
            EngineIdentity("test"),
            self.clock,
            self.selector,
        )
        bench.loop.new_socket = self.network.socket
        self.benches.append(bench)
        return bench

    def land(self, rule: CommitRule = SMALL, **job: Any) -> Callable[[EngineContext], Transfer]:
        """Return a factory of transfers from the cluster to the folder."""

        def make(bench: EngineContext) -> Transfer:
            return self._made(bench, KafkaSource(bench.cluster(CLUSTER)), FileSink(self.root, rule), job)

        return make

    def replay(self, **job: Any) -> Callable[[EngineContext], Transfer]:
        """Return a factory of transfers from the folder to topic `copy.t` of the cluster."""

        def make(bench: EngineContext) -> Transfer:
            sink = _Impatient(bench, CLUSTER, GroupName("replay"))
            return self._made(bench, FileSource(self.root), sink, {"naming": TopicNaming("copy.*"), **job})

        return make

    def _made(
        self, bench: EngineContext, source: RecordSource, sink: RecordSink, job: dict[str, Any]
    ) -> Transfer:
        self.sinks.append(sink)
        self.transfer = Transfer(
            bench.loop,
            source,
            sink,
            TransferJob(**{"selection": TopicSelection("t"), "until_end": True, **job}),
        )
        return self.transfer

    def run(self, make: Callable[[EngineContext], Transfer], rounds: int | None = None) -> list[TransferLane]:
        """Run a transfer in a new process, which is killed after this number of rounds of its loop."""
        bench = self.new_bench()
        self.selector.rounds_to_live = rounds
        try:
            transfer = make(bench)
            bench.run(transfer.prepare())
            bench.run(transfer.run())
            return transfer.lanes
        finally:
            self.selector.rounds_to_live = None
            for sink in self.sinks:
                sink.close()
            bench.close()

    def landed(self) -> list[bytes | None]:
        """Return the values that a reader of the files sees, in order."""
        place, source, bench = TopicPartition("t", 0), FileSource(self.root), self.new_bench()

        async def read() -> list[Record]:
            bounds = (await source.bounds([place]))[place]
            read = source.read(place, bounds.first, bounds.end)
            return [one async for part in read for one in part.records]

        found = bench.run(read())
        bench.close()
        return [record.value for record in found]

    def replayed(self) -> list[bytes | None]:
        """Return the values that a consumer of committed records sees."""
        return [one.value for one in committed(self.cluster.log("copy.t"))]


class _Impatient(KafkaSink):
    commit_rule = SMALL


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "landing")
    made.cluster.create_topic("t", 1, 1)
    for first in range(0, RECORDS, 3):
        made.write(first, 3)
    yield made
    made.cluster.close()


VALUES = [b"value %d" % n for n in range(RECORDS)]


def killed_at_every(rig: Rig, make: Callable[[EngineContext], Transfer], step: int) -> int:
    """Run processes that are killed later and later until one completes; return their number."""
    for number in itertools.count(1):
        try:
            lanes = rig.run(make, rounds=number * step)
        except Killed:
            continue
        assert [lane.reason for lane in lanes] == [""]
        return number
    raise AssertionError("no process completed")


def test_landing_that_is_killed_again_and_again_is_whole(rig: Rig) -> None:
    assert killed_at_every(rig, rig.land(), step=1) > 20
    assert rig.landed() == VALUES
    assert len(files_in(folder_of(rig.root, TopicPartition("t", 0)), "avro")) == 4


def test_replay_that_is_killed_again_and_again_is_whole(rig: Rig) -> None:
    rig.run(rig.land())
    assert killed_at_every(rig, rig.replay(), step=1) > 20
    assert rig.replayed() == VALUES


def test_old_brokers_take_a_replay(rig: Rig) -> None:
    rig.run(rig.land())
    rig.use_cluster(0)
    (lane,) = rig.run(rig.replay())
    assert lane.is_complete
    assert rig.replayed() == VALUES


def test_a_second_run_continues_and_a_third_has_nothing_to_do(rig: Rig) -> None:
    (first,) = rig.run(rig.land())
    assert (first.start, first.committed, first.end, first.settled.records) == (0, 12, 12, 12)
    rig.write(12, 3)
    (second,) = rig.run(rig.land())
    assert (second.start, second.committed, second.settled.records) == (12, 15, 3)
    (third,) = rig.run(rig.land())
    assert (third.is_complete, third.settled.records) == (True, 0)
    assert rig.landed() == [b"value %d" % n for n in range(15)]


def test_records_of_aborted_transactions_do_not_land(rig: Rig) -> None:
    rig.cluster.write_in_transaction("t", [rig.content(100)], commit=False)
    rig.cluster.write_in_transaction("t", [rig.content(12)], commit=True)
    rig.write(13, 1)
    rig.run(rig.land())
    assert rig.landed() == [*VALUES, b"value 12", b"value 13"]


def test_what_an_open_transaction_holds_back_lands_later(rig: Rig) -> None:
    end = rig.cluster.write_in_transaction("t", [rig.content(12)])
    rig.write(13, 1)
    rig.run(rig.land())
    assert rig.landed() == VALUES
    end(commit=True)
    rig.run(rig.land())
    assert rig.landed() == [*VALUES, b"value 12", b"value 13"]


def test_a_transform_changes_and_drops_what_lands(rig: Rig) -> None:
    def odd(record: Record) -> Record | None:
        number = int((record.value or b"").split()[-1])
        return record._replace(value=b"odd %d" % number) if number % 2 else None

    (lane,) = rig.run(rig.land(rules=RoutingRules(transforms=(odd,), transform_names=("odd",))))
    assert rig.landed() == [b"odd %d" % n for n in range(1, RECORDS, 2)]
    assert (lane.settled.records, lane.settled.filtered) == (6, 6)


def test_records_that_are_gone_halt_it_or_are_said(rig: Rig) -> None:
    rig.run(rig.land())
    rig.write(12, 3)
    rig.cluster.partition("t").log.delete_before(14)
    (halted,) = rig.run(rig.land())
    assert "12 to 13 of t-0" in halted.reason
    assert not halted.is_complete
    (lane,) = rig.run(rig.land(on_loss=OnLoss.CONTINUE))
    (gap,) = lane.gaps
    assert "12 to 13 of t-0" in gap
    assert rig.landed() == [*VALUES, b"value 14"]


def replayed_classes(rig: Rig) -> dict[str, int]:
    """Return the stored ledger of the replay by class, without zeros."""
    key, bench = LaneKey(GroupName("replay"), TopicPartition("copy.t", 0)), rig.new_bench()
    progress = bench.run(bench.progress(CLUSTER).load([key]))[key]
    bench.close()
    assert progress is not None
    return {name: count for name, count in progress.ledger.by_class().items() if count}


def test_the_ledger_of_a_replay_tells_holes_from_what_was_filtered_or_lost(rig: Rig) -> None:
    def dropped(record: Record) -> Record | None:
        return None if record.offset in (1, 2, 5) else record

    rules = RoutingRules(transforms=(dropped,), transform_names=("dropped",))
    rig.cluster.write_in_transaction("t", [rig.content(100)], commit=False)  # offsets 12 and 13 are holes
    rig.write(14, 3)
    rig.run(rig.land())
    rig.run(rig.replay(rules=rules))
    assert replayed_classes(rig) == {"mirrored": 12, "filtered": 3, "compacted": 2}
    rig.write(17, 3)
    rig.run(rig.land())
    rig.write(20, 3)
    rig.run(rig.land())
    for file in files_in(folder_of(rig.root, TopicPartition("t", 0)), "avro")[:-1]:
        file.path.unlink()
    (lane,) = rig.run(rig.replay(rules=rules, on_loss=OnLoss.CONTINUE))
    assert (lane.committed, len(lane.gaps)) == (23, 1)
    assert replayed_classes(rig) == {"mirrored": 15, "filtered": 3, "compacted": 2, "lost": 3}


class _Hasty(FileSource):
    """A faulty connector, which ends before the last file."""

    async def read(self, place: TopicPartition, start: int, end: int) -> AsyncGenerator[RecordPortion, None]:
        last = files_in(folder_of(self._root, place), "avro")[-1]
        async for portion in super().read(place, start, end):
            if portion.span.first < last.first:
                yield portion


def test_offsets_that_a_source_did_not_show_are_no_hole(rig: Rig) -> None:
    rig.run(rig.land())

    def make(bench: EngineContext) -> Transfer:
        sink = _Impatient(bench, CLUSTER, GroupName("replay"))
        return rig._made(bench, _Hasty(rig.root), sink, {"naming": TopicNaming("copy.*")})

    (lane,) = rig.run(make)
    assert lane.is_over
    assert (lane.is_complete, lane.committed) == (False, 9)
    assert "9" in lane.reason
    assert replayed_classes(rig) == {"mirrored": 9}
    (lane,) = rig.run(rig.replay())
    assert lane.is_complete
    assert replayed_classes(rig) == {"mirrored": 12}


def test_another_topic_of_the_name_is_not_mixed_in(rig: Rig) -> None:
    rig.run(rig.land())
    rig.cluster.recreate_topic("t")
    rig.write(0, 20)
    (lane,) = rig.run(rig.land())
    assert re.search(r"\bt-0\b.*\b12\b", lane.reason)
    assert rig.landed() == VALUES


def test_it_begins_at_the_end_where_it_is_told_to(rig: Rig) -> None:
    (lane,) = rig.run(rig.land(start=StartPosition.LATEST))
    assert (lane.start, lane.settled.records) == (12, 0)
    rig.write(12, 1)
    rig.run(rig.land(start=StartPosition.LATEST))
    assert rig.landed() == [b"value 12"]


def test_it_refuses_what_has_no_position_where_one_is_asked_for(rig: Rig) -> None:
    (lane,) = rig.run(rig.land(needs_position=True))
    assert re.match(r"t-0\b.*\bposition\b", lane.reason)


def test_nothing_that_matches_is_said(rig: Rig) -> None:
    with pytest.raises(TopicMissing, match=r"\bu\b"):
        rig.run(rig.land(selection=TopicSelection("u")))


def test_one_bad_partition_touches_no_other(rig: Rig) -> None:
    rig.cluster.create_topic("u", 1, 1)
    rig.write(0, 5, "u")
    folder = folder_of(rig.root, TopicPartition("u", 0))
    folder.mkdir(parents=True)
    (folder / ".position.json").write_text("damaged")
    good, bad = rig.run(rig.land(selection=TopicSelection("t|u")))
    assert good.is_complete
    assert re.search(r"\.position\.json\b.*\bdamaged\b", bad.reason)
    assert rig.landed() == VALUES


def test_it_follows_a_topic_until_it_is_stopped(rig: Rig) -> None:
    bench = rig.new_bench()
    transfer = rig.land(CommitRule(10**9, 60.0), until_end=False)(bench)
    bench.run(transfer.prepare())
    running = bench.loop.spawn(transfer.run())

    def run_until(condition: Callable[[], object]) -> None:
        while not condition():
            bench.loop.run_once(1)

    run_until(lambda: transfer.lanes[0].read_to == 12)
    assert rig.landed() == []
    rig.write(12, 3)
    run_until(lambda: transfer.lanes[0].committed == 15)  # a file is also due when its time is over
    rig.write(15, 1)
    run_until(lambda: transfer.lanes[0].read_to == 16)
    transfer.stop()
    run_until(lambda: running.is_done)
    running.result()
    bench.close()
    assert rig.landed() == [b"value %d" % n for n in range(16)]


def test_a_topic_that_the_cluster_refuses_stops_no_other(rig: Rig) -> None:
    both = two_topics(rig)
    rig.run(rig.land(selection=both))
    rig.cluster.create_policy = lambda topic, _: "not this one" if topic == "copy.u" else ""
    lanes = {lane.place.topic: lane for lane in rig.run(rig.replay(selection=both))}
    assert lanes["t"].is_complete
    assert rig.replayed() == VALUES
    assert (lanes["u"].is_complete, "not this one" in lanes["u"].reason) == (False, True)


def test_a_topic_that_the_cluster_refused_is_tried_again(rig: Rig) -> None:
    both = two_topics(rig)
    rig.run(rig.land(selection=both))
    answers = itertools.chain(["not yet", "not yet"], itertools.repeat(""))
    rig.cluster.create_policy = lambda topic, _: next(answers) if topic == "copy.u" else ""
    assert all(lane.is_complete for lane in rig.run(rig.replay(selection=both)))
    assert [one.value for one in committed(rig.cluster.log("copy.u"))] == VALUES[:3]


def test_a_cluster_that_refuses_every_topic_ends_the_copy(rig: Rig) -> None:
    rig.run(rig.land())
    rig.cluster.create_policy = lambda *_: "none of them"
    with pytest.raises(Refused):
        rig.run(rig.replay())


def test_a_partition_without_a_leader_stops_no_other(rig: Rig) -> None:
    """It is copied up to its end at the return of its leader."""
    both = two_topics(rig)
    rig.cluster.partition("u").elect(-1)

    def elect() -> None:
        assert rig.landed() == VALUES, "the other topic is copied"
        rig.cluster.move_leader("u", 0, 1)

    rig.cluster.later(90, elect)
    assert all(lane.is_complete for lane in rig.run(rig.land(selection=both)))


def two_topics(rig: Rig) -> TopicSelection:
    """Create topic `u` with three records, and select it with `t`."""
    rig.cluster.create_topic("u", 1, 1)
    rig.write(0, 3, "u")
    return TopicSelection("t|u")


PRODUCE, ADD, END = 0, 24, 26
TIMEOUT = 5.0


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("late", [PRODUCE, ADD, END])
@pytest.mark.parametrize("applied", [False, True])
def test_a_replay_continues_after_its_transaction_timed_out(
    rig: Rig, level: int, late: int, applied: bool
) -> None:
    rig.run(rig.land())
    rig.use_cluster(level, transaction_timeout_seconds=TIMEOUT)
    rig.cluster.faults.plant(late, Delay(TIMEOUT + 3, applied=applied))
    (lane,) = rig.run(rig.replay())
    assert lane.is_complete
    assert rig.replayed() == VALUES


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("late", [PRODUCE, END])
def test_a_replay_whose_transaction_timed_out_fences_no_new_owner(rig: Rig, level: int, late: int) -> None:
    rig.run(rig.land())
    rig.use_cluster(level, transaction_timeout_seconds=TIMEOUT)

    known, owners = rig.cluster.coordinator.known, list[tuple[int, int]]()

    def take() -> None:
        (name,) = known
        rig.cluster.coordinator.fence(name)
        owners.append((known[name].producer, known[name].epoch))

    rig.cluster.faults.plant(late, Delay(TIMEOUT + 3))
    rig.cluster.later(TIMEOUT + 1, take)
    (lane,) = rig.run(rig.replay())
    assert lane.is_over
    assert re.search("another owner|PRODUCER_FENCED", lane.reason)
    assert owners == [(one.producer, one.epoch) for one in known.values()]
    assert rig.replayed() == []
