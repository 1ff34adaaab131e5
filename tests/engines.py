"""Batch engine between two real clusters, driven by a test, with an independent check of its copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.lane.lane import Lane
from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LanePaused, LaneResumed, LaneSpec, LaneStopped
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions
from tests.fakes.broker.contents import Seen
from tests.kafka_data import Record
from tests.patience import PATIENCE_SECONDS

SOURCE: Final = ClusterRef("source")
DESTINATION: Final = ClusterRef("destination")
STEP_SECONDS: Final = 0.05


@dataclass
class EngineUnderTest:
    """One engine and its events. `access` overrides the access to clusters."""

    source: str
    destination: str
    options: Mapping[str, Any] = field(default_factory=dict)
    access: Mapping[str, ClusterAccess] = field(default_factory=dict)
    checkpoint_seconds: float = 0.3
    progress_topic: str = "headrace-progress"
    events: list[LaneEvent] = field(default_factory=list)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        plain: dict[str, ClusterAccess] = {
            SOURCE: ClusterAccess(endpoints(self.source)),
            DESTINATION: ClusterAccess(endpoints(self.destination)),
        }
        known = {**plain, **self.access}
        identity = EngineIdentity(
            "test",
            checkpoint_interval_seconds=self.checkpoint_seconds,
            progress_topic=self.progress_topic,
            keeps_reports=True,
        )
        options = {"probe_first_seconds": 0.2, "probe_longest_seconds": 1.0, "request_timeout_seconds": 60.0}
        self.context = EngineContext(
            known.__getitem__,
            CopyingOptions(**{**options, **self.options}),
            identity,
            self.clock,
        )
        self.engine = BatchEngine(self.context)

    @property
    def lanes(self) -> Mapping[LaneKey, Lane]:
        """Lanes by key."""
        return self.engine.lanes.by_key

    def lane(self, topic: str, partition: int = 0, destination: str = "") -> Lane:
        """Return one lane of any group; give the destination topic if there are several copies."""
        (lane,) = [
            one
            for key, one in self.lanes.items()
            if key.partition == (topic, partition)
            and (not destination or one.spec.destination_topic == destination)
        ]
        return lane

    def start(
        self, topic: str, partitions: int = 1, destination: str = "", group: str = "", **fields: Any
    ) -> None:
        """Start a lane for each partition of the topic."""
        self.engine.start_lanes(specs(topic, partitions, destination, group, **fields))

    def step(self, seconds: float = STEP_SECONDS) -> None:
        """Run one round."""
        self.events.extend(self.engine.step(seconds))

    def run_until(self, condition: Callable[[], object], what: str) -> None:
        """Run rounds until the condition holds."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < until, f"{what}: timed out; {self.describe()}"
            self.step()

    def run_for(self, seconds: float) -> None:
        """Run rounds for this time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.step(0.02)

    def run_to(self, topic: str, offsets: Sequence[int], destination: str = "") -> None:
        """Run until the checkpoint of each partition of the topic has reached its offset."""

        def there() -> bool:
            lanes = [self.lane(topic, number, destination) for number in range(len(offsets))]
            return all(
                lane.checkpoint >= offset and not lane.ownership.is_in_transaction
                for lane, offset in zip(lanes, offsets, strict=True)
            )

        self.run_until(there, f"checkpoints of {topic} at {offsets}")

    def run_until_stored(self) -> None:
        """Run until the progress of all lanes is stored, and no write is in progress."""
        unsaved, destinations = self.engine.lanes.unsaved, self.engine.checkpoints._destinations

        def is_stored() -> bool:
            return not unsaved.dirty and not any(one.is_saving for one in destinations.values())

        self.run_until(is_stored, "progress is stored")

    def stop(self) -> None:
        """Stop cleanly."""
        self.events.extend(self.engine.close(60))

    def crash(self) -> None:
        """Stop as after SIGKILL: connections drop and state is lost."""
        self.context.close()

    def paused(self) -> list[LanePaused]:
        """Return the pauses reported so far."""
        return [event for event in self.events if isinstance(event, LanePaused)]

    def resumed(self) -> list[LaneResumed]:
        """Return the resumptions reported so far."""
        return [event for event in self.events if isinstance(event, LaneResumed)]

    def stopped(self) -> list[LaneStopped]:
        """Return the stops reported so far."""
        return [event for event in self.events if isinstance(event, LaneStopped)]

    def describe(self) -> str:
        """Return the state of the lanes for messages of failed assertions."""
        return "; ".join(
            f"{key.partition} {lane.state} at {lane.checkpoint} of {lane.read.high_watermark}"
            f" (in flight {lane.queue.in_flight}, {lane.pause.reason if lane.pause else 'no pause'})"
            for key, lane in self.lanes.items()
        )


def specs(
    topic: str, partitions: int = 1, destination: str = "", group: str = "", **fields: Any
) -> list[LaneSpec]:
    """Return the lane specs of one topic; the group is named after the destination topic by default."""
    name = group or f"g-{destination or topic}"
    return [
        LaneSpec(
            LaneKey(GroupName(name), TopicPartition(topic, number)),
            TaskName(f"{name}-0"),
            SOURCE,
            DESTINATION,
            destination or topic,
            **fields,
        )
        for number in range(partitions)
    ]


@cache
def _consumer(address: str, committed: bool) -> Consumer:
    """Return the shared consumer of a cluster and isolation level; creating one takes half a second."""
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )


def look(address: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[Seen]:
    """Return every record of a partition, read by another client."""
    return look_all(address, topic, [partition], committed=committed)[partition]


def look_all(
    address: str, topic: str, partitions: Sequence[int], *, committed: bool = True
) -> dict[int, list[Seen]]:
    """Return every record of these partitions, read by another client."""
    consumer = _consumer(address, committed)
    found: dict[int, list[Seen]] = {number: [] for number in partitions}
    remaining = set(partitions)
    consumer.assign([Place(topic, number, OFFSET_BEGINNING) for number in partitions])
    until = time.monotonic() + PATIENCE_SECONDS
    while remaining:
        assert time.monotonic() < until, f"{topic}: partitions {remaining} were not read to their ends"
        for message in consumer.consume(5_000, timeout=0.05):
            error, number = message.error(), message.partition()
            assert number is not None
            if error is None:
                until = time.monotonic() + PATIENCE_SECONDS
                found[number].append(_seen(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                remaining.discard(number)
    consumer.unassign()
    return found


@cache
def _producer(address: str, settings: tuple[tuple[str, object], ...]) -> Producer:
    # One request at a time: the leader of a new topic may reject the first, and the second would overtake it.
    plain = {"bootstrap.servers": address, "acks": "all", "log_level": 0, "max.in.flight": 1}
    return Producer({**plain, **dict(settings)})


def write(
    address: str, topic: str, records: Iterable[Record], per_batch: int = 0, **settings: object
) -> None:
    """Write records in order, with `per_batch` in batches of exactly that size.

    Underscores in setting names stand for dots.
    """
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    if per_batch:
        dotted["linger.ms"] = 120_000  # a flush sends at once
    producer = _producer(address, tuple(sorted(dotted.items())))
    failures: list[KafkaError] = []
    for number, record in enumerate(records, start=1):
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        if per_batch and number % per_batch == 0:
            assert producer.flush(PATIENCE_SECONDS) == 0
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not failures, failures


def _seen(message: Any) -> Seen:
    headers = tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in message.headers() or []
    )
    return Seen(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)


def check_copy(
    engine: EngineUnderTest,
    topic: str,
    partitions: int = 1,
    destination: str = "",
    *,
    expected: Mapping[int, Sequence[Seen]] | None = None,
) -> int:
    """Compare record by record: content, order, no duplicates, and positions in the offset map.

    Returns the number of records. `expected` replaces the current records of the source.
    """
    total = 0
    sources = expected or look_all(engine.source, topic, range(partitions))
    copies = look_all(engine.destination, destination or topic, range(partitions))
    for number in range(partitions):
        here, there = list(sources[number]), copies[number]
        assert [one.content for one in there] == [one.content for one in here], f"{topic}-{number} differs"
        check_map(engine.lane(topic, number, destination), here, there)
        total += len(here)
    return total


def check_map(lane: Lane, here: Sequence[Seen], there: Sequence[Seen]) -> None:
    """Check that offsets translate in both directions, and that the ledger is balanced."""
    for one, two in zip(here, there, strict=True):
        assert lane.progress.offset_map.forward(one.offset) == (two.offset, "exact")
        assert lane.progress.offset_map.backward(two.offset) == (one.offset, "exact")
    assert lane.progress.ledger.is_balanced
