"""Test that a lane whose step fails pauses with the reason and releases its memory, whatever else fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Final

import pytest
from structlog.typing import EventDict

from mirror.client.access import ClusterAccess
from mirror.errors import Fenced, RecordRejected, TopicMissing, Unreachable
from mirror.lane.batch_router import BatchRouter
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import EventKind, Intent, LaneAction, LaneState, Lifecycle, LifecycleEvent
from mirror.lane.memory import BufferPool
from mirror.lane.out_batch import OutBatch
from mirror.lane.progress import Contents
from mirror.lane.rules import RoutingRules
from mirror.loggers import set_threshold
from mirror.model.datastreams.lanes import LaneEvent, LanePaused, LaneResumed, LaneStopped
from mirror.model.identifiers import ClusterRef
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.protocol.codes import Code
from mirror.protocol.produce import ProducedPartition
from mirror.replication.channels.sender import Sender
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.handlers.ack_handler import AckHandler
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.handlers.stalls import StallReporter
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.delivery import LaneDelivery, UnsavedProgress
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.options import CopyingOptions
from mirror.replication.ownership.transactions import TransactionManager
from mirror.replication.quotas.quota_watch import QuotaWatch
from mirror.replication.quotas.read_pacer import ReadPacer
from mirror.replication.reports.lane_reports import report_of
from tests.builders import a_spec
from tests.fakes.clock import ManualClock


class UnreliableDelivery(LaneDelivery):
    """Items of lanes. The method `failing` fails for the lane `of`."""

    def __init__(self, unsaved: UnsavedProgress) -> None:
        super().__init__(unsaved)
        self.failing, self.of = "", Lane(a_spec("none-0"))

    def _check(self, name: str, lane: Lane) -> None:
        if name == self.failing and lane is self.of:
            raise ZeroDivisionError(name)

    def drop(self, lane: Lane) -> None:
        self._check("drop", lane)
        super().drop(lane)

    def shed(self, lane: Lane) -> None:
        self._check("shed", lane)
        super().shed(lane)

    def settle(self, lane: Lane) -> bool:
        self._check("settle", lane)
        return super().settle(lane)

    def invalidate(self, lane: Lane) -> None:
        self._check("invalidate", lane)
        super().invalidate(lane)


class Rig:
    """A runner without clusters, with copying lanes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        identity = EngineIdentity("unit")
        self.bench = EngineContext(lambda _: ClusterAccess(()), CopyingOptions(), identity, self.clock)
        self.registry = LaneRegistry(self.bench)
        self.delivery = self.registry.delivery = UnreliableDelivery(self.registry.unsaved)
        self.runner = LaneRunner(
            self.bench, self.registry, partial(TransactionManager, self.bench, self.registry)
        )
        pacer = ReadPacer(self.bench, self.registry, self.runner, QuotaWatch(self.bench, self.registry))
        self.writing = AckHandler(
            self.bench,
            self.registry,
            self.runner,
            pacer,
            Rejections(self.bench, self.registry, self.runner),
        )

    def lane(self, partition: str, failing: str = "") -> Lane:
        """Return a copying lane with two queued batches. `failing`: method of the delivery that fails."""
        lane = Lane(a_spec(partition), 1000, ())
        self.registry.unsaved.begin(lane, 0)
        lane.contents, lane.lifecycle = Contents.LOADED, Lifecycle(LaneState.COPYING)
        self.registry.by_key[lane.key] = lane
        slab = BufferPool(200_000, self.bench.budget).slab(100_000)
        assert slab is not None
        data = bytearray()
        for number in range(2):
            batch = write_batch([Record(0, 1, None, bytes(100))])
            batch[0:8] = number.to_bytes(8, "big")
            data += batch
        slab.buffer[: len(data)] = data
        router = BatchRouter(RoutingRules(), 0, self.bench.budget)
        router.take(memoryview(slab.buffer)[: len(data)], (), slab)
        slab.release()
        self.registry.identities.begin(lane, ProducerStamp(1, 0), 0)
        self.delivery.accept(lane, router, 0.0)
        if failing:
            self.delivery.failing, self.delivery.of = failing, lane
        return lane

    @property
    def reasons(self) -> dict[str, str]:
        """Reasons of the reported pauses, by partition."""
        found: list[LaneEvent] = self.registry.events
        return {str(one.key.partition): one.reason for one in found if isinstance(one, LanePaused)}


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.bench.close()


