"""An engine between two fake clusters, in one thread and in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mirror.client.access import ClusterAccess, endpoints
from mirror.lane.lane import Lane
from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LanePaused, LaneStopped
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions
from tests.engines import specs
from tests.fakes.broker.batches import Content
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.contents import Seen, committed
from tests.fakes.broker.memory import Network
from tests.fakes.broker.transactions import Transactional
from tests.fakes.broker.virtual import VirtualSelector
from tests.fakes.clock import ManualClock

_STEP_SECONDS: Final = 0.05
_LONG_STEP_SECONDS: Final = 0.25
_PATIENCE_SECONDS: Final = 300.0
_OPTIONS: Final[Mapping[str, Any]] = {
    "probe_first_seconds": 0.5,
    "probe_longest_seconds": 5.0,
    "transaction_interval_seconds": 0.3,
}


class MirroredFakes:
    """Engine with fake clusters. `script`: see `VirtualSelector`. `options` of the engine.

    `rack`: rack of the engine. `others`: names of further source clusters. `checkpoint_seconds`: checkpoint
    interval.
    """

    def __init__(
        self,
        brokers: int = 2,
        *,
        transaction_level: int = 2,
        racks: Sequence[str] = (),
        rack: str = "",
        options: Mapping[str, Any] | None = None,
        checkpoint_seconds: float = 0.3,
        script: Callable[[], float | None] | None = None,
        others: Sequence[str] = (),
    ) -> None:
        self.clock = ManualClock()
        self.network = Network()
        self.network.now = self.clock.monotonic
        level, network = transaction_level, self.network
        self.source = FakeCluster(
            "a", brokers, self.clock, transaction_level=level, racks=racks, network=network
        )
        self.target = FakeCluster("b", brokers, self.clock, transaction_level=level, network=network)
        self.others = {name: FakeCluster(name, 1, self.clock, network=network) for name in others}
        self.events: list[LaneEvent] = []
        self.script = script
        self._rack = rack
        self._options = {**_OPTIONS, **(options or {})}
        self._checkpoint_seconds = checkpoint_seconds
        self._contexts: dict[BatchEngine, EngineContext] = {}
        self.woken: list[BatchEngine] = []
        """Engines that run beside the current one."""
        self.engine = self.new_engine()

    def new_engine(self) -> BatchEngine:
        """Start another engine, which becomes the current one."""
        access = {
            "source": ClusterAccess(endpoints(self.source.address), rack=self._rack),
            "destination": ClusterAccess(endpoints(self.target.address)),
            **{name: ClusterAccess(endpoints(one.address)) for name, one in self.others.items()},
        }
        clusters = [self.source, self.target, *self.others.values()]
        selector = VirtualSelector(self.clock, clusters, self.script)
        context = self.context = EngineContext(
            access.__getitem__,
            CopyingOptions(**self._options),
            EngineIdentity("test", checkpoint_interval_seconds=self._checkpoint_seconds),
            self.clock,
            selector,
        )
        self.engine = BatchEngine(context)
        self._contexts[self.engine] = context
        self.selector = selector
        context.loop.new_socket = self.network.socket
        return self.engine

    def make_topic(self, name: str, partitions: int = 1, replication: int = 2, **settings: str) -> None:
        """Create the topic on both sides; the settings apply to the destination only."""
        self.source.create_topic(name, partitions, replication)
        self.target.create_topic(name, partitions, replication, **settings)

    def write(self, topic: str, first: int, count: int, number: int = 0, *, codec: int = 0) -> None:
        """Write one batch to the source, with these numbers as values."""
        self.source.write(topic, self.records(first, count), number, codec=codec)

    def records(self, first: int, count: int) -> list[Content]:
        """Return records with these numbers as values."""
        now_ms = self.clock.now_ms()
        return [(now_ms, b"key", b"%d" % n, [("h", b"x")]) for n in range(first, first + count)]

    def start(self, topic: str, partitions: int = 1, **fields: Any) -> None:
        """Start a lane for each partition."""
        self.engine.start_lanes(specs(topic, partitions, **fields))

    def copy_exactly_once(self, records: int = 20) -> None:
        """Create topic `t` and copy that number of records in an exactly-once lane."""
        self.make_topic("t")
        self.write("t", 0, records)
        self.start("t", policy=CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE))
        self.run_to("t", records)

    def transactional(self) -> Transactional:
        """Return the state of the only lane's transactional id at the destination."""
        known = self.target.coordinator.known
        (found,) = [one for name, one in known.items() if name.startswith("headrace-")]
        return found

    def run(self, seconds: float) -> None:
        """Advance virtual time."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            longest = _STEP_SECONDS if self.woken else _LONG_STEP_SECONDS
            self.events.extend(self.engine.step(min(longest, until - self.clock.monotonic())))
            for engine in self.woken:
                engine.step(_STEP_SECONDS)

    def run_until(self, condition: Callable[[], object], what: str) -> None:
        """Advance virtual time until the condition holds."""
        until = self.clock.monotonic() + _PATIENCE_SECONDS
        while not condition():
            assert self.clock.monotonic() < until, f"{what}: timed out; {self.describe()}"
            self.events.extend(self.engine.step(_STEP_SECONDS))

    def is_unsaved(self, lane: Lane) -> bool:
        """Return whether the lane has progress that no checkpoint includes."""
        return lane in self.engine.lanes.unsaved.dirty

    def run_to(self, topic: str, offset: int, number: int = 0) -> None:
        """Run until the durable checkpoint of the lane has reached the offset."""

        def is_there() -> bool:
            lane = self.lane(topic, number)
            is_stored = not lane.ownership.is_in_transaction and not self.is_unsaved(lane)
            return lane.checkpoint >= offset and is_stored

        self.run_until(is_there, f"{topic}-{number} at {offset}")

    def run_until_paused(self, topic: str, number: int = 0) -> str:
        """Run until the lane has paused; return the reason."""
        key = self.lane(topic, number).key
        self.run_until(lambda: self.pauses(key), f"{topic}-{number} pauses")
        return self.pauses(key)[-1]

    def pauses(self, key: LaneKey) -> list[str]:
        """Return the reasons of all pauses of a lane so far."""
        return [one.reason for one in self.events if isinstance(one, LanePaused) and one.key == key]

    def lane(self, topic: str, number: int = 0) -> Lane:
        """Return the lane of a partition."""
        lanes = self.engine.lanes.by_key
        (found,) = [lane for key, lane in lanes.items() if key.partition == (topic, number)]
        return found

    def stop(self) -> list[LaneStopped]:
        """Stop the engine cleanly; return the events of stopped lanes."""
        self.events.extend(self.engine.close(60))
        return [event for event in self.events if isinstance(event, LaneStopped)]

    def crash(self) -> None:
        """Kill the engine: connections drop and state is lost."""
        self.kill(self.engine)

    def kill(self, engine: BatchEngine) -> None:
        """Kill an engine."""
        self._contexts[engine].close()

    def restart(self, topic: str, partitions: int = 1, **fields: Any) -> None:
        """Kill the engine and start the lanes in another one."""
        self.crash()
        self.new_engine()
        self.start(topic, partitions, **fields)

    def copied(self, topic: str, number: int = 0) -> list[Seen]:
        """Return the records that a read_committed consumer gets from the destination."""
        return committed(self.target.log(topic, number))

    def numbers(self, topic: str, number: int = 0) -> list[int]:
        """Return the values of the copied records."""
        return [int(one.value or b"-1") for one in self.copied(topic, number)]

    def check_contents(self, topic: str, partitions: int = 1) -> None:
        """Check that the destination has exactly the records of the source, in order."""
        for number in range(partitions):
            here, there = committed(self.source.log(topic, number)), self.copied(topic, number)
            assert [one.content for one in there] == [one.content for one in here], f"{topic}-{number}"

    def check(self, topic: str, partitions: int = 1) -> None:
        """Check contents, and that the offset map has the position of every record."""
        self.check_contents(topic, partitions)
        for number in range(partitions):
            here, there = committed(self.source.log(topic, number)), self.copied(topic, number)
            lane = self.lane(topic, number)
            for one, two in zip(here, there, strict=True):
                assert lane.progress.offset_map.forward(one.offset) == (two.offset, "exact")
            assert lane.progress.ledger.is_balanced

    def describe(self) -> str:
        """Return the state of the lanes for messages of failed assertions."""
        return "; ".join(
            f"{key.partition} {lane.state} at {lane.checkpoint} of {lane.read.high_watermark}"
            f" (in flight {lane.queue.in_flight}, {lane.pause.reason if lane.pause else 'no pause'})"
            for key, lane in self.engine.lanes.by_key.items()
        )

    def close(self) -> None:
        """Close everything. Fails if an engine leaves a connection open."""
        for context in self._contexts.values():
            context.close()
        left = len(self.network.open_clients)
        for cluster in (self.source, self.target, *self.others.values()):
            cluster.close()
        assert left == 0, f"{left} connections are still open"
