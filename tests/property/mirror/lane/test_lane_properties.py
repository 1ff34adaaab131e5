"""A lane under every order of fetches, responses, lost connections, rejections and crashes.

The destination is a plain model with a broker's rules for producers and sequences.
"""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import MOST_IN_FLIGHT, Lane
from mirror.lane.ledger import OffsetClass
from mirror.lane.memory import BufferPool
from mirror.lane.out_batch import OutBatch
from mirror.lane.progress import entries_of
from mirror.lane.progress_decoder import read_progress
from mirror.lane.rules import MergeRule, RoutingRules
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.codes import Code
from mirror.replication.lanes.delivery import LaneDelivery, UnsavedProgress
from mirror.replication.lanes.producer_identities import ProducerIdentities
from tests.examples import examples
from tests.models.source_log import SourceLog, source_logs
from tests.models.target_log import TargetLog

KEY = LaneKey(GroupName("g"), TopicPartition("t", 0))
SPEC = LaneSpec(KEY, TaskName("g-0"), ClusterRef("a"), ClusterRef("b"), "t")
RULES = st.sampled_from(
    [
        RoutingRules(),
        RoutingRules(merge=MergeRule()),
        RoutingRules(opens_records=True),
        RoutingRules(merge=MergeRule(), opened_below=30, opened_epoch=2**31 - 1),
        RoutingRules(merge=MergeRule(), opened_below=30, opened_epoch=2**31 - 1, opens_singly=True),
    ]
)
STEPS = st.sampled_from(
    ["fetch", "fetch", "send", "send", "send", "answer", "answer", "lose", "refuse", "shed", "store"]
)


class World:
    """One lane between a source and a destination, one connection, and the stored checkpoint."""

    def __init__(self, log: SourceLog, rules: RoutingRules) -> None:
        self.log = log
        self.rules = rules
        self.target = TargetLog()
        self.budget = ByteBudget(10**9)
        self.pool = BufferPool(1 << 16, self.budget)
        self.wire: deque[tuple[OutBatch, int, int]] = deque()
        self.stored: dict[bytes, bytes] = {}
        self.epoch = -1
        self.delivery = LaneDelivery(UnsavedProgress("test"))
        self.highest_checkpoint = 0
        self.lane = self.new_lane()

    def new_lane(self) -> Lane:
        lane = Lane(SPEC)
        progress = read_progress(KEY, self.stored)
        if progress is None:
            self.delivery.unsaved.begin(lane, self.log.start)
        else:
            self.delivery.unsaved.load(lane, progress)
        lane.read.rules = self.rules
        self.epoch += 1
        ProducerIdentities(self.delivery).begin(lane, ProducerStamp(77, self.epoch), 0)
        return lane

    def fetch(self, size: int) -> None:
        data = self.log.fetch(self.lane.read.position, size)
        slab = self.pool.slab(len(data))
        assert slab is not None
        view = memoryview(slab.buffer)[: len(data)]
        view[:] = data
        router = BatchRouter(self.rules, self.lane.read.position, self.budget)
        router.take(view, self.log.aborted_in(self.lane.read.position), slab)
        slab.release()
        self.delivery.accept(self.lane, router, 0.0)
        self.delivery.settle(self.lane)

    def send(self) -> None:
        outgoing = self.delivery.next_batch(self.lane)
        if outgoing is not None:
            broken = any(error for _, error, _ in self.wire)
            self.wire.append(
                (outgoing, *(self.target.append(bytes(outgoing.batch)) if not broken else (45, -1)))
            )
        assert self.lane.queue.in_flight == len(self.wire) <= MOST_IN_FLIGHT

    def answer(self) -> None:
        if self.wire:
            outgoing, error, base = self.wire.popleft()
            assert error == Code.NONE
            self.delivery.acknowledge(self.lane, outgoing, base, 0, 0.0)
            self.delivery.settle(self.lane)

    def lose(self, stored: int) -> None:
        """Break the connection after the broker has stored the first `stored` outstanding batches."""
        keep = {id(outgoing) for outgoing, _, _ in list(self.wire)[:stored]}
        self.forget(keep)

    def forget(self, keep: set[int]) -> None:
        lost = [outgoing for outgoing, _, _ in self.wire if id(outgoing) not in keep]
        if lost:
            records = sum(outgoing.count for outgoing in lost)
            del self.target.records[len(self.target.records) - records :]
            state = self.target.producers[77]
            gone = {outgoing.sequence for outgoing in lost}
            state.recent = [entry for entry in state.recent if entry[0] not in gone]
            state.next_sequence = lost[0].sequence
            if not state.recent:
                del self.target.producers[77]
                if self.lane.ownership.is_established:
                    self.target.producers[77] = state
        for outgoing, _, _ in self.wire:
            self.delivery.unanswered(self.lane, outgoing, maybe_stored=True)
        self.wire.clear()
        self.delivery.requeue(self.lane)

    def refuse(self) -> None:
        """Reject all outstanding batches because the destination temporarily has too few replicas."""
        self.forget(set())

    def store(self) -> None:
        entries, sealed = entries_of(KEY, self.lane.stored_progress(), 0)
        self.stored |= {key: value for key, value in entries if value is not None}
        self.lane.progress.offset_map.sealed = sealed
        self.highest_checkpoint = self.lane.checkpoint

    def check(self) -> None:
        assert self.lane.progress.ledger.is_balanced
        assert self.highest_checkpoint <= self.lane.checkpoint <= self.lane.read.position
        assert self.lane.queue.bytes_in_hand == sum(
            len(item.batch)
            for item in self.lane.queue.sent + self.lane.queue.unsent
            if isinstance(item, OutBatch)
        )

    def finish(self) -> None:
        while self.lane.read.position < self.log.end and self.log.fetch(self.lane.read.position, 1):
            self.fetch(10**6)
        while not self.lane.queue.is_drained:
            self.send()
            self.answer()
            self.check()