@pytest.mark.parametrize("name", ["nothing else", "drop", "invalidate", "settle", "shed"])
@pytest.mark.parametrize("is_sent", [False, True])
def test_whatever_else_fails_the_lane_pauses_and_its_memory_comes_back(
    rig: Rig, name: str, is_sent: bool
) -> None:
    lane, other = rig.lane("t-0", failing=name), rig.lane("t-1")
    outgoing = rig.delivery.next_batch(lane) if is_sent else None
    held = rig.bench.budget.used
    rig.runner.guard(lane, lambda _: 1 // 0)
    if outgoing is not None:
        rig.writing.on_answer(lane, outgoing, ProducedPartition(b"", 0, 0, 0, (), "", None))
    assert lane.state is LaneState.PAUSED
    assert list(rig.reasons) == ["t-0"]
    assert "ZeroDivisionError" in rig.reasons["t-0"]
    assert (lane.queue.unsent, lane.queue.sent, lane.queue.in_flight, lane.queue.bytes_in_hand) == (
        [],
        [],
        0,
        0,
    )
    assert rig.bench.budget.used == held // 2
    assert (lane.is_loaded, lane.ownership.identity) == (False, None)
    assert (other.state, len(other.queue.unsent)) == (LaneState.COPYING, 2)
    rig.clock.advance(60)
    rig.runner.probe(rig.clock.monotonic())
    assert list(rig.registry.to_start) == [lane]


def test_an_error_that_was_foreseen_is_the_reason_and_the_lane_is_not_loaded_anew(rig: Rig) -> None:
    lane = rig.lane("t-0")
    rig.runner.set_aside(lane, Unreachable("nobody is there"))
    assert "nobody is there" in rig.reasons["t-0"]
    assert lane.is_loaded
    assert not lane.is_fenced


def test_a_lane_that_is_fenced_does_not_try_again(rig: Rig) -> None:
    lane = rig.lane("t-0")
    rig.runner.set_aside(lane, Fenced("another owner"))
    assert lane.is_fenced
    rig.clock.advance(3600)
    rig.runner.probe(rig.clock.monotonic())
    assert not rig.registry.to_start


def test_a_step_that_no_longer_counts_pauses_nothing(rig: Rig) -> None:
    lane = rig.lane("t-0")

    async def restart_and_fail() -> None:
        rig.runner.restart(lane, "as the test wants it")
        raise ZeroDivisionError

    rig.runner.spawn(lane, restart_and_fail())
    assert (lane.state, rig.reasons) == (LaneState.STARTING, {})


def test_a_lane_that_fails_while_it_stops_stops(rig: Rig) -> None:
    lane = rig.lane("t-0", failing="drop")
    lane.lifecycle = lane.lifecycle._replace(state=LaneState.DRAINING, intent=Intent.STOP)
    rig.runner.set_aside(lane, ZeroDivisionError())
    assert list(rig.registry.stopping) == [lane]
    assert not lane.is_loaded


def test_a_lane_that_stops_is_not_paused_where_letting_go_fails(rig: Rig) -> None:
    lane = rig.lane("t-0", failing="drop")
    outgoing = rig.delivery.next_batch(lane)
    assert outgoing is not None
    rig.runner.stop(lane)
    refused = ProducedPartition(b"", 0, Code.TOPIC_AUTHORIZATION_FAILED, -1, (), "", None)
    rig.writing.on_answer(lane, outgoing, refused)
    assert (lane.state, list(rig.registry.stopping)) == (LaneState.CHECKPOINTING, [lane])
    assert rig.bench.budget.used == 0


def test_a_lane_whose_step_fails_while_it_is_paused_is_loaded_again_and_stores_what_it_copies(
    rig: Rig,
) -> None:
    lane = rig.lane("t-0")
    rig.runner.pause(lane, RecordRejected("null key"))
    rig.runner.guard(lane, lambda _: 1 // 0)
    assert (lane.state, lane.is_loaded, lane.is_broken) == (LaneState.PAUSED, False, False)
    assert "ZeroDivisionError" in rig.reasons["t-0"]
    rig.clock.advance(60)
    rig.runner.probe(rig.clock.monotonic())
    assert list(rig.registry.to_start) == [lane]


def test_a_lane_that_has_stopped_is_not_set_aside_whatever_fails(rig: Rig) -> None:
    lane = rig.lane("t-0", failing="invalidate")
    rig.runner.pause(lane, RecordRejected("null key"))
    rig.runner.stop(lane)
    rig.runner.handle(lane, LifecycleEvent(EventKind.STORED))
    rig.registry.events.clear()
    rig.runner.guard(lane, lambda _: 1 // 0)
    assert lane.state is LaneState.STOPPED
    assert (rig.registry.events, rig.registry.stopping, rig.registry.to_start) == ([], {}, {})


def fail_in(rig: Rig, action: LaneAction) -> None:
    """Make the runner fail to perform this action."""

    def fail(_lane: Lane) -> None:
        raise ZeroDivisionError(action)

    rig.runner._performers[action] = fail


STEPS: Final[dict[str, Callable[[Rig, Lane], object]]] = {
    "stop": lambda rig, lane: rig.runner.stop(lane),
    "pause": lambda rig, lane: rig.runner.pause(lane, RecordRejected("null key")),
    "drain": lambda rig, lane: rig.runner.pause(lane, RecordRejected("behind"), drain=True),
    "fence": lambda rig, lane: rig.runner.set_aside(lane, Fenced("another owner")),
    "restart": lambda rig, lane: rig.runner.restart(lane, "a test says so"),
    "break": lambda rig, lane: 1 // 0,
    "probe": lambda rig, lane: rig.runner.probe(rig.clock.monotonic() + 3_600),
    "answer": lambda rig, lane: answer(rig, lane, 0),
    "refuse": lambda rig, lane: answer(rig, lane, Code.TOPIC_AUTHORIZATION_FAILED),
}
CANNOT_FAIL: Final = {LaneAction.AWAIT_CHECKPOINT, LaneAction.REPORT_STOPPED, LaneAction.FREE}
"""These only record something. A failure even of the last action is tested above."""


def answer(rig: Rig, lane: Lane, error: int) -> None:
    """Answer the outstanding batches."""
    for item in list(lane.queue.sent):
        if isinstance(item, OutBatch) and item.outstanding:
            rig.writing.on_answer(lane, item, ProducedPartition(b"", 0, error, 0, (), "", None))


@pytest.mark.parametrize("action", [None, *(one for one in LaneAction if one not in CANNOT_FAIL)])
def test_whatever_happens_and_fails_a_stop_is_reported_once_and_the_memory_comes_back(
    rig: Rig, action: LaneAction | None
) -> None:
    set_threshold("off")  # thousands of tracebacks
    performers = dict(rig.runner._performers)
    for number, names in enumerate(product(STEPS, repeat=3)):
        lane = rig.lane(f"t-{number}")
        outgoing = rig.delivery.next_batch(lane)
        assert outgoing is not None
        if action is not None:
            fail_in(rig, action)
        for name in names:
            rig.runner.guard(lane, partial(STEPS[name], rig))
        rig.runner._performers.update(performers)
        rig.runner.guard(lane, rig.runner.stop)
        answer(rig, lane, 0)
        if lane.queue.unsent:
            assert rig.delivery.next_batch(lane) is not None, names
            answer(rig, lane, 0)
        if not outgoing.acknowledged:
            rig.writing.on_lost(
                lane, outgoing
            )  # dropped by its lane while the request was still reading from it
        assert lane in rig.registry.stopping, names
        for _ in range(2):
            rig.runner.handle(lane, LifecycleEvent(EventKind.STORED))
        stops = [one for one in rig.registry.events if isinstance(one, LaneStopped)]
        assert [one.key for one in stops] == [lane.key], names
        assert (rig.bench.budget.used, rig.registry.stopping, rig.registry.to_start) == (0, {}, {}), names
        rig.registry.events.clear()


def test_the_traceback_is_logged_once(rig: Rig, logged: list[EventDict]) -> None:
    lane = rig.lane("t-0")
    for _ in range(3):
        rig.runner.guard(lane, lambda _: 1 // 0)
        lane.lifecycle = lane.lifecycle._replace(state=LaneState.COPYING)
    assert len([one for one in logged if one["log_level"] == "error" and one.get("exc_info")]) == 1


def test_an_error_that_repeats_is_told_after_some_seconds_and_until_it_is_over(rig: Rig) -> None:
    lane, other = rig.lane("t-0"), rig.lane("t-1")
    cluster = rig.bench.cluster(lane.spec.destination)
    rig.registry.sinks[lane.spec.destination] = Sender(
        cluster, rig.bench.settings, rig.writing, rig.bench.write_budget
    )
    stalls = StallReporter(rig.bench, rig.registry, rig.runner)
    too_few = ProducedPartition(b"", 0, Code.NOT_ENOUGH_REPLICAS, -1, (), "", None)
    for second in range(12):
        outgoing = rig.delivery.next_batch(lane)
        assert outgoing is not None
        outgoing.sent_at = rig.bench.loop.now()
        rig.writing.on_answer(lane, outgoing, too_few)
        stalls.pump(rig.bench.loop.now())
        assert bool(lane.observed.stalled_by) is (second >= 6)
        rig.clock.advance(1)
    assert list(rig.reasons) == ["t-0"]
    assert "cannot write to t-0 at" in lane.observed.stalled_by
    assert re.search(r"\bNOT_ENOUGH_REPLICAS \(19\).* 2023-11-14 22:13:20\b", lane.observed.stalled_by)
    assert (report_of(lane, 0.0).reason, report_of(other, 0.0).reason) == (lane.observed.stalled_by, "")
    rig.clock.advance(8)
    stalls.pump(rig.bench.loop.now())
    assert not lane.observed.stalled_by
    assert isinstance(rig.registry.events[-1], LaneResumed)


def test_the_end_of_an_outage_wakes_the_lanes_that_paused_because_of_it_and_no_others(rig: Rig) -> None:
    refused = rig.lane("refused-0")
    rig.runner.pause(refused, RecordRejected("null key"))
    rig.clock.advance(10)
    began_ms = rig.clock.now_ms()
    rig.clock.advance(1)
    away = rig.lane("away-0")
    rig.runner.pause(away, Unreachable("connection refused"))
    starting = rig.lane("starting-0")
    rig.runner.pause(starting, TopicMissing("a broker that starts knows no topics yet"))
    fenced = rig.lane("fenced-0")
    rig.runner.pause(fenced, Fenced("another owner"), lasting=True)
    copies = rig.lane("copies-0")
    destination = copies.spec.destination
    assert rig.runner.wake(ClusterRef("another"), began_ms) == []
    assert rig.runner.wake(destination, began_ms) == [away, starting]
    assert list(rig.registry.to_start) == [away, starting]
    assert refused.state is LaneState.PAUSED
    assert fenced.state is LaneState.PAUSED
    assert copies.state is LaneState.COPYING
    assert rig.runner.wake(destination, began_ms) == [], "lanes are woken once"