def run(world: World, data: st.DataObject, *, crashes: bool) -> int:
    """Run random steps; return the number of crashes."""
    died = 0
    steps = STEPS | st.just("crash") if crashes else STEPS
    for step in data.draw(st.lists(steps, max_size=40)):
        if step == "fetch":
            world.fetch(data.draw(st.integers(1, 500)))
        elif step == "lose":
            world.lose(data.draw(st.integers(0, len(world.wire))))
        elif step == "shed":
            world.delivery.shed(world.lane)
        elif step == "crash":
            world.wire.clear()
            world.lane = world.new_lane()
            died += 1
        else:
            getattr(world, step)()
        world.check()
    world.finish()
    return died


@settings(max_examples=examples(200))
@given(source_logs(old_formats=True), RULES, st.data())
def test_without_a_crash_every_record_arrives_once_in_order(
    log: SourceLog, rules: RoutingRules, data: st.DataObject
) -> None:
    world = World(log, rules)
    run(world, data, crashes=False)
    assert [record.content for record in world.target.records] == [record.content for record in log.visible]
    lane = world.lane
    assert lane.progress.ledger.total(OffsetClass.MIRRORED) == len(log.visible)
    for target, record in enumerate(log.visible):
        assert lane.progress.offset_map.forward(record.offset).offset == target
        assert lane.progress.offset_map.backward(target).offset == record.offset
    assert lane.observed.foreign_records == 0
    assert lane.queue.bytes_in_hand == 0
    assert world.budget.used == 0


@settings(max_examples=examples(200))
@given(source_logs(old_formats=True), RULES, st.data())
def test_a_crash_loses_nothing_and_the_map_points_at_the_newest_copy(
    log: SourceLog, rules: RoutingRules, data: st.DataObject
) -> None:
    world = World(log, rules)
    died = run(world, data, crashes=True)
    copies = [record.content for record in world.target.records]
    assert len(copies) >= len(log.visible)
    if not died:
        assert copies == [record.content for record in log.visible]
    for record in log.visible:
        target = world.lane.progress.offset_map.forward(record.offset).offset
        assert copies[target] == record.content
    newest = [world.lane.progress.offset_map.forward(record.offset).offset for record in log.visible]
    assert newest == sorted(newest)


@given(source_logs())
def test_a_new_identity_sends_one_batch_until_it_is_accepted(log: SourceLog) -> None:
    world = World(log, RoutingRules())
    world.fetch(10**6)
    waiting = sum(isinstance(item, OutBatch) for item in world.lane.queue.unsent)
    world.send()
    world.send()
    assert world.lane.queue.in_flight == min(waiting, 1)
    world.answer()
    for _ in range(MOST_IN_FLIGHT + 1):
        world.send()
    assert world.lane.queue.in_flight == min(max(waiting - 1, 0), MOST_IN_FLIGHT)


@given(source_logs(), st.integers(0, 5))
def test_letting_go_returns_to_the_checkpoint_with_the_right_sequence(log: SourceLog, answers: int) -> None:
    world = World(log, RoutingRules())
    world.fetch(10**6)
    for _ in range(answers):
        world.send()
        world.answer()
    world.delivery.drop(world.lane)
    assert world.lane.read.position == world.lane.checkpoint
    assert world.budget.used == 0
    world.finish()
    assert [record.content for record in world.target.records] == [record.content for record in log.visible]


def test_lost_offsets_enter_the_ledger_behind_what_is_under_way() -> None:
    lane, delivery = Lane(SPEC), LaneDelivery(UnsavedProgress("test"))
    delivery.unsaved.begin(lane, 10)
    delivery.lose(lane, 25, "offsets 10 to 24 are lost")
    assert lane in delivery.unsaved.dirty
    assert lane.progress.gaps == ["offsets 10 to 24 are lost"]
    assert (lane.checkpoint, lane.read.position, lane.progress.ledger.total(OffsetClass.LOST)) == (25, 25, 15)
